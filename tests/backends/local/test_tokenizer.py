import http.server
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.backends.local.engine import count_tokens
from antiphon.errors import BackendBroken


class Tokenizer(http.server.BaseHTTPRequestHandler):
    """A tokenizer server with one token per byte; it requires the key."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        allowed = self.path == "/tokenize" and self.headers["Authorization"] == "Bearer secret"
        answer = b'{"tokens":[%s]}' % b",".join(b"%d" % byte for byte in body) if allowed else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def address_string(self) -> str:
        return "test"


@contextmanager
def serving(server: socketserver.BaseServer) -> Generator[None, None, None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_tokens_are_counted_over_a_socket_in_the_file_system(tmp_path: Path) -> None:
    with serving(socketserver.UnixStreamServer(str(tmp_path / "x.sock"), Tokenizer)):
        address = f"unix://{tmp_path}/x.sock"
        assert count_tokens(address, "secret", "abc") == len(b'{"content":"abc"}')


def test_tokens_are_counted_over_a_port_and_only_with_the_key() -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), Tokenizer)
    with serving(server):
        address = f"http://127.0.0.1:{server.server_port}"
        assert count_tokens(address, "secret", "abc") == len(b'{"content":"abc"}')
        with pytest.raises(BackendBroken, match="could not count"):
            count_tokens(address, "wrong", "abc")


def test_an_engine_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BackendBroken):
        count_tokens(f"unix://{tmp_path}/gone.sock", "secret", "abc")
