"""`antiphon chat`: a conversation in the terminal, or a script with one turn per line."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import click
import msgspec

from antiphon.cli.ask.recall import NEWEST, Exchange, load_from_server, load_from_store
from antiphon.cli.ask.session import ChatSession, open_lines
from antiphon.cli.clients import open_client
from antiphon.cli.failure import FAILED, WrongUsage
from antiphon.cli.log import configure_logging
from antiphon.cli.models import prepare_model
from antiphon.cli.options import (
    BASE_URL_OPTION,
    CONFIG_OPTION,
    LOG_OPTION,
    MODEL_OPTION,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    SettingsOptions,
    require_durable_store,
    with_options,
)
from antiphon.cli.terminal import is_interactive
from antiphon.settings import Settings
from antiphon.wiring import data_folder

HISTORY_FILE = "chat_history"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions(SettingsOptions):
    system: str | None = None
    base_url: str | None = None
    head: str | None = None

    def recall(self) -> Exchange | None:
        """The exchange after which the chat continues, if --continue is given."""
        if self.head is None:
            return None
        if not self.base_url:
            return asyncio.run(load_from_store(require_durable_store(self.load_to_ask()), self.head))
        if self.head == NEWEST:
            raise WrongUsage("A server does not list its responses. Name the one to continue: --continue ID.")
        return asyncio.run(load_from_server(self.base_url, self.head))

    def load(self) -> Settings | None:
        """Settings with a store for the turns; None if a server stores them."""
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
    help="Continue a stored response, with its model; without ID, the newest completed one.",
)
@with_options(MODEL_OPTION, BASE_URL_OPTION, CONFIG_OPTION, *UPSTREAM_OPTIONS, STORE_OPTION, LOG_OPTION)
def command(**values: Any) -> None:
    """Talk with a model in the terminal.

    /help lists the commands. Ctrl-C stops an answer, Ctrl-D ends the conversation. If standard input is not
    a terminal, each of its lines is a turn, and the exit code is 1 if a turn failed.

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
            client = runner.run(stack.enter_async_context(open_client(options.base_url, settings)))
            model = model or runner.run(client.default_model())
            session = ChatSession(client, runner, model=model, system=options.system, interactive=interactive)
            if last is not None:
                session.resume(last)
            with open_lines(interactive=interactive, history=data_folder() / HISTORY_FILE) as lines:
                session.run(lines)
        finally:
            runner.run(stack.aclose())
    if session.failed and not interactive:
        click.get_current_context().exit(FAILED)
