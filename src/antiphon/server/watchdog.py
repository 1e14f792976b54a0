"""Watches the event loop and the memory of a server process.

A timer of the event loop should fire on time. If it is late, something held the loop: a thread has then
looked at the stack of the loop's thread. While a library holds the interpreter's lock, the thread has to
wait, and sees the stack right after the call.
"""

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from itertools import dropwhile, islice, takewhile
from types import FrameType

from antiphon.memory_use import children_bytes, give_memory_back, resident_bytes
from antiphon.server.admission import LATE, MEMORY_FULL, MEMORY_SHORT, Admission, Overload

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.05
LATE_SECONDS = 0.05
"""A timer that is later than this was held up. What holds the event loop for `TICK_SECONDS` more is always
noticed, whenever it begins between two timers."""
LOOK_SECONDS = 0.025
"""Between two looks of the thread that takes the stack."""
OVERLOAD_LATE_SECONDS = 0.25
OVERLOAD_TICKS = 8
"""The server is overloaded while so many timers in a row are that late."""
LOG_SECONDS = 1.0
"""Between two log entries about a blocked event loop."""
MEMORY_TICKS = 4
"""Between two looks at the memory."""
MEMORY_SHARE = 0.9
"""Above this share of the ceiling, requests are taken only of tenants that have no large bodies."""
FULL_MEMORY_SHARE = 1.25
"""Above this share, none are: those that are being answered can exceed the ceiling."""
FREED_MEMORY_SHARE = 0.4
"""Above this share, freed memory is given back to the system again and again: a quarter of what a server
under attack holds is the holes between other blocks."""
GIVE_BACK_SECONDS = 1.0
"""Between two times; one takes up to 5 ms."""
_MAX_FRAMES = 12
_LOOP = (f"{os.sep}asyncio{os.sep}", f"{os.sep}uvloop{os.sep}", f"{os.sep}selectors.py")
"""Parts of the file names of the event loop itself."""


class Watchdog:
    """Logs what holds the event loop, and tells `admission` when the server is overloaded."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._max_memory = admission.max_memory_bytes
        self.blocks = 0
        """How often the event loop was held up."""
        self._late_ticks = 0
        self._gave_back_at = float("-inf")
        self._logged_at = float("-inf")

    async def run(self) -> None:
        """Watch until this is cancelled."""
        loop = asyncio.get_running_loop()
        memory_overload: Overload | None = None
        ticks = 0
        with StackWatch(threading.get_ident()) as stacks:
            while True:
                stacks.expect_sign()
                due = loop.time() + TICK_SECONDS
                await asyncio.sleep(TICK_SECONDS)
                late = loop.time() - due
                if late > LATE_SECONDS:
                    self._blocked(loop.time(), late, stacks.seen)
                if ticks % MEMORY_TICKS == 0 and self._max_memory:
                    memory_overload = self._look_at_memory()
                ticks += 1
                self._admission.overload = self._lag_overload(late) or memory_overload

    def _blocked(self, now: float, late: float, stack: str) -> None:
        self.blocks += 1
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            logger.warning(
                "the event loop was blocked for %.0f to %.0f ms (%d times since the start): %s",
                late * 1000,
                (late + TICK_SECONDS) * 1000,
                self.blocks,
                stack or "by nothing that was seen; perhaps the machine is busy",
            )

    def _lag_overload(self, late: float) -> Overload | None:
        self._late_ticks = self._late_ticks + 1 if late > OVERLOAD_LATE_SECONDS else 0
        return LATE if self._late_ticks >= OVERLOAD_TICKS else None

    def _look_at_memory(self) -> Overload | None:
        self._admission.bodies.children_bytes = children = children_bytes()
        used = resident_bytes()
        if used + children > self._max_memory * FREED_MEMORY_SHARE:
            used = self._give_back(used)
        if used <= self._max_memory * MEMORY_SHARE:
            return None
        if self._admission.overload is None:
            logger.warning(
                "%d MB of %d MB are in use: new requests are refused", used >> 20, self._max_memory >> 20
            )
        return MEMORY_SHORT if used <= self._max_memory * FULL_MEMORY_SHARE else MEMORY_FULL

    def _give_back(self, used: int) -> int:
        """Return freed memory to the system, if that was not done just now; what is used then."""
        now = time.monotonic()
        is_full = used > self._max_memory * MEMORY_SHARE
        if not is_full and now - self._gave_back_at < GIVE_BACK_SECONDS:
            return used
        self._gave_back_at = now
        give_memory_back()
        return resident_bytes()


class StackWatch:
    """A thread that looks at the stack of another one when that gives no sign of life in time."""

    def __init__(self, watched: int) -> None:
        self._watched = watched
        self._sign_at = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self.seen = ""
        """The stack since the last sign, innermost call first; empty if there was no need to look."""

    def __enter__(self) -> "StackWatch":
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ended.set()
        self._thread.join()

    def expect_sign(self) -> None:
        """A sign of life; the next one is expected in time."""
        self._sign_at = time.monotonic()
        self.seen = ""

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            if not self.seen and time.monotonic() - self._sign_at > TICK_SECONDS + LOOK_SECONDS:
                frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] -- documented
                self.seen = _described(frames.get(self._watched))


def _described(frame: FrameType | None) -> str:
    """The innermost calls outside of the event loop in one line."""
    calls = dropwhile(_is_of_loop, traceback.walk_stack(frame))
    ours = islice(takewhile(lambda call: not _is_of_loop(call), calls), _MAX_FRAMES)
    return " < ".join(f"{at.f_code.co_qualname} ({at.f_code.co_filename}:{line})" for at, line in ours)


def _is_of_loop(call: tuple[FrameType, int]) -> bool:
    return any(part in call[0].f_code.co_filename for part in _LOOP)
