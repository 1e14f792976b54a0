"""The configurations on the page about deploying: nginx passes everything on, and systemd accepts the unit."""

import http.client
import json
import re
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from openai import OpenAI

from tests.docs.transcript import ROOT
from tests.serving import Served, free_port, run_server
from tests.upstream import Upstream, run_upstream

PAGE = (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
START_SECONDS = 20
HOST = "llm.example.com"


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return text


@contextmanager
def nginx(folder: Path, served: Served) -> Generator[int, None, None]:
    """The page's nginx before this server, without TLS; its port."""
    port = free_port()
    server = re.sub(r"^\s*ssl_certificate.*\n", "", block("nginx"), flags=re.MULTILINE)
    server = server.replace("listen 443 ssl", f"listen 127.0.0.1:{port}").replace("8080", str(served.port))
    assert "ssl" not in server
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {paths}\n{server}}}\n"
    )
    process = subprocess.Popen(["nginx", "-p", folder, "-e", folder / "error.log", "-c", config])
    try:
        wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with request(port, "GET", "/readyz") as answer:
                assert answer.status == 200
                return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@contextmanager
def request(
    port: int, method: str, path: str, body: object = None
) -> Generator[http.client.HTTPResponse, None, None]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    headers = {"Host": HOST, "content-type": "application/json"}
    with closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        with connection.getresponse() as response:
            yield response


@pytest.fixture
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as upstream:
        yield upstream


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_passes_events_on_at_once_and_sockets_too(tmp_path: Path, upstream: Upstream) -> None:
    hosts = {"ANTIPHON_SERVER__ALLOWED_HOSTS": f'["{HOST}"]'}
    options = ("--upstream", upstream.url, "--log-level", "warning")
    with run_server(tmp_path, *options, environment=hosts) as served, nginx(tmp_path, served) as port:
        body = {"model": "gated", "input": "hello", "stream": True}
        with request(port, "POST", "/v1/responses", body) as stream:
            assert stream.status == 200
            lines = iter(stream.readline, b"")
            assert any(b'"delta":"Well, "' in line for line in lines)  # the model has not finished
            upstream.gate.set()
            assert list(lines)[-2].strip() == b"data: [DONE]"

        url = f"http://127.0.0.1:{port}/v1"
        with OpenAI(base_url=url, api_key="none") as client, client.responses.connect() as socket:
            socket.response.create(model="echo", input="hello", store=False)
            done = next(event for event in socket if event.type == "response.completed")
        assert done.response.output_text == "You said: hello"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "antiphon.service"
    unit.write_text(block("ini").replace("/opt/antiphon/bin/antiphon", "/bin/true"))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
