"""Antiphon in the caller's own process."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import openai
import pytest
from msgspec import to_builtins

from antiphon import Antiphon, RequestError, Route, ScriptedBackend, Settings, SettingsError, SyncAntiphon
from antiphon.backends.scripted import Step
from antiphon.errors import NotFound
from antiphon.protocol.events import OutputTextDelta, ResponseCompleted, ResponseCreated
from antiphon.protocol.response import Response
from antiphon.settings import SealSettings, ServerSettings, StoreSettings, UpstreamSettings
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from antiphon.wiring import make_endpoint, seal_secret
from tests.turn.folding import to_wire
from tests.turn.order import check_order
from tests.upstream import run_upstream

SETTINGS = Settings(seal=SealSettings(key="test"))
IN_MEMORY = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"))


def antiphon(backend: ScriptedBackend, settings: Settings = SETTINGS) -> Antiphon:
    return Antiphon(settings, routes=[Route("m", backend)])


def halting_backend() -> ScriptedBackend:
    """A backend that sends one text delta and then nothing."""

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("first")]
        await asyncio.Event().wait()

    return ScriptedBackend(steps)


def text_of(response: Response) -> str:
    return to_builtins(response.output)[0]["content"][0]["text"]


async def test_a_response_is_created() -> None:
    async with antiphon(ScriptedBackend.saying("Hel", "lo")) as service:
        response = await service.create(model="m", input="hi")
        assert text_of(response) == "Hello"
        assert await service.models() == ["m"]


async def test_a_response_is_streamed() -> None:
    async with antiphon(ScriptedBackend.saying("Hel", "lo")) as service:
        check_order([to_wire(event) async for event in service.stream(model="m", input="hi")])


async def test_a_closed_stream_is_stored_as_cancelled() -> None:
    async with antiphon(halting_backend()) as service:
        response_id = ""
        async with aclosing(service.stream(model="m", input="hi")) as events:
            async for event in events:
                if isinstance(event, ResponseCreated):
                    response_id = event.response.id
                if isinstance(event, OutputTextDelta):
                    break
        stored = await service.retrieve(response_id)
        assert (stored.status, text_of(stored)) == ("cancelled", "first")


async def test_a_background_response_is_queued_followed_and_retrieved() -> None:
    async with antiphon(ScriptedBackend.saying("Hel", "lo"), IN_MEMORY) as service:
        queued = await service.create(model="m", input="hi", background=True)
        assert queued.status == "queued"
        events = [event async for event in service.follow(queued.id)]
        check_order([to_wire(event) for event in events])
        assert isinstance(events[-1], ResponseCompleted)
        assert await service.retrieve(queued.id) == events[-1].response
        assert [event async for event in service.follow(queued.id, after=4)] == events[5:]


async def test_a_background_response_is_streamed_as_well() -> None:
    async with antiphon(ScriptedBackend.saying("Hel", "lo"), IN_MEMORY) as service:
        stream = service.stream(model="m", input="hi", background=True)
        kinds = [to_wire(event)["type"] async for event in stream]
        assert (kinds[1], kinds[-1]) == ("response.queued", "response.completed")


async def test_a_background_response_is_cancelled() -> None:
    async with antiphon(halting_backend(), IN_MEMORY) as service:
        queued = await service.create(model="m", input="hi", background=True)
        async for event in service.follow(queued.id):
            if isinstance(event, OutputTextDelta):
                break
        cancelled = await service.cancel(queued.id)
        assert (cancelled.status, text_of(cancelled)) == ("cancelled", "first")
        assert await service.retrieve(queued.id) == cancelled


async def test_a_deleted_response_is_gone() -> None:
    async with antiphon(ScriptedBackend.saying("x"), IN_MEMORY) as service:
        response = await service.create(model="m", input="hi")
        await service.delete(response.id)
        for gone in (service.retrieve(response.id), service.delete(response.id)):
            with pytest.raises(NotFound):
                await gone


async def test_a_conversation_is_compacted() -> None:
    async with antiphon(ScriptedBackend.saying("They said hi."), IN_MEMORY) as service:
        response = await service.create(model="m", input="hi")
        compacted = await service.compact(model="m", previous_response_id=response.id)
        assert [item["type"] for item in to_builtins(compacted.output)] == ["message", "compaction"]


async def test_a_bad_request_is_raised() -> None:
    async with antiphon(ScriptedBackend.saying("x")) as service:
        with pytest.raises(RequestError):
            await service.create(model="m", input="hi", temperature=9)


async def test_it_must_be_open() -> None:
    with pytest.raises(SettingsError, match="async with"):
        await antiphon(ScriptedBackend.saying("x")).create(model="m", input="hi")


async def test_the_official_client_is_bound_in_memory() -> None:
    settings = Settings(server=ServerSettings(api_keys=("secret",)), seal=SealSettings(key="test"))
    async with (
        antiphon(ScriptedBackend.saying("Hel", "lo"), settings) as service,
        service.openai_client() as client,
    ):
        first = await client.responses.create(model="m", input="hi")
        second = await client.responses.create(model="m", input="more", previous_response_id=first.id)
        assert (first.output_text, second.output_text) == ("Hello", "Hello")
        listed = [model async for model in client.models.list()]
        assert [model.id for model in listed if getattr(model, "kind", None) is None] == ["m"]
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="m", input="hi", temperature=9)


async def test_the_bound_client_sees_events_as_they_come() -> None:
    more = asyncio.Event()

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("first")]
        await more.wait()
        yield [Finished("stop")]

    async with antiphon(ScriptedBackend(steps)) as service, service.openai_client() as client:
        kinds: list[Any] = []
        async for event in await client.responses.create(model="m", input="hi", stream=True):
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                assert not more.is_set()
                more.set()
        assert kinds[-1] == "response.completed"


async def test_a_disconnecting_bound_client_stops_the_backend() -> None:
    stopped = asyncio.Event()

    async def steps(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("first")]
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with antiphon(ScriptedBackend(steps)) as service, service.openai_client() as client:
        stream = await client.responses.create(model="m", input="hi", stream=True)
        async for _ in stream:
            break
        await stream.close()
        await asyncio.wait_for(stopped.wait(), 2)


def test_the_seal_key_is_created_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = seal_secret(Settings(), folder)
    assert seal_secret(Settings(), folder) == first
    assert len(first) == 32
    assert [(path.name, path.stat().st_mode & 0o777) for path in folder.iterdir()] == [("seal.key", 0o600)]
    assert seal_secret(Settings(seal=SealSettings(key="given")), folder) == b"given"


def test_the_key_of_an_upstream_is_read_from_its_default_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "from-environment")
    assert make_endpoint(UpstreamSettings(kind="groq"), 1.0).api_key == "from-environment"
    assert make_endpoint(UpstreamSettings(kind="groq", api_key="given"), 1.0).api_key == "given"


def sync_antiphon(backend: ScriptedBackend, **arguments: Any) -> SyncAntiphon:
    return SyncAntiphon(SETTINGS, routes=[Route("m", backend)], model="m", **arguments)


def test_without_async_everything_is_there_too() -> None:
    with sync_antiphon(ScriptedBackend.saying("Hel", "lo"), store="memory:") as service:
        first = service.create(input="hi")
        assert (first.output_text, first.model) == ("Hello", "m")
        check_order([to_wire(event) for event in service.stream(input="on", previous_response_id=first.id)])
        assert service.models() == ["m"]
        queued = service.create(input="hi", background=True)
        check_order([to_wire(event) for event in service.follow(queued.id)])
        assert service.retrieve(queued.id).status == "completed"
        assert service.cancel(queued.id).status == "completed"
        service.delete(queued.id)
        with pytest.raises(NotFound):
            service.retrieve(queued.id)
        with pytest.raises(RequestError):
            service.create()
        assert service.compact(input="a long story").output


def test_a_stream_that_is_closed_without_async_is_cancelled() -> None:
    with sync_antiphon(halting_backend()) as service:
        with closing(service.stream(input="hi")) as events:
            created = next(event for event in events if isinstance(event, ResponseCreated))
            assert any(isinstance(event, OutputTextDelta) for event in events)
        assert service.retrieve(created.response.id).status == "cancelled"


def test_without_async_it_must_be_open_and_leaves_no_thread() -> None:
    service = sync_antiphon(ScriptedBackend.saying("x"))
    with pytest.raises(SettingsError, match="with SyncAntiphon"):
        service.create(input="hi")
    with service:
        pass
    with pytest.raises(SettingsError, match="with SyncAntiphon"):
        service.models()
    with pytest.raises(SettingsError), SyncAntiphon(SETTINGS, store="nonsense:"):
        pass
    assert "antiphon" not in [thread.name for thread in threading.enumerate()]


async def test_arguments_replace_settings() -> None:
    with run_upstream() as upstream:
        service = Antiphon(SETTINGS, upstream=upstream.url, api_key="sk-given", model="echo", store="memory:")
        async with service:
            assert "hi" in (await service.create(input="hi")).output_text
        assert upstream.headers[-1]["Authorization"] == "Bearer sk-given"
    with pytest.raises(SettingsError, match="api_key"):
        Antiphon(SETTINGS, api_key="sk-alone")


def test_a_stream_can_be_closed_after_its_service() -> None:
    with sync_antiphon(halting_backend()) as service:
        events = service.stream(input="hi")
        next(events)
    events.close()
