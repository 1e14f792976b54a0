import asyncio
import threading

import pytest

from antiphon.backends.local.pipe import CAPACITY, Pipe
from antiphon.errors import BackendBroken, Unavailable


async def test_values_are_received_in_order_and_then_the_end() -> None:
    pipe = Pipe()
    for number in range(5):
        assert pipe.put(b"%d" % number) is False
    pipe.end()
    assert await pipe.take(5) == [b"0", b"1", b"2", b"3", b"4"]
    assert await pipe.take(5) is None


async def test_silence_is_an_empty_list() -> None:
    assert await Pipe().take(0.01) == []


async def test_a_listener_that_waits_is_woken_from_another_thread() -> None:
    pipe = Pipe()
    waiting = asyncio.create_task(pipe.take(5))
    await asyncio.sleep(0)
    await asyncio.to_thread(pipe.put, b"x")
    assert await waiting == [b"x"]


async def test_the_threads_error_is_raised_after_its_values() -> None:
    pipe = Pipe()
    pipe.put(b"x")
    pipe.end(BackendBroken())
    assert await pipe.take(5) == [b"x"]
    with pytest.raises(BackendBroken):
        await pipe.take(5)


async def test_a_slow_listener_holds_the_thread_back_until_it_takes() -> None:
    pipe = Pipe()
    for _ in range(CAPACITY):
        pipe.put(b"x")
    more = asyncio.create_task(asyncio.to_thread(pipe.put, b"y"))
    await asyncio.sleep(0.05)
    assert not more.done()
    assert len(await pipe.take(5) or ()) == CAPACITY
    assert await asyncio.wait_for(more, 5) is False


async def test_a_closed_pipe_stops_the_thread_even_while_it_waits() -> None:
    pipe = Pipe()
    for _ in range(CAPACITY):
        pipe.put(b"x")
    more = asyncio.create_task(asyncio.to_thread(pipe.put, b"y"))
    await asyncio.sleep(0.05)
    pipe.close()
    assert await asyncio.wait_for(more, 5) is True
    assert pipe.put(b"z") is True


async def test_a_pipe_that_is_closed_with_an_error_ends_a_listener_that_waits() -> None:
    pipe = Pipe()
    waiting = asyncio.create_task(pipe.take(5))
    await asyncio.sleep(0)
    pipe.close(Unavailable())
    with pytest.raises(Unavailable):
        await waiting


def test_a_thread_that_outlives_the_loop_is_stopped() -> None:
    async def make() -> Pipe:
        return Pipe()

    pipe = asyncio.run(make())
    thread = threading.Thread(target=pipe.put, args=(b"x",))
    thread.start()
    thread.join(5)
    assert pipe.put(b"y") is True
