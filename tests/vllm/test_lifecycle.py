"""Start and stop: nothing is left behind, and an engine that does not ask for it gets nothing."""

import gc
import os
import subprocess
import sys
import threading
import time

from arena_process import BUILD, ROOT
from peer import Peer
from world import World, item, request


def footprint() -> tuple[int, list[str]]:
    """Open descriptors and the connector's threads of this process."""
    descriptors = len(os.listdir("/proc/self/fd"))
    return descriptors, sorted(t.name for t in threading.enumerate() if "sluice" in t.name)


def test_start_and_stop_leave_no_descriptor_thread_or_client(model, arena) -> None:
    def once(number: int) -> None:
        with World(model, arena.directory, "ec_both", extra={"tenant": str(number)}) as world:
            world.serve(request("r", [item("A", 4, 20)]))
            world.await_count("saves", 1)

    once(0)  # what vLLM opens once
    gc.collect()
    before = footprint()
    for number in range(1, 6):
        once(number)
    gc.collect()
    assert footprint() == before
    with World(model, arena.directory, "ec_consumer") as world:
        peer = Peer(world, arena.directory)
        deadline = time.monotonic() + 10
        while (seen := len(peer.client.clients())) != 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert seen == 3  # scheduler, worker and this test
        peer.close()


def test_tensor_outlives_the_connector(engine, arena) -> None:
    import torch

    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    stored = peer.store("A", 20)
    consumer.serve(request("r", [item("A", 4, 20)]))
    kept = consumer.worker.encoder_cache["A"]
    consumer.close()
    peer.remove("A")
    assert torch.equal(kept, stored)
    peer.close()


def test_importing_the_package_touches_neither_vllm_nor_torch() -> None:
    program = (
        "import sys, sluice, sluice.vllm\n"
        "heavy = ('vllm', 'torch', 'numpy', 'sluice.vllm.connector')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_vllm_without_the_connector_does_not_import_it(model) -> None:
    program = (
        "import runpy, sys\n"
        "runpy.run_path(sys.argv[1])\n"
        "from vllm.engine.arg_utils import EngineArgs\n"
        "EngineArgs(model=sys.argv[2], enforce_eager=True).create_engine_config()\n"
        "print([m for m in sys.modules if m.split('.')[0] == 'sluice'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    declared = ROOT / "demo" / "support" / "sitecustomize.py"
    done = subprocess.run(
        [sys.executable, "-c", program, declared, model],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().splitlines()[-1] == "[]"
