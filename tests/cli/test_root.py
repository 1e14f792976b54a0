"""The root command: help, version, and how every command fails."""

import subprocess
import sys

import click
import pytest

from antiphon import __version__
from antiphon.cli.root import COMMANDS, main
from antiphon.errors import BackendError, InvalidRequest, SettingsError
from tests.cli.conftest import Run


def all_commands() -> list[tuple[str, ...]]:
    paths: list[tuple[str, ...]] = []
    for name, command in main.commands.items():
        paths.append((name,))
        if isinstance(command, click.Group):
            paths += [(name, inner) for inner in command.commands]
    return paths


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").stdout == f"antiphon {__version__}\n"


def test_the_help_lists_every_command(run: Run) -> None:
    text = run("--help").stdout
    assert "Examples:" in text
    assert all(f"  {name} " in text and line in text for name, (_, line) in COMMANDS.items())


@pytest.mark.parametrize("path", all_commands())
def test_every_command_explains_itself_with_an_example(run: Run, path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert f"antiphon {' '.join(path)}" in result.stdout.partition("Example")[2]
    assert max(map(len, result.stdout.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_list_is_the_first_line_of_the_help(name: str) -> None:
    help_text = main.commands[name].help or ""
    assert help_text.partition("\n")[0] == COMMANDS[name].summary


def test_the_help_of_the_root_loads_no_server() -> None:
    code = (
        "import sys; from antiphon.cli import main; main(['--help'], standalone_mode=False); "
        "print(sorted({'asyncio', 'uvicorn', 'jsonschema_rs', 'antiphon.wiring'} & set(sys.modules)))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert completed.stdout.splitlines()[-1] == "[]"


def test_an_unknown_command_is_wrong_usage(run: Run) -> None:
    result = run("frobnicate")
    assert result.exit_code == 2
    assert "frobnicate" in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SettingsError("not so"), 2, "Error: not so\n"),
        (InvalidRequest("not so"), 2, "Error: not so\n"),
        (BackendError("it broke [bold]"), 1, "Error: it broke [bold]\n"),
        (PermissionError(13, "Permission denied", "/there"), 1, "Error: Permission denied (/there).\n"),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)
def test_every_error_is_one_line_and_an_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, line: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setitem(main.commands, "doctor", click.command("doctor")(fail))
    result = run("doctor")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", line)


def test_a_long_line_is_not_wrapped_in_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise SettingsError("word " * 100)

    monkeypatch.setitem(main.commands, "doctor", click.command("doctor")(fail))
    assert len(run("doctor").stderr.splitlines()) == 1


def test_a_closed_output_pipe_causes_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "antiphon.cli", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    stderr_text = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 1
    assert b"Traceback" not in stderr_text
