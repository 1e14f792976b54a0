"""The official SDK on every profile: the response folded from a stream equals the server's final response."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import openai
import pytest
from openai.types.responses import Response
from pydantic import BaseModel

from antiphon.errors import BackendBroken, BackendTimeout
from antiphon.settings import ProfileName
from antiphon.turn.chunks import (
    CallDelta,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from tests.profiles.gateway import HEADER, LISTEN, LOOK, USAGE, call, gateway, two_calls
from tests.profiles.order import check_message_first
from tests.serving import Served
from tests.turn.folding import fold
from tests.turn.order import check_order

JsonObject = dict[str, Any]

PROFILES: list[ProfileName] = ["openai", "maestro", "proxy"]
CHECKS = {"openai": check_order, "maestro": check_order, "proxy": check_message_first}
SCRIPTS: dict[str, list[Chunk]] = {
    "text": [TextDelta("Hel"), TextDelta("lo"), Finished("stop")],
    "nothing": [Finished("stop")],
    "reasoning": [ReasoningDelta("hm"), TextDelta("So."), Finished("stop")],
    "one-call": [*call(0, '{"at":', '"sea"}'), Finished("tool_calls")],
    "parallel-calls": two_calls(),
    "interleaved-calls": [
        CallStarted(0, "call_a", "look"),
        CallStarted(1, "call_b", "look"),
        CallDelta(0, '{"at":'),
        CallDelta(1, '{"at":"sky"}'),
        CallDelta(0, '"sea"}'),
        Finished("tool_calls"),
    ],
    "text-around-calls": [TextDelta("a"), *two_calls()[:-1], TextDelta("b"), Finished("stop")],
    "refusal": [RefusalDelta("I will "), RefusalDelta("not."), Finished("stop")],
}
CUT: list[Chunk] = [TextDelta("Hel"), Finished("length")]
TOOLS: Any = [LOOK, LISTEN]


class Person(BaseModel):
    name: str
    year: int


@asynccontextmanager
async def sdk(profile: ProfileName, *script: Chunk) -> AsyncGenerator[openai.AsyncOpenAI, None]:
    """The SDK on a server of the default profile; a header selects another one."""
    async with gateway("openai", *script, UsageReported(USAGE)) as model:
        yield openai.AsyncOpenAI(
            base_url="http://localhost/v1",
            api_key="none",
            http_client=cast("Any", model.client),
            default_headers={HEADER: profile},
            max_retries=0,
        )


def essence(response: Response) -> JsonObject:
    """Output and end of a response, without generated ids."""
    dumped = response.model_dump(mode="json", exclude_unset=True)
    output = [
        {key: value for key, value in item.items() if key not in ("id", "parsed_arguments")}
        for item in dumped["output"]
    ]
    for item in output:
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return {"output": output, "status": dumped["status"], "usage": dumped.get("usage")}


async def streamed_by(client: openai.AsyncOpenAI, model: str, tools: Any) -> Response:
    """The strict helper's result for a stream with all kinds of items."""
    usage: Any = {"include_usage": True}
    async with client.responses.stream(model=model, input="hi", tools=tools, stream_options=usage) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_response()


