"""`antiphon`: the root of all commands. A command's module is imported when the command is used.

Exit codes of every command: 0 success, 1 failure, 2 wrong usage or configuration, 130 interrupted.
"""

import gc
import io
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import click

from antiphon import __version__
from antiphon.cli.failure import INTERRUPTED, failure_of
from antiphon.errors import AntiphonError


class Command(NamedTuple):
    """Where a command is implemented, and its line in the help."""

    module: str
    summary: str


COMMANDS = {
    "serve": Command("serve.command", "Serve the Responses API over HTTP."),
    "open": Command("page", "Open the page in the browser."),
    "ask": Command("ask.ask", "Ask a model one question."),
    "chat": Command("ask.chat", "Talk with a model in the terminal."),
    "codex": Command("codex.command", "Run Codex on any model."),
    "execute": Command("agent.execute", "Send one request to the agent."),
    "agent": Command("agent.command", "Run agents in the background; list, follow and cancel runs."),
    "ddr": Command("ddr.command", "Create, show, change and search design documents."),
    "doctor": Command("doctor.command", "Check the installation and advise what to do."),
    "conformance": Command("conformance", "Check whether a Responses server conforms to the protocol."),
    "responses": Command("stored.responses", "List, show, delete and export stored responses."),
    "files": Command("files.command", "Add, list, show and delete stored files."),
    "vector-stores": Command("vector_stores.command", "Create, fill, search and delete vector stores."),
    "mcp": Command("mcp", "List and call the tools of MCP servers."),
    "keys": Command("keys", "Create, list, revoke and delete API keys."),
    "db": Command("db", "Migrate, inspect and vacuum the database."),
    "model": Command("model", "Show capabilities of models; fetch weights to embed one."),
}
"""All commands, in the order of the help."""


def _imported(name: str) -> ModuleType:
    """Import a module without garbage collections in between: they find nothing, and take time."""
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


class CommandModules(MutableMapping[str, click.Command]):
    """The commands by name. A command's module is imported when the command is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command | None] = dict.fromkeys(COMMANDS)

    def __getitem__(self, name: str) -> click.Command:
        found = self._loaded[name]
        if found is None:
            found = self._loaded[name] = _imported(f"antiphon.cli.{COMMANDS[name].module}").command
        return found

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)


class Root(click.Group):
    """Reports every error of a command as one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of `COMMANDS`, not by name."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of the help without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            raise  # click exits without a message when the reader of a pipe is gone
        except (AntiphonError, OSError) as error:
            raise failure_of(error) from None


@click.group(
    cls=Root,
    commands=CommandModules(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="antiphon", message="%(prog)s %(version)s")
def main() -> None:
    """The Responses API for every model.

    Without any configuration, `serve` finds the model servers of this machine, and a small embedded model
    answers beside them. --upstream uses one OpenAI-compatible endpoint instead, and antiphon.toml configures
    everything else.

    \b
    Examples:
      antiphon serve
      antiphon serve --upstream http://localhost:11434/v1 --upstream-kind ollama
      antiphon ask "What is the capital of France?"
      antiphon chat
      antiphon doctor
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # an answer may contain characters that the terminal's encoding lacks
