"""Work on many items: others have their turn meanwhile."""

import asyncio
import threading

import pytest

from antiphon.backends.scripted import Script, ScriptedBackend, ScriptedTurn
from antiphon.caller import Caller
from antiphon.protocol.large_body import LargeBody
from antiphon.protocol.parse_create import create_from
from antiphon.service import long_work
from antiphon.service.long_work import MANY_ITEMS, SHORT_BODY_BYTES, THREAD_ITEMS, LongWork, objects_in
from antiphon.service.responses.rounds import RoundBuilder
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.service.conftest import MakeCreator, services_of


async def test_little_work_is_done_at_once() -> None:
    work = LongWork().run("t", MANY_ITEMS, threading.current_thread)
    with pytest.raises(StopIteration) as ended:
        work.send(None)
    assert ended.value.value is threading.main_thread()


async def test_others_have_their_turn_before_more_work() -> None:
    work = asyncio.ensure_future(LongWork().run("t", MANY_ITEMS + 1, threading.current_thread))
    await asyncio.sleep(0)
    assert not work.done()
    assert await work is threading.main_thread()


async def test_very_much_work_is_done_in_one_thread_by_tenants_in_turn() -> None:
    work, gate = LongWork(), threading.Event()
    order: list[str] = []

    def note(name: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        gate.wait(10)
        order.append(name)
        return name

    def begin(tenant: str, name: str) -> "asyncio.Task[str]":
        return asyncio.ensure_future(work.run(tenant, THREAD_ITEMS + 1, lambda: note(name)))

    tasks = [begin("a", f"a{number}") for number in range(4)]
    await asyncio.sleep(0)
    tasks.append(begin("b", "b"))
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*tasks) == ["a0", "a1", "a2", "a3", "b"]
    assert order.index("b") == 1


def test_the_objects_of_a_body_are_counted_if_it_may_have_many() -> None:
    assert objects_in(b"{}" * (SHORT_BODY_BYTES // 2)) == 0
    assert objects_in(b"{}" * SHORT_BODY_BYTES) == SHORT_BODY_BYTES
    assert objects_in(LargeBody("x")) == 0


async def test_an_error_of_the_thread_is_raised() -> None:
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await LongWork().run("t", THREAD_ITEMS + 1, broken)


class Noting(ScriptedBackend):
    """Notes the threads in which turns are prepared."""

    def __init__(self, *scripts: Script) -> None:
        super().__init__(*scripts)
        self.threads: list[bool] = []

    def prepare(self, turn: TurnRequest) -> ScriptedTurn:
        self.threads.append(threading.current_thread() is threading.main_thread())
        return super().prepare(turn)


async def test_a_turn_of_very_many_items_is_prepared_in_a_thread(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_work, "THREAD_ITEMS", 20)
    backend = Noting([[TextDelta("a"), Finished("stop")]])
    creator = make_creator(backend)
    messages = [{"role": "user", "content": "x"}] * 30
    for given in (messages[:10], messages):
        await creator.start(create_from(model="m", input=given, store=False), Caller.of("t")).result()
    last = await creator.start(create_from(model="m", input=messages), Caller.of("t")).result()
    assert backend.threads == [True, False, False]
    request = create_from(model="m", input="x", previous_response_id=last.id)
    assert (await creator.start(request, Caller.of("t")).result()).status == "completed"
    assert (await services_of(creator).tokens.count(request, Caller.of("t"))).tokens > 30
    assert backend.threads[-1] is False


def test_builders_of_one_service_share_the_thread(make_creator: MakeCreator) -> None:
    parts = make_creator(ScriptedBackend.saying("a")).parts
    assert isinstance(parts.rounds, RoundBuilder)
    assert parts.rounds.work is parts.contexts.work
