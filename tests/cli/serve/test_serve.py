"""Real server processes: the banner, the shutdown, and rejections at startup."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from antiphon.wiring import models_folder
from tests.cli.conftest import Run
from tests.cli.upstream import Reply, ScriptedUpstream
from tests.discovery.servers import ScriptedServer, in_thread, serving

SECONDS = 30
COMMAND = [sys.executable, "-m", "antiphon.cli", "serve"]

slow = [pytest.mark.slow, pytest.mark.xdist_group("serve")]


@dataclass
class Server:
    """A running `antiphon serve`, and its output until it was ready."""

    process: "subprocess.Popen[str]"
    banner: str = ""

    @property
    def port(self) -> int:
        found = re.search(r"ready at (http://\S+)", self.banner)
        assert found, self.banner
        return urlsplit(found[1]).port or 0

    def read_banner(self) -> None:
        """Read the banner to its last line; a timer ends a server without output."""
        assert self.process.stdout is not None
        timer = threading.Timer(SECONDS, self.process.kill)
        timer.start()
        for line in self.process.stdout:
            self.banner += line
            if line.startswith("Ctrl-C"):
                break
        timer.cancel()

    def get(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        connection.request("GET", path)
        status = connection.getresponse().status
        connection.close()
        return status

    def models(self) -> list[str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        connection.request("GET", "/v1/models")
        listed = json.loads(connection.getresponse().read())
        connection.close()
        return [model["id"] for model in listed["data"] if "kind" not in model]

    def ask(self, model: str) -> str:
        """The text of the answer to a question."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        body = json.dumps({"model": model, "input": "Who are you?"})
        connection.request("POST", "/v1/responses", body, {"Content-Type": "application/json"})
        response = json.loads(connection.getresponse().read())
        connection.close()
        return response["output"][-1]["content"][0]["text"]

    def wait_for_model(self, name: str, *, there: bool) -> None:
        """Wait until the model is listed, or is not."""
        deadline = time.monotonic() + SECONDS
        while (name in self.models()) != there:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """The exit code and the log."""
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, log


