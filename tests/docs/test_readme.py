"""The README's examples that ask a question run on the embedded model, and their answers are right."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8080"
SECONDS = 300
"""For one example, with the embedded model on a busy machine."""

pytestmark = pytest.mark.slow


def block(language: str, containing: str) -> str:
    """The only block of the README in this language with this text."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (found,) = (text for text in blocks if containing in text)
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Generator[str, None, None]:
    """A server as `make serve` starts it, with an empty data folder."""
    folder = tmp_path_factory.mktemp("readme")
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith("ANTIPHON_") or name.endswith("_API_KEY")]:
        patch.delenv(name)
    patch.setenv("XDG_DATA_HOME", str(folder))
    patch.chdir(folder)
    command = [sys.executable, "-m", "antiphon.cli", "serve", "--port", "0", "--no-discovery"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://[0-9.:]+", process.stdout.readline())
            assert found is not None
            patch.setenv("ANTIPHON_SERVER__PORT", found[0].rpartition(":")[2])
            patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
            yield found[0]
        finally:
            process.terminate()
            patch.undo()


def output_of(command: list[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def run_python(containing: str, address: str) -> str:
    return output_of([sys.executable, "-c", block("python", containing).replace(ADDRESS, address)])


def run_shell(line: str, address: str) -> str:
    return output_of(["sh", "-c", line.replace(ADDRESS, address)])


def test_the_first_request_is_answered_with_paris(address: str) -> None:
    _, _, after = block("console", "make serve").partition("$ curl")
    curl = textwrap.dedent("curl" + after.partition("\nevent:")[0])
    text = "".join(re.findall(r'"delta":"([^"]*)"', run_shell(curl, address)))
    assert "Paris" in text


def test_curl_is_answered_with_paris(address: str) -> None:
    assert "Paris" in run_shell(block("sh", "curl http"), address)


def test_the_second_question_continues_the_first(address: str) -> None:
    first, second = run_python("previous_response_id=first.id", address).splitlines()
    assert "Paris" in first
    assert "Rome" in second


def test_in_process_the_answer_is_the_same(address: str) -> None:
    assert "Paris" in run_python("openai_client()", address)


def test_the_agent_calls_its_tool_and_knows_the_tide(address: str) -> None:
    printed = run_python("HttpResponsesClient", address)
    assert "16:20" in printed
    assert "tide_at" in printed


def test_the_command_line_answers_with_paris(address: str) -> None:
    found = re.search(r"`(antiphon ask [^`]*)`", README)
    assert found is not None
    assert "Paris" in run_shell(found[1], address)
