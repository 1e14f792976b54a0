"""The server that is running on this machine, and whether a command uses it."""

import asyncio
from dataclasses import replace
from typing import NamedTuple, TypeVar

import msgspec

from antiphon.cli.clients import server_key
from antiphon.cli.options import API_KEY_VARIABLE, AskingOptions, is_embedded
from antiphon.cli.serve.banner import Banner
from antiphon.cli.terminal import errors
from antiphon.errors import ResponsesCallFailed
from antiphon.http.target import Deadlines
from antiphon.orchestrator.http_client import HttpResponsesClient
from antiphon.service.codex_catalogue import CodexCatalogue
from antiphon.settings import Settings

_PROBE = Deadlines(connect=1.0, first_byte=3.0, answer=3.0, between=3.0, total=3.0)
"""Short: any program may listen on the port, and one that does not answer is not Antiphon."""

Options = TypeVar("Options", bound=AskingOptions)


class RunningServer(NamedTuple):
    """A server on the configured port."""

    base_url: str
    models: tuple[str, ...] = ()
    rejects_key: bool = False
    """Whether it needs a key that this command does not have. It may then be another program."""


async def find_running_server(settings: Settings) -> RunningServer | None:
    """The server that the settings describe, if it is running: only Antiphon has a catalogue for Codex."""
    base_url = Banner(settings, port=settings.server.port).url
    async with HttpResponsesClient(base_url, api_key=server_key(), retries=0, deadlines=_PROBE) as client:
        try:
            body = await client.get("models?client_version=0.0.0")
            models = msgspec.json.decode(body, type=CodexCatalogue).models
        except ResponsesCallFailed as failure:
            return RunningServer(base_url, rejects_key=True) if failure.status == 401 else None
        except msgspec.DecodeError:
            return None  # another program; llama.cpp uses the same default port
    return RunningServer(base_url, tuple(model.slug for model in models))


def use_running_server(options: Options) -> Options:
    """The options with the address of the running server, if the command should ask it.

    It is not asked if options select an upstream, a store or this process, if it rejects the key, or if the
    model is an embedded one that it does not serve.
    """
    if options.base_url is not None or options.wants_own_service:
        return options
    settings = options.load_to_find()
    server = asyncio.run(find_running_server(settings)) if settings.server.port else None
    if server is None:
        _note("No server is running: answering in this process.")
        return options
    if server.rejects_key:
        _note(f"The server at {server.base_url} needs a key ({API_KEY_VARIABLE}): answering in this process.")
        return options
    if options.model is not None and options.model not in server.models and is_embedded(options.model):
        _note(f"The server at {server.base_url} does not serve '{options.model}': answering in this process.")
        return options
    _note(f"Using the server at {server.base_url}.")
    return replace(options, base_url=server.base_url, runs_here=True)


def _note(text: str) -> None:
    """Tell a person; a script reads standard error for problems only."""
    console = errors()
    if console.is_terminal:
        console.print(text, style="dim", markup=False, soft_wrap=True)
