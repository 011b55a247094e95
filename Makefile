# The front door. Every target does all of its own set-up (packages, .venv, build) and is quick when nothing changed.
#
#   make demo SLUICE_TORCH_INDEX=ADDRESS   one more package index, for a CPU build of torch (see README.md)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
export SLUICE_TORCH_INDEX
PYTHON := .venv/bin/python

.PHONY: help setup build build-all demo test bench check sanitize fuzz soak model clean

help: ## what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: ## packages and .venv only
	@tools/setup_system.sh build engine
	@tools/setup_python.sh

build: setup ## sluiced, sluice, sluice-proxy, the client library and the Python package
	@tools/build.sh release sluiced sluice sluice-proxy sluice_python

build-all: setup
	@tools/build.sh release

demo: build ## two model kinds, four real engines each, photographs; ends with a table
	@PYTHONPATH=build/release/python:demo/support $(PYTHON) demo/run.py $(DEMO_ARGS)
	@PYTHONPATH=build/release/python:demo/support $(PYTHON) demo/serving.py $(SERVING_ARGS)

test: build-all ## everything that must pass; closes with a count
	@tools/setup_system.sh model
	@$(PYTHON) tools/test.py $(TEST_ARGS)

bench: build-all ## the numbers of README.md, each beside its bar
	@PYTHONPATH=build/release/python:demo/support $(PYTHON) bench/run.py $(BENCH_ARGS)

check: build ## format, clang-tidy, include direction, environment reads, awaits, ruff, mypy
	@$(PYTHON) tools/check.py $(CHECK_ARGS)

sanitize: build ## C++ and proxy tests under address, undefined-behaviour and thread sanitizers
	@tools/sanitize.sh dev tsan

fuzz: setup ## libFuzzer, 20 seconds a target (FUZZ_SECONDS=...)
	@tools/setup_system.sh fuzz
	@fuzz/run.sh $${FUZZ_SECONDS:-20}

soak: build-all ## crash, proxy and engine tests at full counts; writes docs/soak.md (hours)
	@$(PYTHON) tools/soak.py $(SOAK_ARGS)

model: ## the protocol's model, checked exhaustively with spin
	@tools/setup_system.sh model build
	@python3 tools/run_model.py $(MODEL_ARGS)

clean: ## removes build/, keeps .venv
	@rm -rf build