def id_of(event: JsonObject) -> str:
    return event["item"]["id"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_the_strict_stream_helper_ends_with_the_result_of_create(
    profile: ProfileName, script: list[Chunk]
) -> None:
    async with sdk(profile, *script) as client:
        streamed = await streamed_by(client, "m", TOOLS)
        complete = await client.responses.create(model="m", input="hi", tools=TOOLS)
        assert essence(streamed) == essence(complete)
        assert streamed.output_text == complete.output_text
        assert complete.usage
        assert complete.usage.total_tokens == 12


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("script", [*SCRIPTS.values(), CUT], ids=[*SCRIPTS.keys(), "cut"])
async def test_every_event_is_in_order_and_folds_to_the_final_response(
    profile: ProfileName, script: list[Chunk]
) -> None:
    async with sdk(profile, *script) as client:
        stream = await client.responses.create(model="m", input="hi", tools=TOOLS, stream=True)
        events = [event.model_dump(mode="json", exclude_unset=True) async for event in stream]
        CHECKS[profile](events)
        assert fold(cast("Any", events)) == events[-1]["response"]
        added = [id_of(event) for event in events if event["type"] == "response.output_item.added"]
        done = [id_of(event) for event in events if event["type"] == "response.output_item.done"]
        assert added == done == [item["id"] for item in events[-1]["response"]["output"]]


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_helper_receives_each_delta_as_it_is_sent(profile: ProfileName) -> None:
    async with sdk(profile, *SCRIPTS["text-around-calls"]) as client:
        texts: list[str] = []
        arguments: list[str] = []
        async with client.responses.stream(model="m", input="hi", tools=TOOLS) as stream:
            async for event in stream:
                if event.type == "response.output_text.delta":
                    texts.append(event.snapshot)
                elif event.type == "response.function_call_arguments.delta":
                    arguments.append(event.snapshot)
        assert texts == (["a", "ab"] if profile == "proxy" else ["a", "b"])
        assert arguments == ['{"at":', '{"at":"sea"}', "{}"]


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_truncated_answer(profile: ProfileName) -> None:
    async with sdk(profile, *CUT) as client:
        complete = await client.responses.create(model="m", input="hi")
        async with client.responses.stream(model="m", input="hi") as stream:
            last: Any = [event async for event in stream][-1]
        assert last.type == ("response.completed" if profile == "proxy" else "response.incomplete")
        for response in (complete, last.response):
            assert (response.status, response.output_text) == ("incomplete", "Hel")
            assert response.incomplete_details
            assert response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize("profile", ["openai", "proxy"])
async def test_a_failure_in_mid_stream_raises_the_sdks_error(profile: ProfileName) -> None:
    async with sdk(profile, TextDelta("half"), Failed(BackendBroken("gibberish"))) as client:
        with pytest.raises(openai.APIError, match="gibberish"):
            async with client.responses.stream(model="m", input="hi") as stream:
                async for _ in stream:
                    pass


async def test_a_failure_in_mid_stream_is_the_last_event_of_maestro() -> None:
    async with sdk("maestro", TextDelta("half"), Failed(BackendBroken("gibberish"))) as client:
        async with client.responses.stream(model="m", input="hi") as stream:
            last = [event async for event in stream][-1]
        assert last.type == "response.failed"
        assert last.response.error
        assert last.response.error.message == "gibberish"
        assert last.response.output_text == "half"


@pytest.mark.parametrize(("profile", "status"), [("openai", 504), ("proxy", 504), ("maestro", 500)])
async def test_a_failure_without_a_stream_is_a_server_error(profile: ProfileName, status: int) -> None:
    async with sdk(profile, TextDelta("half"), Failed(BackendTimeout("too late"))) as client:
        with pytest.raises(openai.InternalServerError, match="too late") as caught:
            await client.responses.create(model="m", input="hi")
        assert caught.value.status_code == status


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_typed_answer_is_parsed(profile: ProfileName) -> None:
    async with sdk(
        profile, TextDelta('{"name": "Ada",'), TextDelta(' "year": 1815}'), Finished("stop")
    ) as client:
        ada = Person(name="Ada", year=1815)
        complete = await client.responses.parse(model="m", input="Who?", text_format=Person)
        assert complete.output_parsed == ada
        async with client.responses.stream(model="m", input="Who?", text_format=Person) as stream:
            assert (await stream.get_final_response()).output_parsed == ada


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_tool_loop_by_sending_everything_again(profile: ProfileName) -> None:
    async with sdk(profile, *two_calls()) as client:
        first = await client.responses.create(model="m", input="hi", tools=TOOLS)
        history: Any = [{"role": "user", "content": "hi"}, *first.output]
        for item in first.output:
            if item.type == "function_call":
                history.append({"type": "function_call_output", "call_id": item.call_id, "output": "fine"})
        again = await client.responses.create(model="m", input=history, tools=TOOLS)
        assert again.status == "completed"


@pytest.mark.slow
@pytest.mark.xdist_group("conformance")
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("model", ["echo", "tools", "reasoning", "json"])
async def test_over_a_socket_it_is_the_same(server: Served, profile: ProfileName, model: str) -> None:
    async with openai.AsyncOpenAI(
        base_url=server.base_url, api_key="none", max_retries=0, default_headers={HEADER: profile}
    ) as client:
        weather: Any = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
        assert essence(await streamed_by(client, model, [weather])) == essence(
            await client.responses.create(model=model, input="hi", tools=[weather])
        )
