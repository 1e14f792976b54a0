"""The port of a server: bound, or an error that says who has it and which command to run instead."""

import asyncio
import errno
import os
import socket

from antiphon.discovery.probe import Probe, probe
from antiphon.errors import AddressInUse, SettingsError
from antiphon.server.process import bind
from antiphon.settings import Settings

BACKLOG = 2048
MAX_PORTS_TRIED = 20
"""For the port of the recommended command."""
ANOTHER_ANTIPHON = "another Antiphon"
_REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_PROGRAMS = {"llama.cpp": "llama.cpp", "lm-studio": "LM Studio", "ollama": "Ollama", "vllm": "vLLM"}


def bind_port(settings: Settings) -> socket.socket:
    """A socket bound to the address of the settings; raises `SettingsError`."""
    try:
        return bind(settings.server.host, settings.server.port)
    except AddressInUse:
        raise SettingsError(explain_port(settings)) from None


def listen(listener: socket.socket, settings: Settings) -> None:
    """Accept connections; they are answered once the application has started."""
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(explain_port(settings)) from None
        host, port = listener.getsockname()[:2]
        reason = os.strerror(error.errno or 0)
        raise SettingsError(f"Cannot listen on {host}:{port}: {reason}.") from None


def explain_port(settings: Settings) -> str:
    """Who listens on the port of the settings, and what to do about it."""
    host = _REACHED_AT.get(settings.server.host, settings.server.host)
    address = f"{f'[{host}]' if ':' in host else host}:{settings.server.port}"
    found = asyncio.run(probe(address))
    instead = f"antiphon serve --port {_free_port(settings.server.host, settings.server.port)}"
    if found.state == "antiphon":
        return (
            f"Cannot listen on {address}: {ANOTHER_ANTIPHON} uses it. Use that one at http://{address}/v1, "
            f"or start a second one: {instead}"
        )
    is_found = found.server is not None and settings.discovers and address in settings.discovery.addresses
    advice = "Start Antiphon on another port" + (", where it finds those models" if is_found else "")
    return f"Cannot listen on {address}: {_program(found)} uses it. {advice}: {instead}"


def _program(found: Probe) -> str:
    if found.server is None:
        return "another program"
    return _PROGRAMS.get(found.server.kind, "another model server")


def _free_port(host: str, taken: int) -> int:
    """The next port that is free; 0, which picks one, if there is none nearby."""
    for port in range(taken + 1, min(taken + MAX_PORTS_TRIED, 65535) + 1):
        try:
            bind(host, port).close()
        except SettingsError:
            continue
        return port
    return 0
