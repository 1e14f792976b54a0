"""The loop of a chat: reads lines, prints answers, and executes lines that begin with a slash."""

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import click

from antiphon.cli.answers import Answer, print_notes, print_stream
from antiphon.cli.ask.recall import Exchange
from antiphon.cli.clients import Client
from antiphon.cli.failure import print_error
from antiphon.cli.options import given
from antiphon.cli.terminal import output, printable
from antiphon.errors import AntiphonError
from antiphon.protocol.content import JsonObject

try:
    import readline
except ImportError:  # not available on every platform
    readline = None

HISTORY_LINES = 1000
PROMPT = "> "
CONTINUATION_PROMPT = "… "
QUOTES = '"""'

HELP = """\
/model NAME    use another model; without NAME, show the current one
/models        list the models
/system TEXT   set the instructions; without TEXT, remove them
/reset         start a new conversation
/retry         ask the last question again and replace its answer
/help          show this list
/quit          end the chat (like Ctrl-D)

Ctrl-C stops an answer; the interrupted turn is not part of the conversation.
A line that ends with \\ continues on the next one. A line that begins with \"\"\" begins a text of many
lines, which ends with \"\"\". A line that begins with // is sent with one slash.
"""


class Lines(Protocol):
    """A source of lines."""

    def next(self) -> str | None:
        """The next line; None at the end. Raises `KeyboardInterrupt` for Ctrl-C."""
        ...


class TypedLines:
    """Questions typed at a terminal, of one line or more."""

    def next(self) -> str | None:
        try:
            lines = [input(PROMPT)]
        except EOFError:
            click.echo()
            return None
        with suppress(EOFError):  # Ctrl-D ends a text of many lines
            while is_unfinished(lines):
                lines.append(input(CONTINUATION_PROMPT))
        return join_lines(lines)


class PipedLines:
    """Lines of a script: no prompt, one question per line."""

    def __init__(self) -> None:
        self._stream = sys.stdin.buffer

    def next(self) -> str | None:
        line = self._stream.readline()
        return line.decode(errors="replace") if line else None


def is_unfinished(lines: Sequence[str]) -> bool:
    """Whether the typed lines continue: inside of quotes, or after a backslash."""
    if lines[0].lstrip().startswith(QUOTES):
        rest = "\n".join(lines).lstrip().removeprefix(QUOTES)
        return not rest.rstrip().endswith(QUOTES)
    return lines[-1].endswith("\\")


def join_lines(lines: Sequence[str]) -> str:
    """The text that the typed lines are, without the marks of continuation."""
    if lines[0].lstrip().startswith(QUOTES):
        text = "\n".join(lines).strip().removeprefix(QUOTES)
        return text.removesuffix(QUOTES).strip("\n")
    return "\n".join(line.removesuffix("\\") for line in lines)


