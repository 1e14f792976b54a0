"""The event loop of a server goes before the other threads of its process."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from antiphon.server.process import SWITCH_SECONDS, prefer_event_loop
from antiphon.thread_priority import NICENESS


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.fixture
def switch_interval() -> Iterator[None]:
    ordinary = sys.getswitchinterval()
    yield
    sys.setswitchinterval(ordinary)


@pytest.mark.usefixtures("switch_interval")
async def test_other_threads_give_the_lock_back_soon() -> None:
    prefer_event_loop()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has no priority of its own")
@pytest.mark.usefixtures("switch_interval")
async def test_threads_of_the_executor_have_a_lower_priority() -> None:
    own = priority()
    prefer_event_loop()
    assert await asyncio.to_thread(priority) == min(19, own + NICENESS)
    assert priority() == own
