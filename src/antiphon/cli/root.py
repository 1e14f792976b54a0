"""`antiphon`: the root of all commands. A command's module is imported when that command is called.

Exit codes of every command: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted.
"""

import io
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import click

from antiphon import __version__
from antiphon.cli.failure import INTERRUPTED, failure_of
from antiphon.errors import AntiphonError

COMMANDS = {
    "serve": "Serve the Responses API over HTTP.",
    "ask": "Ask a model one question.",
    "chat": "Talk with a model in the terminal.",
    "codex": "Run Codex on any model.",
    "execute": "Have the agent do one thing.",
    "agent": "Run agents in the background; list, follow and cancel them.",
    "ddr": "Keep design documents.",
    "doctor": "Check the installation and say what to do.",
    "conformance": "Check whether a Responses server keeps to the protocol.",
    "responses": "List, show, delete and export stored responses.",
    "keys": "Make, list and revoke API keys.",
    "db": "Migrate, look at and vacuum the database.",
    "model": "Tell what a model can do; fetch weights for the embedded one.",
}
"""Every command in the order of the help, with its one line there."""


class CommandModules(MutableMapping[str, click.Command]):
    """The commands by name, each in the module of its name; further ones may be added."""

    def __init__(self) -> None:
        self._found: dict[str, click.Command | None] = dict.fromkeys(COMMANDS)

    def __getitem__(self, name: str) -> click.Command:
        found = self._found[name]
        if found is None:
            found = self._found[name] = import_module(f"antiphon.cli.{name}").command
        return found

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Root(click.Group):
    """Whatever goes wrong in a command leaves as one line and a code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In our order, not by name."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing what it names."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            raise  # click ends quietly when the reader of a pipe is gone
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

    Without any configuration, a small embedded model answers. An OpenAI-compatible endpoint takes its
    place with --upstream, and antiphon.toml configures everything else.

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
            stream.reconfigure(errors="replace")  # an answer may hold what the terminal's encoding does not