@contextmanager
def open_lines(*, interactive: bool, history: Path) -> Generator[Lines, None, None]:
    """The lines of this session. Typed lines are added to the history file."""
    if not interactive:
        yield PipedLines()
        return
    if readline is None:
        yield TypedLines()
        return
    readline.set_history_length(HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield TypedLines()
    finally:
        # A history that cannot be written does not fail the chat.
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            history.touch(mode=0o600)
            readline.write_history_file(history)


@dataclass(slots=True)
class Conversation:
    """The client's side of a conversation. Only turns that completed are part of it."""

    model: str
    system: str | None = None
    question: str | None = None
    """The last question."""
    _head: str | None = None
    _before: str | None = None

    def ask(self, question: str) -> JsonObject:
        """The parameters of the next turn."""
        self.question, self._before = question, self._head
        return given(
            model=self.model,
            input=question,
            instructions=self.system,  # instructions are not inherited by the next turn
            previous_response_id=self._head,
        )

    def answered(self, response_id: str) -> None:
        """Continue after this response."""
        self._head = response_id

    def step_back(self) -> str | None:
        """Drop the last turn, and return its question if there is one."""
        self._head = self._before
        return self.question

    def reset(self) -> None:
        """Start a new conversation with the same model and instructions."""
        self.question = self._head = self._before = None


class ChatSession:
    """One chat. A failed turn does not end it."""

    def __init__(
        self,
        client: Client,
        runner: asyncio.Runner,
        *,
        model: str,
        system: str | None,
        interactive: bool,
        on_answered: Callable[[str], None],
    ) -> None:
        self.failed = False
        self._on_answered = on_answered
        self._client = client
        self._runner = runner
        self._conversation = Conversation(model, system)
        self._interactive = interactive
        self._known_downgrades: set[str] = set()
        self._commands: dict[str, Callable[[str], None]] = {
            "/model": self._set_model,
            "/models": self._list_models,
            "/system": self._set_system,
            "/reset": self._reset,
            "/retry": self._retry,
            "/help": self._help,
        }

    def resume(self, last: Exchange) -> None:
        """Print this exchange and continue after it."""
        self._conversation.answered(last.answer.view.id)
        if last.question:
            self._inform(f"{PROMPT}{printable(last.question)}")
        self._inform(printable(last.answer.text))

    def run(self, lines: Lines) -> None:
        """Take turns until the lines end."""
        if self._interactive:
            self._inform(f"Model: {self._conversation.model}. /help lists the commands, Ctrl-D ends.")
        while True:
            try:
                line = lines.next()
                if line is None or line.strip() in ("/quit", "/exit"):
                    return
                self._take(line.strip())
            except KeyboardInterrupt:
                if not self._interactive:
                    raise
                click.echo()
            except AntiphonError as error:
                self._fail(error.message)

    def _take(self, line: str) -> None:
        if line.startswith("//"):
            self._ask(line[1:])
        elif line.startswith("/"):
            name, _, argument = line.partition(" ")
            command = self._commands.get(name)
            if command is None:
                self._fail(f"Unknown command {name}. /help lists the commands; // sends a line with a slash.")
            else:
                command(argument.strip())
        elif line:
            self._ask(line)

    def _ask(self, question: str) -> None:
        params = self._conversation.ask(question)
        try:
            answer = self._runner.run(print_stream(self._client.stream(params), self._conversation.model))
        except KeyboardInterrupt:
            if not self._interactive:
                raise
            self._inform("Stopped. This turn is not part of the conversation. /retry asks again.")
            return
        print_notes(answer, self._known_downgrades)
        self._known_downgrades.update(answer.downgrades)
        if answer.failure:
            self._fail(answer.failure)
        else:
            self._conversation.answered(answer.view.id)
            self._on_answered(answer.view.id)
            self._print_usage(answer)

    def _set_model(self, name: str) -> None:
        self._conversation.model = name or self._conversation.model
        self._inform(f"Model: {self._conversation.model}")

    def _list_models(self, _: str) -> None:
        for name in self._runner.run(self._client.models()):
            click.echo(name)

    def _set_system(self, text: str) -> None:
        self._conversation.system = text or None
        self._inform("Instructions set." if text else "Instructions removed.")

    def _reset(self, _: str) -> None:
        self._conversation.reset()
        self._inform("New conversation.")

    def _retry(self, _: str) -> None:
        if (
            self._conversation.question is None
        ):  # stepping back would drop the exchange that the chat continues
            self._fail("There is no question to ask again.")
        else:
            self._conversation.step_back()
            self._ask(self._conversation.question)

    def _help(self, _: str) -> None:
        click.echo(HELP, nl=False)

    def _fail(self, message: str) -> None:
        self.failed = True
        print_error(message)

    def _inform(self, text: str) -> None:
        """Print a message for a person, not for a script."""
        if self._interactive:
            output().print(text, style="dim", markup=False, soft_wrap=True)

    def _print_usage(self, answer: Answer) -> None:
        usage = answer.view.usage
        if usage is not None:
            self._inform(f"{usage.input_tokens} tokens in, {usage.output_tokens} out")
