"""The server of the browser tests: a real `antiphon serve` process in front of the scripted models."""

import json
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.page.browser import ROOT
from tests.page.model_server import ModelServer
from tests.serving import Served, run_server

BUNDLE = ROOT / "src/antiphon/server/page/bundle/index.html"
MODELS = (
    "qwen3-32b",
    "gpt-oss-20b",
    "mistral-small",
    "echo",
    "tools",
    "agent",
    "hangs",
    "gated",
    "deletes",
    "hostile",
    "one-line",
    "steady",
    "refuses",
    "breaks",
    "searches",
    "json",
)
ADMIN_KEY = "the-key-of-the-tests"
REAL_MODELS = ("qwen3-32b", "gpt-oss-20b", "mistral-small", "llama-3.3-70b", "granite-4", "phi-4")
"""Of the server in the pictures."""
CONFIG = """
[server]
log_level = "warning"

[agent]
model = "{agent}"
tools = ["tests.page.agent_tools:TOOLS"]

[local]
enabled = false

[trace]
record = "on_request"

[[upstreams]]
name = "gpu-1"
kind = "vllm"
base_url = "{url}"
models = {models}
"""
BOUNDARY = "----page-tests"


@dataclass
class World:
    """The server, and a client without a browser."""

    server: Served
    key: str | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def call(
        self, method: str, path: str, body: object = None, *, key: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        """The status and the JSON of a request."""
        sent = {"content-type": "application/json", **headers}
        if key or self.key:
            sent["authorization"] = f"Bearer {key or self.key}"
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, content, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def get(self, path: str) -> Any:
        return _checked(self.call("GET", path))

    def post(self, path: str, body: object, **headers: str) -> Any:
        return _checked(self.call("POST", path, body, **headers))

    def respond(self, model: str, text: object, **params: object) -> Any:
        """A new response."""
        return self.post("/v1/responses", {"model": model, "input": text, **params})

    def upload(self, name: str, content: bytes, media_type: str = "text/markdown") -> str:
        """The id of a new file."""
        body = b"\r\n".join([
            f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nassistants'.encode(),
            f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="{name}"'.encode(),
            f"content-type: {media_type}\r\n".encode(),
            content,
            f"--{BOUNDARY}--\r\n".encode(),
        ])  # fmt: skip
        headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
        return _checked(self.call("POST", "/v1/files", body, **headers))["id"]

    def new_key(self, *scopes: str, name: str = "test") -> str:
        """A new key, whole: the first one makes the server require keys."""
        body = {"name": name, "tenant": "default", "scopes": list(scopes)}
        return self.post("/v1/admin/keys", body)["key"]


def _checked(answer: tuple[int, Any]) -> Any:
    status, body = answer
    assert status == 200, body
    return body


@contextmanager
def run_world(
    folder: Path,
    models: ModelServer,
    *options: str,
    key: str | None = None,
    port: int | None = None,
    served: Sequence[str] = MODELS,
    environment: Mapping[str, str] | None = None,
) -> Generator[World, None, None]:
    """Run a server in this folder until the end of the block. With `key` every request needs one; `port` is that of
    a server before."""
    if not BUNDLE.exists():
        pytest.fail("the page is not built; run `make web`")
    agent = "agent" if "agent" in served else "granite-4"
    (folder / "antiphon.toml").write_text(
        CONFIG.format(url=models.url, models=json.dumps(served), agent=agent)
    )
    variables = {"PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", **(environment or {})}
    if key is not None:
        variables["ANTIPHON_SERVER__API_KEYS"] = json.dumps([key])
    with run_server(folder, *options, environment=variables, port=port) as server:
        yield World(server, key)
