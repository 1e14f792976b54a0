"""Tutorials as programs: their blocks are written to files or run in one shell, and what it prints is compared.

| block | |
|---|---|
| `python`, `toml` with a first line `# NAME` | is written to the file NAME |
| `sh` | is run, and must succeed |
| `console` | each line `$ COMMAND` is run, and must print the lines below it |

`…` stands for any text in its line; a line of it alone stands for any lines. A block below the comment
`<!-- not run: REASON -->` is left out. `antiphon serve` runs beside the shell, as in a second terminal, until
the next one takes its port.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.serving import wait_until_ready

ROOT = Path(__file__).parents[2]
COMMAND_SECONDS = 120
STOP_SECONDS = 20
FENCE = re.compile(r"(<!-- not run: [^\n]+ -->\n+)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w./-]+\.\w+)\n")
DEFAULT_PORT = "8080"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str

    @property
    def file_name(self) -> str:
        """The name in the first line; "" if there is none."""
        found = FILE_NAME.match(self.text)
        return found[1] if found and self.language in ("python", "toml") else ""


def blocks_of(page: str) -> list[Block]:
    """The blocks to run, in their order."""
    return [Block(language, text) for skipped, language, text in FENCE.findall(page) if not skipped]


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a `console` block, each with the output that the page shows."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        end = next(index for index, line in enumerate(lines) if not line.endswith("\\\n")) + 1
        yield "".join(lines[:end]), "".join(lines[end:])


def matches(shown: str, output: str) -> bool:
    """Whether the output is what the page shows."""
    lines = [
        r"(?:.*\n)*?"
        if line.strip() == "…"
        else ".*".join(re.escape(part) for part in line.split("…")) + "\n"
        for line in shown.strip().splitlines()
    ]
    printed = "".join(f"{line.rstrip()}\n" for line in output.strip().splitlines())
    return re.fullmatch("".join(lines), printed) is not None


class Shell:
    """One bash that runs the commands of a page, and the servers beside it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._servers: dict[str, subprocess.Popen[str]] = {}
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Run a command with the variables and jobs of those before it: its exit code and what it printed."""
        source, output = self._folder / ".command", self._folder / ".output"
        source.write_text(command)
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        watch = threading.Timer(COMMAND_SECONDS, self._kill)
        watch.start()
        try:
            self._bash.stdin.write(f". {source} > {output} 2>&1 < /dev/null; echo $?\n")
            self._bash.stdin.flush()
            status = self._bash.stdout.readline().strip()
        finally:
            watch.cancel()
        assert status, f"no end after {COMMAND_SECONDS} s: {command}{output.read_text()}"
        return int(status), output.read_text()

    def serve(self, command: str, port: str) -> str:
        """Start a server in place of the one on this port; its banner."""
        self._stop(self._servers.pop(port, None))
        log = self._folder / f".server-{port}"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._folder,
                env=self._environment,
                stdout=output,
                stderr=output,
                text=True,
            )
        self._servers[port] = process
        wait_until_ready(process, int(port), log)
        return log.read_text()

    def close(self) -> None:
        for server in self._servers.values():
            self._stop(server)
        self._kill()
        self._bash.communicate()

    def _stop(self, server: "subprocess.Popen[str] | None") -> None:
        if server is not None:
            server.send_signal(signal.SIGINT)
            assert server.wait(STOP_SECONDS) == 0

    def _kill(self) -> None:
        if self._bash.poll() is None:
            os.killpg(self._bash.pid, signal.SIGKILL)


@contextmanager
def shell(folder: Path, variables: Mapping[str, str]) -> Generator[Shell, None, None]:
    """A shell with an empty home, and without the keys and settings of this user."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ANTIPHON_") and not name.endswith("_API_KEY")
    }
    home = {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / ".local" / "share"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "NO_COLOR": "1",
        "COLUMNS": "120",
        "PYTHONUNBUFFERED": "1",
    }
    opened = Shell(folder, {**ours, **home, **variables})
    try:
        yield opened
    finally:
        opened.close()


def follow(page: str, opened: Shell, folder: Path, replaced: Mapping[str, str]) -> None:
    """Do what the page shows, with these texts replaced in its blocks, and compare what is printed."""
    for block in blocks_of(page):
        text = block.text
        for before, after in replaced.items():
            text = text.replace(before, after)
        _do(Block(block.language, text), opened, folder, replaced)


def _do(block: Block, opened: Shell, folder: Path, replaced: Mapping[str, str]) -> None:
    if block.file_name:
        path = folder / block.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
    elif block.language == "sh":
        status, output = opened.run(block.text)
        assert status == 0, f"{block.text}{output}"
    elif block.language == "console":
        for command, shown in commands_of(block):
            _compare(command, shown, opened, replaced)
    else:
        raise AssertionError(f"neither a file nor a command: {block.text}")


def _compare(command: str, shown: str, opened: Shell, replaced: Mapping[str, str]) -> None:
    if command.startswith("antiphon serve") and not command.rstrip().endswith("&"):
        found = re.search(r"--port (\d+)", command)
        output = opened.serve(command, found[1] if found else replaced[DEFAULT_PORT])
    else:
        _, output = opened.run(command)
    assert matches(shown, output), f"$ {command}{shown}\nbut it printed:\n{output}"
