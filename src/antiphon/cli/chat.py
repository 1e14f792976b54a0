"""`antiphon chat`: a conversation in the terminal, or a script of one line per turn."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import click
import msgspec

from antiphon.cli.asking import open_asker, prepare_model
from antiphon.cli.failure import FAILED, WrongUsage
from antiphon.cli.kept import require_lasting
from antiphon.cli.lines import open_lines
from antiphon.cli.log import configure_logging
from antiphon.cli.options import (
    BASE_URL_OPTION,
    CONFIG_OPTION,
    LOG_OPTION,
    MODEL_OPTION,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    SettingsOptions,
    with_options,
)
from antiphon.cli.recall import NEWEST, Exchange, recall_from_server, recall_from_store
from antiphon.cli.talk import Talk
from antiphon.cli.terminal import is_interactive
from antiphon.settings import Settings
from antiphon.wiring import data_folder

HISTORY_FILE = "chat_history"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions(SettingsOptions):
    """What was said on the command line."""

    system: str | None = None
    base_url: str | None = None
    head: str | None = None

    def recall(self) -> Exchange | None:
        """The exchange that the chat goes on from, if it goes on from one."""
        if self.head is None:
            return None
        if not self.base_url:
            return asyncio.run(recall_from_store(require_lasting(self.load_to_ask()), self.head))
        if self.head == NEWEST:
            raise WrongUsage("A server does not tell its newest response. Name one: --continue ID.")
        return asyncio.run(recall_from_server(self.base_url, self.head))

    def load(self) -> Settings | None:
        """Settings that keep the turns; None when a server does."""
        if self.base_url:
            return None
        settings = self.load_to_ask()
        if settings.store.url == "none":
            store = msgspec.structs.replace(settings.store, url="memory:")
            settings = msgspec.structs.replace(settings, store=store)
        return settings


@click.command("chat")
@click.option("--system", metavar="TEXT", help="Instructions for the model.")
@click.option(
    "--continue",
    "head",
    is_flag=False,
    flag_value=NEWEST,
    metavar="[ID]",
    help="Go on after a stored response, with its model; without ID, after the newest completed one.",
)
@with_options(MODEL_OPTION, BASE_URL_OPTION, CONFIG_OPTION, *UPSTREAM_OPTIONS, STORE_OPTION, LOG_OPTION)
def command(**values: Any) -> None:
    """Talk with a model in the terminal.

    /help lists the commands. Ctrl-C stops an answer and keeps the conversation, Ctrl-D ends it. When
    standard input is not a terminal, each of its lines is a turn, and the exit code is 1 if one failed.

    \b
    Examples:
      antiphon chat
      antiphon chat --upstream http://localhost:11434/v1 --upstream-kind ollama --model qwen3
      antiphon chat --base-url http://127.0.0.1:8080/v1
      antiphon chat --continue
      printf 'My name is Ada.\\nWhat is my name?\\n' | antiphon chat
    """
    options = ChatOptions(**values)
    configure_logging(options.log_level or "warning")
    last = options.recall()
    if last is not None:
        options = replace(options, model=options.model or last.answer.view.model)
    settings = options.load()
    model = options.model if settings is None else prepare_model(settings, options.model)
    interactive = is_interactive()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            asker = runner.run(stack.enter_async_context(open_asker(options.base_url, settings)))
            model = model or runner.run(asker.default_model())
            talk = Talk(asker, runner, model=model, system=options.system, interactive=interactive)
            if last is not None:
                talk.go_on(last)
            with open_lines(interactive=interactive, history=data_folder() / HISTORY_FILE) as lines:
                talk.run(lines)
        finally:
            runner.run(stack.aclose())
    if talk.failed and not interactive:
        click.get_current_context().exit(FAILED)
