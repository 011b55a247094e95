"""An interpreter ends cleanly whatever it still holds."""

import subprocess
import sys

import pytest
from arena_daemon import ArenaDaemon

PRELUDE = """
import sys, threading
import torch, sluice
client = sluice.connect(directory=sys.argv[1])
client.put("photo", torch.arange(100_000))
"""
ENDINGS = {
    "holding a tensor": "tensor = client.get('photo')",
    "holding a tensor where the interpreter does not look": (
        "sys.modules['torch'].kept_by_the_engine = client.get('photo')"
    ),
    "holding a bundle in a cycle": "x = [client.get_bundle('photo')]; x.append(x)",
    "holding a numpy array": "array = client.get('photo', as_='numpy')",
    "holding a reservation": (
        "r = client.reserve('other', ('uint8', (5000,)))\nkept = r.tensor\nkept.fill_(1)"
    ),
    "with a closed client": "tensor = client.get('photo')\nclient.close()",
    "with a waiting thread": (
        "threading.Thread(target=client.wait, args=('never', 60), daemon=True).start()"
    ),
    "by sys.exit in a block": "with client.get_bundle('photo') as b:\n    sys.exit(0)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_interpreter_ends_without_a_word(daemon: ArenaDaemon, ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + ENDINGS[ending], daemon.directory],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
