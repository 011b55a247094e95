"""A small real program in an engine's place: answers /health, logs, fails on request.

`sluice up` starts it through `command = [python, engine.py, "behaviour"]` and adds an engine's
usual arguments, of which only --port matters here.
"""

import argparse
import http.server
import os
import signal
import subprocess
import sys
import threading
import types


class Health(http.server.BaseHTTPRequestHandler):
    """200 on /health, 404 elsewhere."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        print("asked:", format % args, flush=True)


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
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Health)
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
