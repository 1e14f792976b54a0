"""Watches the event loop and the memory of a server process.

A timer of the event loop should fire on time. If it is late, something held the loop: `faulthandler` has then
written the stack of that moment, from a thread that needs no lock of the interpreter, so that a call into a
library is seen, too.
"""

import asyncio
import ctypes
import faulthandler
import logging
import os
import tempfile
import threading
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import IO

from antiphon.server.admission import Admission

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.05
LATE_SECONDS = 0.1
"""A timer that is later than this was held up."""
OVERLOAD_LATE_SECONDS = 0.25
OVERLOAD_TICKS = 8
"""The server is overloaded while so many timers in a row are that late."""
LOG_SECONDS = 1.0
"""Between two log entries about a blocked event loop."""
MEMORY_TICKS = 10
"""Between two looks at the memory."""
MEMORY_SHARE = 0.9
"""No more requests are taken above this share of the ceiling."""
_MAX_FRAMES = 12
_LOOP = ("/asyncio/", "/uvloop/", "/selectors.py")
"""Frames of the event loop itself."""
_STATM = Path("/proc/self/statm")


class Watchdog:
    """Logs what holds the event loop, and tells `admission` when the server is overloaded."""

    def __init__(self, admission: Admission, max_memory_bytes: int = 0) -> None:
        self._admission = admission
        self._max_memory = max_memory_bytes
        self.blocks = 0
        """How often the event loop was held up."""
        self._late_ticks = 0
        self._logged_at = float("-inf")

    async def run(self) -> None:
        """Watch until this is cancelled."""
        loop = asyncio.get_running_loop()
        thread = threading.get_ident()
        memory_overload: str | None = None
        ticks = 0
        with tempfile.TemporaryFile(buffering=0) as stacks:
            try:
                while True:
                    faulthandler.dump_traceback_later(TICK_SECONDS + LATE_SECONDS, file=stacks)
                    due = loop.time() + TICK_SECONDS
                    await asyncio.sleep(TICK_SECONDS)
                    late = loop.time() - due
                    if late > LATE_SECONDS:
                        self._blocked(loop.time(), late, _stack(stacks, thread))
                    if ticks % MEMORY_TICKS == 0 and self._max_memory:
                        memory_overload = self._look_at_memory()
                    ticks += 1
                    self._admission.overload = self._lag_overload(late) or memory_overload
            finally:
                faulthandler.cancel_dump_traceback_later()

    def _blocked(self, now: float, late: float, stack: str) -> None:
        self.blocks += 1
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            logger.warning(
                "the event loop was blocked for %.0f ms (%d times since the start): %s",
                (late + TICK_SECONDS) * 1000,
                self.blocks,
                stack or "no code of the server ran, the machine is busy",
            )

    def _lag_overload(self, late: float) -> str | None:
        self._late_ticks = self._late_ticks + 1 if late > OVERLOAD_LATE_SECONDS else 0
        return "The server is overloaded." if self._late_ticks >= OVERLOAD_TICKS else None

    def _look_at_memory(self) -> str | None:
        used = memory_bytes()
        if used <= self._max_memory * MEMORY_SHARE:
            return None
        _give_memory_back()
        used = memory_bytes()
        if used <= self._max_memory * MEMORY_SHARE:
            return None
        if self._admission.overload is None:
            logger.warning(
                "%d MB of %d MB are in use: new requests are refused", used >> 20, self._max_memory >> 20
            )
        return "The server has too little memory."


def memory_bytes() -> int:
    """The resident memory of this process; 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _give_memory_back() -> None:
    """Let the C library return what was freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _stack(stacks: IO[bytes], thread: int) -> str:
    """The stack of a thread that was written last, innermost call first, in one line. Empties the file."""
    stacks.seek(0)
    text = stacks.read().decode(errors="replace")
    stacks.seek(0)
    stacks.truncate()
    _, _, rest = text.partition(f"0x{thread:016x} (most recent call first):\n")
    calls = [line.strip().removeprefix("File ") for line in rest.partition("\n\n")[0].splitlines()]
    inner = takewhile(lambda call: not any(part in call for part in _LOOP), calls)
    return " < ".join(islice(inner, _MAX_FRAMES))
