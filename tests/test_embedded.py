"""Antiphon in the caller's own process."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import openai
import pytest
from msgspec import to_builtins

from antiphon import Antiphon, RequestError, Route, ScriptedBackend, Settings, SettingsError
from antiphon.backends.scripted import Step
from antiphon.settings import SealSettings, ServerSettings, UpstreamSettings
from antiphon.turn.chunks import Finished, TextDelta
from antiphon.turn.context import TurnRequest
from antiphon.wiring import buffered, make_endpoint, seal_secret
from tests.turn.folding import to_wire
from tests.turn.order import check_order

SETTINGS = Settings(seal=SealSettings(key="test"))


def antiphon(backend: ScriptedBackend, settings: Settings = SETTINGS) -> Antiphon:
    return Antiphon(settings, routes=[Route("m", backend)])


async def test_a_response_is_created() -> None:
    async with antiphon(ScriptedBackend.saying("Hel", "lo")) as service:
        response = await service.create(model="m", input="hi")
        assert to_builtins(response.output)[0]["content"][0]["text"] == "Hello"
        assert await service.models() == ["m"]


async def test_a_response_is_streamed() -> None:
    async with antiphon(ScriptedBackend.saying("Hel", "lo")) as service:
        check_order([to_wire(event) async for event in service.stream(model="m", input="hi")])


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
        assert [model.id async for model in client.models.list()] == ["m"]
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model="m", input="hi", temperature=9)


async def test_the_bound_client_sees_events_as_they_come() -> None:
    more = asyncio.Event()

    async def play(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        yield [TextDelta("first")]
        await more.wait()
        yield [Finished("stop")]

    async with antiphon(ScriptedBackend(play)) as service, service.openai_client() as client:
        kinds: list[Any] = []
        async for event in await client.responses.create(model="m", input="hi", stream=True):
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                assert not more.is_set()
                more.set()
        assert kinds[-1] == "response.completed"


async def test_a_bound_client_that_leaves_stops_the_backend() -> None:
    stopped = asyncio.Event()

    async def play(_turn: TurnRequest) -> AsyncGenerator[Step, None]:
        try:
            yield [TextDelta("first")]
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with antiphon(ScriptedBackend(play)) as service, service.openai_client() as client:
        stream = await client.responses.create(model="m", input="hi", stream=True)
        async for _ in stream:
            break
        await stream.close()
        await asyncio.wait_for(stopped.wait(), 2)


def test_the_seal_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = seal_secret(Settings(), folder)
    assert seal_secret(Settings(), folder) == first
    assert len(first) == 32
    assert [(path.name, path.stat().st_mode & 0o777) for path in folder.iterdir()] == [("seal.key", 0o600)]
    assert seal_secret(Settings(seal=SealSettings(key="given")), folder) == b"given"


def test_random_bytes_are_never_given_twice() -> None:
    calls: list[int] = []

    def source(size: int) -> bytes:
        calls.append(size)
        return bytes(range(256))[:size]

    take = buffered(source, block=64)
    assert b"".join(take(16) for _ in range(4)) == bytes(range(64))
    take(100)
    assert calls == [64, 100]


def test_the_key_of_an_upstream_comes_from_its_usual_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "from-environment")
    assert make_endpoint(UpstreamSettings(kind="groq"), 1.0).api_key == "from-environment"
    assert make_endpoint(UpstreamSettings(kind="groq", api_key="given"), 1.0).api_key == "given"