@contextmanager
def server(*options: str, environment: Mapping[str, str] | None = None) -> Generator[Server, None, None]:
    process = subprocess.Popen(
        [*COMMAND, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    running = Server(process)
    try:
        running.read_banner()
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=SECONDS)


class TestServing:
    """A server that runs."""

    pytestmark = slow

    def test_the_banner_shows_the_address_and_the_server_answers(self, upstream: ScriptedUpstream) -> None:
        with server("--port", "0", "--upstream", upstream.url) as running:
            assert running.get("/healthz") == 200
            assert f"any name → {upstream.url} (plain)" in running.banner
            assert '"model": "tiny"' in running.banner
            code, log = running.stop()
        assert code == 0
        assert "stopping: open work" in log
        assert "\x1b" not in running.banner + log

    def test_the_curl_of_the_banner_can_be_pasted(self, upstream: ScriptedUpstream) -> None:
        with server("--port", "0", "--upstream", upstream.url, "--model", "it's") as running:
            command = running.banner[running.banner.index("curl ") : running.banner.index("\n\nCtrl-C")]
            finished = subprocess.run(
                ["bash", "-c", command.replace("curl ", "curl -s ")],
                capture_output=True,
                timeout=SECONDS,
                check=True,
            )
            assert json.loads(finished.stdout)["status"] == "completed"
        assert upstream.requests[0]["model"] == "it's"

    def test_an_open_response_ends_properly_when_the_server_stops(self, upstream: ScriptedUpstream) -> None:
        upstream.replies = [Reply(("Once",), hangs=True)]
        with server("--port", "0", "--upstream", upstream.url, "--drain", "0.5") as running:
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=SECONDS)
            body = json.dumps({"model": "tiny", "input": "A tale", "stream": True})
            connection.request("POST", "/v1/responses", body, {"Content-Type": "application/json"})
            stream = connection.getresponse()
            assert stream.readline() == b"event: response.created\n"
            code, _ = running.stop()
            rest = stream.read()
            connection.close()
        assert code == 0
        assert b"response.failed" in rest
        assert rest.endswith(b"data: [DONE]\n\n")

    def test_ctrl_c_is_a_proper_end(self, upstream: ScriptedUpstream) -> None:
        with server("--port", "0", "--upstream", upstream.url) as running:
            code, log = running.stop(signal.SIGINT)
        assert code == 0
        assert "Traceback" not in log

    def test_several_workers_print_it_once(self, upstream: ScriptedUpstream) -> None:
        options = ("--port", "0", "--upstream", upstream.url, "--workers", "2", "--store", "none")
        with server(*options) as running:
            assert [running.get("/healthz") for _ in range(4)] == [200] * 4
            code, _ = running.stop()
        assert code == 0
        assert running.banner.count("ready at") == 1

    def test_a_server_starts_although_its_upstream_is_not_there(self) -> None:
        with server("--port", "0", "--upstream", "http://127.0.0.1:1/v1") as running:
            assert '"model": "MODEL"' in running.banner
            code, log = running.stop()
        assert code == 0
        assert "cannot be reached" in log

    def test_keys_are_not_printed(self, upstream: ScriptedUpstream) -> None:
        environment = {
            "ANTIPHON_SERVER__API_KEYS": '["secret-of-the-client"]',
            "ANTIPHON_UPSTREAM_KEY": "secret-of-the-upstream",
        }
        options = ("--port", "0", "--host", "0.0.0.0", "--upstream", upstream.url, "--log-level", "debug")
        with server(*options, environment=environment) as running:
            assert running.get("/v1/models") == 401
            _, log = running.stop()
        assert "Bearer $ANTIPHON_API_KEY" in running.banner
        assert "all of this machine" in running.banner
        assert "secret" not in running.banner + log

    def test_the_embedded_model_needs_no_options(self) -> None:
        with server("--port", "0") as running:
            assert "smollm2-135m (embedded, also called 'local')" in running.banner
            assert "SmolLM2" in running.banner
            assert running.get("/v1/models/local") == 200
            assert running.stop()[0] == 0

    def test_the_command_line_calls_a_running_server(
        self, run: Run, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = {"ANTIPHON_SERVER__API_KEYS": '["the-key-of-the-test"]'}
        with server("--port", "0", "--upstream", upstream.url, environment=keys) as running:
            address = ("--base-url", f"http://127.0.0.1:{running.port}")
            refused = run("ask", "Hi", *address)
            monkeypatch.setenv("ANTIPHON_API_KEY", "the-key-of-the-test")
            complete, streamed = run("ask", "Hi", *address), run("ask", "Hi", "--stream", *address)
            talk = run("chat", *address, input="1\n2\n")
        assert refused.exit_code == 2
        assert "ANTIPHON_API_KEY" in refused.stderr
        assert (complete.stdout, streamed.stdout) == ("Hello there.\n", "Hello there.\n")
        assert talk.stdout == "Hello there.\nHello there.\n"
        assert len(upstream.messages()) == 3


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--host", "0.0.0.0"], "Refusing to listen on 0.0.0.0 without keys"),
        (["--config", "bad.toml"], "bad.toml is not valid TOML"),
        (["--config", "nowhere.toml"], "Cannot read the configuration nowhere.toml"),
        (["--workers", "2"], "Several workers need a shared store"),
        (["--store", "cloud:"], "Unknown store"),
        (["--profile", "nobody"], "nobody"),
        (["--model", "no-such-model"], "unknown model 'no-such-model'"),
        (["--model", "missing.gguf"], "there is no file missing.gguf"),
        (["--upstream", "ftp://example.org"], "needs a base_url"),
        (["--port", "70000"], "70000"),
    ],
)
def test_invalid_settings_are_rejected_with_a_message(run: Run, options: list[str], complaint: str) -> None:
    Path("bad.toml").write_text("port = [")
    result = run("serve", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_busy_port_is_rejected(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = run("serve", "--port", port, "--upstream", "http://127.0.0.1:1/v1")
    assert result.exit_code == 2
    assert f"Cannot listen on 127.0.0.1:{port}" in result.stderr
    assert "--port" in result.stderr


def test_a_data_folder_that_cannot_be_used_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(Path("file").absolute()))
    result = run("serve", "--port", "0", "--upstream", "http://127.0.0.1:1/v1")
    assert result.exit_code == 2
    assert "Not a directory" in result.stderr
    assert "XDG_DATA_HOME" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.xdist_group("serve")
class TestDiscovery:
    """A server without configuration, in an empty home."""

    def test_models_are_found_served_and_forgotten(self, tmp_path: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            late = f"127.0.0.1:{probe.getsockname()[1]}"
        with scripted_ollama("llama3.2:latest", "nomic-embed-text:latest") as (ollama, address):
            environment = {
                "HOME": str(tmp_path),
                "XDG_CACHE_HOME": str(models_folder().parents[1]),  # the weights are not downloaded again
                "ANTIPHON_DISCOVERY__ADDRESSES": json.dumps([address, late]),
                "ANTIPHON_DISCOVERY__INTERVAL": "0.1",
                "OPENAI_API_KEY": "a-key-that-is-not-sent",
            }
            with server("--port", "0", environment=environment) as running:
                assert f"llama3.2:latest → http://{address}/v1 (ollama, found)" in running.banner
                assert "auto     llama3.2:latest of ollama" in running.banner
                assert running.models() == ["llama3.2:latest", "smollm2-135m", "local", "auto", "openai/*"]
                for name in ("llama3.2", "ollama/llama3.2:latest", "auto"):
                    assert running.ask(name) == "I am llama3.2:latest."
                with scripted_ollama("late", port=int(late.rpartition(":")[2])):
                    running.wait_for_model("late", there=True)
                running.wait_for_model("late", there=False)
                code, log = running.stop()
        assert code == 0
        assert f"ollama at http://{late}/v1 is gone" in log
        assert "a-key-that-is-not-sent" not in running.banner + log
        assert len(ollama.questions) == 3

    def test_a_hanging_port_delays_the_start_by_a_bounded_time(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as hanging:
            address = f"127.0.0.1:{hanging.getsockname()[1]}"
            environment = {"ANTIPHON_DISCOVERY__ADDRESSES": json.dumps([address])}
            with server("--port", "0", environment=environment) as running:
                assert running.models() == ["smollm2-135m", "local", "auto"]
                assert running.stop()[0] == 0

    def test_it_can_be_turned_off(self) -> None:
        with scripted_ollama("m") as (ollama, address):
            environment = {
                "ANTIPHON_DISCOVERY__ADDRESSES": json.dumps([address]),
                "OPENAI_API_KEY": "a-key-that-is-not-used",
            }
            with server("--port", "0", "--no-discovery", environment=environment) as running:
                assert running.models() == ["smollm2-135m", "local", "auto"]
                assert "found" not in running.banner
        assert ollama.paths == []


@contextmanager
def scripted_ollama(*models: str, port: int = 0) -> Generator[tuple[ScriptedServer, str], None, None]:
    ollama = ScriptedServer("ollama", list(models))
    with in_thread(lambda: serving(ollama.answer, port)) as address:
        yield ollama, address
