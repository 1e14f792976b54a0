"""SIGHUP on real processes: the settings are reloaded, and no stream is interrupted."""

import http.client
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Served, free_port, run_server, wait_until_ready
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("acceptance")]


@pytest.fixture
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


def write(folder: Path, upstream: Upstream, key: str, models: str, more: str = "") -> None:
    """Write the settings atomically: a half-written file must not be read."""
    text = f'{more}\n[[upstreams]]\nbase_url = "{upstream.url}"\napi_key = "{key}"\nmodels = {models}\n'
    (folder / "new.toml").write_text(text)
    (folder / "new.toml").replace(folder / "antiphon.toml")


def call(served: Served, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    if body is None:
        connection.request("GET", path)
    else:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content


def models(served: Served) -> list[str]:
    return [model["id"] for model in call(served, "/v1/models")[1]["data"] if "kind" not in model]


def until(condition: Callable[[], bool], served: Served) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, served.log.read_text()
        time.sleep(0.02)


def reload(served: Served) -> None:
    served.process.send_signal(signal.SIGHUP)


@contextmanager
def open_stream(served: Served, model: str) -> Generator[http.client.HTTPResponse, None, None]:
    """A stream that has sent its first delta."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    body = json.dumps({"model": model, "input": "the end", "stream": True})
    connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    received = b""
    while b"Well, " not in received:
        received += answer.readline()
    yield answer
    answer.close()
    connection.close()


def test_a_stream_continues_while_its_model_is_replaced(upstream: Upstream, tmp_path: Path) -> None:
    write(tmp_path, upstream, "old-key", '["gated"]')
    with run_server(tmp_path) as served, open_stream(served, "gated") as stream:
        write(
            tmp_path,
            upstream,
            "new-key",
            '[{ name = "fresh", upstream = "echo" }]',
            '[server]\nport = 1\n[aliases]\nfast = "fresh"\n',
        )
        reload(served)
        until(lambda: models(served) == ["fresh", "fast"], served)
        status, answer = call(served, "/v1/responses", {"model": "fast", "input": "hi"})
        assert (status, answer["output"][0]["content"][0]["text"]) == (200, "You said: hi")
        assert upstream.headers[-1]["Authorization"] == "Bearer new-key"
        assert call(served, "/v1/responses", {"model": "gated", "input": "hi"})[0] == 404
        upstream.gate.set()
        rest = stream.read()
        assert b"the end" in rest
        assert b"event: response.completed" in rest
        assert rest.endswith(b"data: [DONE]\n\n")
        log = served.log.read_text()
        assert "settings reloaded" in log
        assert "change with the next start only: server.port" not in log, "the command line still wins"
        assert served.stop() == 0


def test_an_invalid_file_has_no_effect_and_settings_that_need_a_restart_are_logged(
    upstream: Upstream, tmp_path: Path
) -> None:
    write(tmp_path, upstream, "key", '["echo"]')
    with run_server(tmp_path) as served:
        write(tmp_path, upstream, "key", '["echo"', "")
        reload(served)
        until(lambda: "the previous ones stay in use: The configuration" in served.log.read_text(), served)
        assert models(served) == ["echo"]
        write(tmp_path, upstream, "key", '["tools"]', '[store]\nurl = "memory:"\n')
        reload(served)
        until(lambda: models(served) == ["tools"], served)
        until(lambda: "at the next start only: store.url" in served.log.read_text(), served)


def children(served: Served) -> list[int]:
    path = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children")
    return sorted(int(child) for child in path.read_text().split())


def test_every_worker_reloads_including_replacements(upstream: Upstream, tmp_path: Path) -> None:
    write(tmp_path, upstream, "key", '["gated"]')
    with run_server(tmp_path, "--workers", "2", "--store", "none") as served:
        # Both workers must be running: one that has not started yet is replaced instead.
        until(lambda: all(models(served) == ["gated"] for _ in range(10)), served)
        time.sleep(1)
        workers = children(served)
        with open_stream(served, "gated") as stream:
            write(tmp_path, upstream, "key", '["echo"]')
            reload(served)
            until(lambda: served.log.read_text().count("settings reloaded") == 2, served)
            assert all(models(served) == ["echo"] for _ in range(10))
            assert children(served) == workers
            upstream.gate.set()
            assert b"event: response.completed" in stream.read()
        write(tmp_path, upstream, "key", "[[", "")
        reload(served)
        until(lambda: served.log.read_text().count("the previous ones stay in use") == 1, served)
        killed = next(pid for pid in workers if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(killed, signal.SIGKILL)
        until(lambda: killed not in children(served) and len(children(served)) == len(workers), served)
        until(lambda: all(_listed(served) == ["echo"] for _ in range(10)), served)
        assert served.stop() == 0


def _listed(served: Served) -> list[str]:
    try:
        return models(served)
    except OSError:  # of the worker that was killed
        return []


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_end_of_its_terminal_is_the_end_of_the_server(
    upstream: Upstream, tmp_path: Path, workers: str
) -> None:
    process, port, terminal = start_in_terminal(upstream, tmp_path, workers)
    try:
        wait_until_ready(process, port, tmp_path / "server.log")
        os.close(terminal)
        assert process.wait(15) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def test_nohup_keeps_it_running(upstream: Upstream, tmp_path: Path) -> None:
    process, port, terminal = start_in_terminal(upstream, tmp_path, "1", "nohup")
    log = tmp_path / "server.log"
    try:
        wait_until_ready(process, port, log)
        os.close(terminal)
        served = Served(process, port, log)
        until(lambda: "settings reloaded" in log.read_text(), served)
        assert models(served) == ["echo", "tools"]
        assert served.stop() == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def start_in_terminal(
    upstream: Upstream, folder: Path, workers: str, *before: str
) -> tuple[subprocess.Popen[str], int, int]:
    """A server that leads the session of its own terminal, and the terminal's other end."""
    ours, theirs = pty.openpty()
    port = free_port()
    options = ["--port", str(port), "--upstream", upstream.url, "--store", "none", "--workers", workers]
    leader = "import os, fcntl, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", leader, *before, sys.executable, "-m", "antiphon.cli", "serve", *options]
    with (folder / "server.log").open("w") as output:
        process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=output,
            stderr=output,
            text=True,
            cwd=folder,
            env={**os.environ, "XDG_DATA_HOME": str(folder / "data"), "NO_COLOR": "1"},
        )
    os.close(theirs)
    return process, port, ours
