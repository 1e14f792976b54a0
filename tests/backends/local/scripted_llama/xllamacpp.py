"""Stands in for the real library in the child process: the same few names, and a scripted HTTP server.

The name of the weights chooses what goes wrong.
"""

import http.server
import os
import socketserver
import threading
import time
import types
from typing import Any

HOLD_SECONDS = 1.0


class CommonParams(types.SimpleNamespace):
    def __init__(self) -> None:
        groups = ("model", "cpuparams", "cpuparams_batch")
        super().__init__(**{group: types.SimpleNamespace() for group in groups})


class Server:
    def __init__(self, params: Any) -> None:
        name = os.path.basename(params.model.path)
        if name == "crashing.gguf":
            os.abort()
        if name == "broken.gguf":
            raise RuntimeError("Failed to init server")
        end = time.monotonic() + HOLD_SECONDS if name == "slow.gguf" else 0.0
        while time.monotonic() < end:  # holds the interpreter's lock for the most part
            pass
        print("some noise of the library", flush=True)
        self.listening_address = f"unix://{params.hostnames[0]}"
        _Handler.key = params.api_keys[0]
        server = socketserver.ThreadingUnixStreamServer(params.hostnames[0], _Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    key = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Authorization"] != f"Bearer {self.key}":
            self._answer(401, b'{"error":{"code":401,"message":"Invalid API Key","type":"x"}}')
        elif self.path == "/tokenize":
            self._answer(200, b'{"tokens":[%s]}' % b",".join(b"%d" % byte for byte in body))
        elif b"die" in body:
            self._begin(200)
            self.wfile.write(b'data: {"choices":[]}\n\n')
            os.abort()
        elif b"refuse" in body:
            self._answer(400, b'{"error":{"code":400,"message":"no such thing","type":"x"}}')
        else:
            self._begin(200)
            self.wfile.write(b': ping\n\ndata: {"n":1}\n\ndata: {"n":2}\n\ndata: [DONE]\n\n')

    def _begin(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")
        self.end_headers()

    def _answer(self, status: int, body: bytes) -> None:
        self._begin(status)
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def address_string(self) -> str:
        return "test"
