"""Turns that wait for the outputs of tools, between the response that calls them and the one that answers."""

import asyncio
from dataclasses import dataclass

from antiphon.backends.codex_app_server.request import CodexRequest
from antiphon.backends.codex_app_server.thread import Thread
from antiphon.protocol.content import JsonObject

CAPACITY = 64
"""Most turns that wait at once; the oldest one is given up for a new one."""


@dataclass(eq=False, slots=True)
class _Parked:
    thread: Thread
    length: int
    fingerprint: bytes
    added: tuple[str, list[JsonObject]]
    timer: asyncio.TimerHandle


class Parking:
    """Waiting turns. Each is given up after `patience` seconds."""

    def __init__(self, patience: float, capacity: int = CAPACITY) -> None:
        self._patience = patience
        self._capacity = capacity
        self._parked: list[_Parked] = []

    def __len__(self) -> int:
        return len(self._parked)

    def put(self, thread: Thread, request: CodexRequest) -> None:
        """Store a turn that `request` began and that has called tools."""
        if len(self._parked) >= self._capacity:
            self._give_up(self._parked[0])
        length = len(request.items)
        timer = asyncio.get_running_loop().call_later(self._patience, lambda: self._give_up(parked))
        calls = [request.sent_back(call.call_id, call.name, call.arguments) for call in thread.open_calls]
        parked = _Parked(thread, length, request.fingerprint(length), (thread.text, calls), timer)
        self._parked.append(parked)

    def take(self, request: CodexRequest) -> Thread | None:
        """The turn that `request` continues: the same question, then what the turn has added, text
        and calls to the last letter, then the outputs of exactly its calls.

        Ids alone would not do: models write them, and two clients may have the same. Two turns of which every
        visible text is equal are interchangeable: it does not matter which of them a client continues.
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
