"""The loop of a chat: a line in, an answer out; a line that begins with a slash is for us."""

import asyncio
from collections.abc import Callable

import click

from antiphon.cli.answer import print_notes, print_stream
from antiphon.cli.asking import Asker
from antiphon.cli.conversation import Conversation
from antiphon.cli.failure import print_error
from antiphon.cli.heard import Ended
from antiphon.cli.lines import PROMPT, Lines
from antiphon.cli.recall import Exchange
from antiphon.cli.terminal import harmless, output
from antiphon.errors import AntiphonError

HELP = """\
/model NAME    ask another model from now on; without NAME, say which one is asked
/models        list the models
/system TEXT   set the instructions; without TEXT, remove them
/reset         forget the conversation
/retry         ask the last question again, in place of its answer
/help          show this list
/quit          end (so does Ctrl-D)

Ctrl-C stops an answer; the interrupted turn is not part of the conversation.
A line that begins with // is sent with one slash.
"""


class Talk:
    """One session. Turns may fail; the session goes on."""

    def __init__(
        self, asker: Asker, runner: asyncio.Runner, *, model: str, system: str | None, interactive: bool
    ) -> None:
        self.failed = False
        self._asker = asker
        self._runner = runner
        self._conversation = Conversation(model, system)
        self._interactive = interactive
        self._known_notes: set[str] = set()
        self._commands: dict[str, Callable[[str], None]] = {
            "/model": self._set_model,
            "/models": self._list_models,
            "/system": self._set_system,
            "/reset": self._reset,
            "/retry": self._retry,
            "/help": self._help,
        }

    def go_on(self, last: Exchange) -> None:
        """The next turn follows this exchange, which is shown first."""
        self._conversation.answered(last.answer.view.id)
        if last.question:
            self._tell(f"{PROMPT}{harmless(last.question)}")
        self._tell(harmless(last.answer.text))

    def run(self, lines: Lines) -> None:
        """Until the lines end."""
        if self._interactive:
            self._tell(f"Talking with {self._conversation.model}. /help lists the commands, Ctrl-D ends.")
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
                self._fail(f"There is no command {name}. /help lists them; // sends a line with a slash.")
            else:
                command(argument.strip())
        elif line:
            self._ask(line)

    def _ask(self, question: str) -> None:
        params = self._conversation.ask(question)
        try:
            ended = self._runner.run(print_stream(self._asker.stream(params), self._conversation.model))
        except KeyboardInterrupt:
            if not self._interactive:
                raise
            self._tell("Stopped. This turn is not part of the conversation; /retry asks again.")
            return
        print_notes(ended, self._known_notes)
        self._known_notes.update(ended.notes)
        if ended.failure:
            self._fail(ended.failure)
        else:
            self._conversation.answered(ended.view.id)
            self._tell_usage(ended)

    def _set_model(self, name: str) -> None:
        self._conversation.model = name or self._conversation.model
        self._tell(f"Model: {self._conversation.model}")

    def _list_models(self, _: str) -> None:
        for name in self._runner.run(self._asker.models()):
            click.echo(name)

    def _set_system(self, text: str) -> None:
        self._conversation.system = text or None
        self._tell("Instructions set." if text else "Instructions removed.")

    def _reset(self, _: str) -> None:
        self._conversation.reset()
        self._tell("The conversation is forgotten.")

    def _retry(self, _: str) -> None:
        if self._conversation.question is None:  # a step back would leave what the chat goes on from
            self._fail("There is no question to ask again.")
        else:
            self._conversation.step_back()
            self._ask(self._conversation.question)

    def _help(self, _: str) -> None:
        click.echo(HELP, nl=False)

    def _fail(self, message: str) -> None:
        self.failed = True
        print_error(message)

    def _tell(self, text: str) -> None:
        """What a person wants to know, and a script does not."""
        if self._interactive:
            output().print(text, style="dim", markup=False, soft_wrap=True)

    def _tell_usage(self, ended: Ended) -> None:
        usage = ended.view.usage
        if usage is not None:
            self._tell(f"{usage.input_tokens} tokens in, {usage.output_tokens} out")
