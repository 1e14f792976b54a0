"""Turns that wait for the outputs of tools, between the response that calls them and the one that answers."""

import asyncio
from dataclasses import dataclass

from antiphon.backends.codex_app_server.request import CodexRequest
from antiphon.backends.codex_app_server.thread import Thread
from antiphon.protocol.content import JsonObject

MAX_PARKED_TURNS = 64
"""The most parked turns; a new one replaces the oldest of its tenant, if there is one, or of all."""


@dataclass(eq=False, slots=True)
class _Parked:
    tenant: str
    thread: Thread
    length: int
    fingerprint: bytes
    added: tuple[str, list[JsonObject]]
    timer: asyncio.TimerHandle


class Parking:
    """Parked turns. Each is dropped after `timeout` seconds."""

    def __init__(self, timeout: float, capacity: int = MAX_PARKED_TURNS) -> None:
        self._timeout = timeout
        self._capacity = capacity
        self._parked: list[_Parked] = []

    def __len__(self) -> int:
        return len(self._parked)

    def put(self, thread: Thread, request: CodexRequest) -> None:
        """Store a turn that `request` began and that has called tools."""
        if len(self._parked) >= self._capacity:
            own = (parked for parked in self._parked if parked.tenant == request.tenant)
            self._give_up(next(own, self._parked[0]))
        length = len(request.items)
        timer = asyncio.get_running_loop().call_later(self._timeout, lambda: self._give_up(parked))
        calls = [request.sent_back(call.call_id, call.name, call.arguments) for call in thread.open_calls]
        parked = _Parked(
            request.tenant, thread, length, request.fingerprint(length), (thread.text, calls), timer
        )
        self._parked.append(parked)

    def take(self, request: CodexRequest) -> Thread | None:
        """The turn that `request` continues: it has the same question, then exactly the text and calls of the
        turn, then the outputs of exactly its calls.

        Ids are not sufficient: models write them, and two clients may have the same. Two turns with identical
        visible text are interchangeable.
        """
        for parked in self._parked:
            if _continues(request, parked):
                self._remove(parked)
                return parked.thread
        return None

    def clear(self) -> None:
        """Give all up."""
        for parked in list(self._parked):
            self._give_up(parked)

    def _give_up(self, parked: _Parked) -> None:
        self._remove(parked)
        parked.thread.close()

    def _remove(self, parked: _Parked) -> None:
        parked.timer.cancel()
        self._parked.remove(parked)


def _continues(request: CodexRequest, parked: _Parked) -> bool:
    return (
        parked.thread.alive
        and set(request.outputs) == {call.call_id for call in parked.thread.open_calls}
        and request.added_after(parked.length) == parked.added
        and request.fingerprint(parked.length) == parked.fingerprint
    )
