"""A small real program in an engine's place: answers /health, /metrics and completions, logs,
fails on request.

`sluice up` starts it through `command = [python, engine.py, "behaviour"]` and adds an engine's
usual arguments, of which only --port matters here.
"""

import argparse
import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from multiprocessing import resource_tracker, shared_memory

KEPT: list[object] = []  # what would be closed if nobody held it
SERVED_S = 0.25  # what it says that each request took
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "yes"},
            "finish_reason": "stop",
        }
    ],
}


def metrics(served: int) -> str:
    """Some of what vLLM says."""
    return (
        "# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0"} 0.0\n'
        'vllm:num_requests_waiting{engine="0"} 2.0\n'
        f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {served}.0\n'
        f'vllm:e2e_request_latency_seconds_bucket{{engine="0",le="{SERVED_S}"}} 0.0\n'
        f'vllm:e2e_request_latency_seconds_bucket{{engine="0",le="{2 * SERVED_S}"}} {served}.0\n'
        f'vllm:e2e_request_latency_seconds_bucket{{engine="0",le="+Inf"}} {served}.0\n'
        f'sluice_ec_hits_total{{engine="0"}} {3 * served}.0\n'
    )


class Server(http.server.ThreadingHTTPServer):
    """`nonsense`: /metrics is something else."""

    def __init__(self, port: int, nonsense: bool) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.nonsense = nonsense
        self.served = 0


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/metrics":
            text = "no metrics\n" if self.server.nonsense else metrics(self.server.served)
            self.answer(200, text.encode())
        else:
            self.answer(200 if self.path == "/health" else 404, b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.served += 1
        self.answer(200, json.dumps(ANSWER).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        print("asked:", format % args, flush=True)


def leave_memory(where: str) -> None:
    memory = shared_memory.SharedMemory(create=True, size=4096)
    with contextlib.suppress(Exception):  # nobody else is to remove it
        resource_tracker.unregister("/" + memory.name, "shared_memory")
    print(f"memory {where}:", memory.name, flush=True)
    KEPT.append(memory)


def leave_files() -> None:
    """As an engine does: memory of its own and of a child's in /dev/shm, a socket where vLLM puts
    them. Whoever is killed removes none of it."""
    path = os.path.join(os.environ["VLLM_RPC_BASE_PATH"], "a-socket")
    socket.socket(socket.AF_UNIX).bind(path)
    print("socket:", path, flush=True)
    leave_memory("here")
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.close(write_end)
        leave_memory("in a child")
        os.read(read_end, 1)  # until its parent ends
        os._exit(0)
    KEPT.append(write_end)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("behaviour")
    parser.add_argument("--port", type=int, required=True)
    options, rest = parser.parse_known_args()
    print("words:", *rest, flush=True)
    print("greeting:", os.environ.get("GREETING", ""), flush=True)
    if options.behaviour == "broken":
        print("the model is not to my taste", file=sys.stderr, flush=True)
        sys.exit(3)
    if options.behaviour == "deaf":
        print("never listening", flush=True)
        signal.pause()
    if options.behaviour == "untidy":
        leave_files()
    server = Server(options.port, options.behaviour == "nonsense")
    if options.behaviour == "parent":
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        print("child:", child.pid, flush=True)
    if options.behaviour == "stubborn":
        signal.signal(signal.SIGTERM, lambda *_: print("I heard it", flush=True))
    else:

        def leave(number: int, frame: types.FrameType | None) -> None:
            print("leaving", flush=True)
            threading.Thread(target=server.shutdown).start()

        signal.signal(signal.SIGTERM, leave)
    server.serve_forever(poll_interval=0.05)
    print("left", flush=True)


if __name__ == "__main__":
    main()
