"""`antiphon chat`: a conversation in the terminal, or a script with one turn per line."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import click
import msgspec

from antiphon.cli.ask.last_chats import last_chat, save_last_chat
from antiphon.cli.ask.recall import NEWEST, Exchange, load_from_server, load_from_store, newest_in_store
from antiphon.cli.ask.session import ChatSession, open_lines
from antiphon.cli.clients import open_client
from antiphon.cli.failure import FAILED, WrongUsage
from antiphon.cli.log import configure_logging
from antiphon.cli.models import prepare_model
from antiphon.cli.options import (
    CONFIG_OPTION,
    DISCOVERY_OPTION,
    LOG_OPTION,
    MODEL_OPTION,
    SERVER_OPTIONS,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    AskingOptions,
    require_durable_store,
    with_options,
)
from antiphon.cli.running_server import use_running_server
from antiphon.cli.terminal import is_interactive
from antiphon.settings import Settings
from antiphon.wiring import data_folder

HISTORY_FILE = "chat_history"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions(AskingOptions):
    system: str | None = None
    head: str | None = None

    def recall(self) -> Exchange | None:
        """The exchange after which the chat continues, if --continue is given."""
        if self.head is None:
            return None
        if not self.base_url:
            return asyncio.run(load_from_store(require_durable_store(self.load_to_ask()), self.head))
        head = self.head if self.head != NEWEST else self._newest(self.base_url)
        if head is None:
            raise WrongUsage(
                "There is no chat with this server to continue, and a server does not list its responses. "
                "Name one: --continue ID."
            )
        return asyncio.run(load_from_server(self.base_url, head))

    def _newest(self, base_url: str) -> str | None:
        """The last chat with the server, or the newest response in the store that it is configured for."""
        known = last_chat(base_url)
        if known is not None or not self.runs_here:
            return known
        return asyncio.run(newest_in_store(require_durable_store(self.load_to_find())))

    def remember(self, response_id: str) -> None:
        """Store the last response of a chat with a server, for --continue."""
        if self.base_url:
            save_last_chat(self.base_url, response_id)

    def load(self) -> Settings | None:
        """Settings with a store for the turns; None if a server stores them."""
        if self.base_url:
            return None
        settings = self.load_to_answer()
        if settings.store.url == "none":
            store = msgspec.structs.replace(settings.store, url="memory:")
            settings = msgspec.structs.replace(settings, store=store)
        return settings


@click.command("chat")
@click.option("--system", metavar="TEXT", help="Instructions for the model.")
@click.option(
    "--continue",
    "--resume",
    "head",
    is_flag=False,
    flag_value=NEWEST,
    metavar="[ID]",
    help="Continue a stored response, with its model; without ID, the newest completed one, or with a server "
    "the last chat with it.",
)
@with_options(
    MODEL_OPTION,
    *SERVER_OPTIONS,
    CONFIG_OPTION,
    *UPSTREAM_OPTIONS,
    DISCOVERY_OPTION,
    STORE_OPTION,
    LOG_OPTION,
)
def command(**values: Any) -> None:
    """Talk with a model in the terminal.

    Answers are shown as Markdown, unless NO_COLOR is set or standard output is not a terminal. /help lists
    the commands. Ctrl-C stops an answer, Ctrl-D ends the conversation. If standard input is not a terminal,
    each of its lines is a turn, and the exit code is 1 if a turn failed.

    \b
    Examples:
      antiphon chat
      antiphon chat --model qwen3
      antiphon chat --base-url http://127.0.0.1:8080/v1
      antiphon chat --continue
      printf 'My name is Ada.\\nWhat is my name?\\n' | antiphon chat
    """
    options = ChatOptions(**values)
    configure_logging(options.log_level or "warning")
    options = use_running_server(options)
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
            session = ChatSession(
                client,
                runner,
                model=model,
                system=options.system,
                interactive=interactive,
                on_answered=options.remember,
            )
            if last is not None:
                session.resume(last)
            with open_lines(interactive=interactive, history=data_folder() / HISTORY_FILE) as lines:
                session.run(lines)
        finally:
            runner.run(stack.aclose())
    if session.failed and not interactive:
        click.get_current_context().exit(FAILED)
