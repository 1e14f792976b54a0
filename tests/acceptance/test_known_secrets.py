"""Canaries in every secret of the server. An upstream repeats them in answers, errors and events; no answer,
event, log line or database file contains one.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.serving import Served, run_server

UPSTREAM_KEY = "sk-canary-upstream-key"
HEADER_KEY = "canary-header-key-0001"
SEAL_KEY = "canary-seal-key-000001"
CLIENT_KEY = "canary-client-key-0001"
CANARIES = (UPSTREAM_KEY, HEADER_KEY, SEAL_KEY, CLIENT_KEY)
SAID = " and ".join(CANARIES)
CONFIGURATION = """
[server]
api_keys = ["{client}"]

[seal]
key = "{seal}"

[store]
url = "sqlite:{path}"

[[upstreams]]
kind = "plain"
name = "echo"
base_url = "{url}"
api_key = "{key}"
headers = {{ "X-Api-Key" = "{header}" }}
retries = 0
models = ["says", "fails", "refuses", "breaks", "redirects"]
"""


class EchoingUpstream(BaseHTTPRequestHandler):
    """Repeats secrets, as a gateway in debug mode would."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert self.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
        if body["model"] == "fails":
            self._send(500, "application/json", json.dumps({"error": {"message": f"no {SAID}"}}).encode())
        elif body["model"] == "refuses":
            error = {"message": f"no {SAID}", "code": HEADER_KEY, "param": UPSTREAM_KEY}
            self._send(400, "application/json", json.dumps({"error": error}).encode())
        elif body["model"] == "redirects":
            self._send(302, "text/plain", b"", location=f"http://u:{UPSTREAM_KEY}@x/?key={HEADER_KEY}")
        elif not body.get("stream"):
            message = {"role": "assistant", "content": SAID, "reasoning_content": SAID}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send(200, "application/json", json.dumps({"choices": [choice]}).encode())
        else:
            self._send(200, "text/event-stream", self._events(body["model"]))

    def _events(self, model: str) -> bytes:
        deltas: list[dict[str, Any]] = [
            {"reasoning_content": SAID[i : i + 5]} for i in range(0, len(SAID), 5)
        ]
        deltas += [{"content": SAID[i : i + 3]} for i in range(0, len(SAID), 3)]
        arguments = json.dumps({"a": SAID})
        for i in range(0, len(arguments), 4):  # two calls, by turns
            function = {"name": None if i else "f", "arguments": arguments[i : i + 4]}
            calls = [{"index": index, "id": f"c{index}", "function": function} for index in (0, 1)]
            deltas += [{"tool_calls": [call]} for call in calls]
        events: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        if model == "breaks":
            events.append({"error": {"message": f"no {SAID}"}})
        else:
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        return (
            b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"
        )

    def _send(self, status: int, media: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": media, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def running(folder: Path) -> Generator[Served, None, None]:
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), EchoingUpstream)
    Thread(target=upstream.serve_forever, daemon=True).start()
    (folder / "antiphon.toml").write_text(
        CONFIGURATION.format(
            url=f"http://127.0.0.1:{upstream.server_port}/v1",
            path=folder / "antiphon.db",
            key=UPSTREAM_KEY,
            header=HEADER_KEY,
            seal=SEAL_KEY,
            client=CLIENT_KEY,
        )
    )
    try:
        with run_server(folder, "--config", str(folder / "antiphon.toml"), "--log-level", "debug") as served:
            yield served
    finally:
        upstream.shutdown()
        upstream.server_close()


def post(served: Served, path: str, body: dict[str, Any]) -> tuple[int, str]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{served.port}{path}",
        json.dumps(body).encode(),
        {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}


def test_no_secret_of_the_server_leaves_it(tmp_path: Path) -> None:
    answers: list[tuple[int, str]] = []
    with running(tmp_path) as served:
        for model in ("says", "fails", "refuses", "breaks", "redirects"):
            for streamed in (False, True):
                body: dict[str, Any] = {"model": model, "input": "hi", "stream": streamed, "tools": [TOOL]}
                answers.append(post(served, "/v1/responses", body))
            messages = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": True}
            answers.append(post(served, "/v1/messages", {"model": model, **messages}))
            answers.append(post(served, "/v1/chat/completions", {"model": model, **messages}))
        answers.append(post(served, f"/v1/nothing?key={CLIENT_KEY}", {}))
        served.process.terminate()
        served.process.wait(30)
    assert [status for status, _ in answers].count(200) >= 5
    text = "\n".join(answer for _, answer in answers)
    assert "[redacted]" in text
    log = served.log.read_text()
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("antiphon.db*"))
    for canary in CANARIES:
        assert canary not in text
        assert canary not in log
        assert canary.encode() not in stored


@pytest.mark.parametrize("secret", CANARIES)
def test_at_most_three_characters_of_a_split_secret_are_shown(tmp_path: Path, secret: str) -> None:
    with running(tmp_path) as served:
        _, stream = post(served, "/v1/responses", {"model": "says", "input": "hi", "stream": True})
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    shown = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert secret[4:] not in shown
    assert len(shown) < len("[redacted] and ") * len(CANARIES) + 3 * len(CANARIES)
