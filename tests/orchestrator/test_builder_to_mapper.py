"""Builder → own server → mapper: the literal body of AGN-003 is posted, and AGN-004 maps the response."""

import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from antiphon import Antiphon, Route, ScriptedBackend, load_settings
from antiphon.orchestrator.blocks import build_rag_context_block, build_tool_usage_block
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    AgentToolCall,
    ConversationContext,
)
from antiphon.orchestrator.request_builder import build_responses_request
from antiphon.orchestrator.response_mapper import map_error, map_response
from antiphon.protocol.items import Message
from antiphon.retrieval.base import RagChunk
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from tests.serving import Served, run_server
from tests.upstream import Upstream, run_upstream

CONTEXT = ConversationContext(model_name="m", system="You are Aptix.", temperature=0.5, id="ctx_1")
TOOLS = '[{"type":"function","name":"get_weather","parameters":{"type":"object"}}]'
REQUEST = AgentExecuteRequest(
    mode="DDR_CREATION", instruction="Write it.", conversation_id="conv_1", tools_json=TOOLS,
    tool_choice_name="get_weather", system_prompt="Be brief.",
)  # fmt: skip
ARGUMENTS = '{ "city": "Paris" }'
CALL: Sequence[Chunk] = [
    CallStarted(0, "call_a", "get_weather"),
    CallDelta(0, ARGUMENTS),
    Finished("tool_calls"),
]
RESULTS = '[{"CallId":"call_a","Name":"get_weather","ResultJson":"{\\"sky\\":\\"blue\\"}"}]'


@asynccontextmanager
async def serving(
    *scripts: Sequence[Sequence[Chunk]],
) -> AsyncGenerator[tuple[Antiphon, ScriptedBackend], None]:
    backend = ScriptedBackend(*scripts)
    settings = load_settings(overrides={"store": {"url": "memory:"}})
    async with Antiphon(settings, routes=[Route("m", backend)]) as antiphon:
        yield antiphon, backend


async def executed(antiphon: Antiphon, request: AgentExecuteRequest, **blocks: Any) -> AgentExecuteResponse:
    body = build_responses_request(CONTEXT, request, **blocks)
    return map_response(msgspec.json.encode(await antiphon.create(**body)), request, CONTEXT)


def text_received(turn: TurnRequest) -> str:
    """The text of all messages that the model received."""
    return "\n".join(str(item.content) for item in turn.items if isinstance(item, Message))


@pytest.mark.requirement(
    "AGN-003/4.4-resumes", "AGN-004/2.1-next-turn", "AGN-004/5-sends", "AGN-004/5-receives", "AGN-004/5-stores",
    "AGN-004/5-returns", "AGN-004/5-continues", "AGN-004/tests-integration-tool-only",
)  # fmt: skip
async def test_tools_are_declared_once_and_the_continuation_has_them_and_the_history() -> None:
    usage = build_tool_usage_block([("get_weather", "Ask it for every town.")])
    async with serving([CALL], [[TextDelta("Blue.")], [Finished("stop")]]) as (antiphon, backend):
        first = await executed(antiphon, REQUEST, tool_usage_metadata_block=usage)
        assert (first.kind, first.finish_reason, first.text) == ("tool-only", "tool_use", None)
        assert first.tool_calls == (
            AgentToolCall(call_id="call_a", name="get_weather", arguments_json=ARGUMENTS),
        )
        stored = await antiphon.retrieve(first.response_continuation_id or "")
        assert stored.id == first.turn_id

        second = AgentExecuteRequest(
            mode="DDR_CREATION", instruction="Go on.", tools_json=TOOLS, tool_results_json=RESULTS,
            response_continuation_id=first.response_continuation_id, conversation_id="conv_1",
        )  # fmt: skip
        assert "tools" not in build_responses_request(CONTEXT, second)
        last = await executed(antiphon, second)
        assert (last.kind, last.text, last.finish_reason) == ("ok", "Blue.", "stop")
        assert last.response_continuation_id != first.response_continuation_id

    initial, continued = backend.turns
    assert initial.tools == continued.tools
    assert [tool.name for tool in continued.tools] == ["get_weather"]  # pyright: ignore[reportAttributeAccessIssue]
    for text in ("You are Aptix.", "Be brief.", "APTIX_TOOL_USAGE_BEGIN", "Write it.", "[TOOL_RESULTS]", '{"sky":"blue"}'):  # fmt: skip
        assert text in text_received(continued).replace('\\"', '"'), text
    assert text_received(continued).count("You are Aptix.") == 1


@pytest.mark.requirement("AGN-004/tests-integration-mixed", "AGN-004/risks-interleaved")
async def test_text_and_calls_come_back_together() -> None:
    async with serving([[TextDelta("I look.")], CALL]) as (antiphon, _):
        response = await executed(antiphon, REQUEST)
    assert (response.kind, response.text, response.finish_reason) == ("ok", "I look.", "tool_use")
    assert [call.arguments_json for call in response.tool_calls] == [ARGUMENTS]


@pytest.mark.requirement("AGN-004/tests-integration-rag")
@pytest.mark.parametrize("chunks", [0, 200])
async def test_a_large_context_reaches_the_model_and_an_empty_one_is_omitted(chunks: int) -> None:
    found = [RagChunk(f"c{n}", f"docs/{n}.md", 1, 40, "markdown", "A line.\n" * 40) for n in range(chunks)]
    request = replace(REQUEST, tools_json=None, tool_choice_name=None)
    async with serving([[TextDelta("Yes.")], [Finished("stop")]]) as (antiphon, backend):
        response = await executed(antiphon, request, rag_context_block=build_rag_context_block(found))
    assert (response.kind, response.sources) == ("ok", ())
    assert ("[CONTEXT]" in text_received(backend.turns[0])) == bool(chunks)
    assert text_received(backend.turns[0]).count("=== CHUNK") == chunks


@pytest.mark.requirement("AGN-004/tests-integration-length")
@pytest.mark.parametrize(("reason", "found"), [("stop", "stop"), ("length", "length")])
async def test_a_long_output_is_complete_and_a_truncated_one_is_reported(reason: Any, found: str) -> None:
    deltas = [f"word{number} " for number in range(5_000)]
    async with serving([[TextDelta(delta) for delta in deltas], [Finished(reason)]]) as (antiphon, _):
        response = await executed(antiphon, replace(REQUEST, tools_json=None, tool_choice_name=None))
    assert (response.kind, response.text, response.finish_reason) == ("ok", "".join(deltas), found)


@pytest.mark.requirement("AGN-003/7-events", "AGN-004/risks-streaming")
async def test_the_last_event_of_a_stream_is_mapped_like_the_complete_response() -> None:
    async with serving([[TextDelta("Hello")], [TextDelta(" you.")], [Finished("stop")]]) as (antiphon, _):
        body = build_responses_request(
            CONTEXT, replace(REQUEST, tools_json=None, tool_choice_name=None), stream=True
        )
        events = [event async for event in antiphon.stream(**body)]
    response = map_response(msgspec.json.encode(events[-1]), REQUEST, CONTEXT)
    assert (response.kind, response.text) == ("ok", "Hello you.")
    assert (response.response_continuation_id or "").startswith("resp_")


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@pytest.fixture(scope="module")
def server(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    with run_server(tmp_path_factory.mktemp("server"), "--upstream", upstream.url) as served:
        yield served


def posted(server: Served, model: str, request: AgentExecuteRequest, **blocks: Any) -> AgentExecuteResponse:
    context = replace(CONTEXT, model_name=model)
    body = msgspec.json.encode(build_responses_request(context, request, **blocks))
    call = urllib.request.Request(
        f"{server.base_url}/responses", data=body, headers={"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(call, timeout=30) as answer:
            return map_response(answer.read(), request, context)
    except urllib.error.HTTPError as error:
        with error:
            return map_error(error.code, error.read(), request, context)


@pytest.mark.slow
@pytest.mark.requirement(
    "AGN-003/4.4-resumes", "AGN-004/tests-integration-tool-only", "AGN-004/2.1-next-turn"
)
def test_over_http_a_continuation_has_the_tools_and_the_history(server: Served, upstream: Upstream) -> None:
    first = posted(server, "tools", REQUEST)
    assert (first.kind, first.finish_reason, first.model_id) == ("tool-only", "tool_use", "tools")
    assert [(call.call_id, call.arguments_json) for call in first.tool_calls] == [
        ("call_a", '{"city": "Paris"}'),
        ("call_b", '{"city": "Rome"}'),
    ]
    assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.total_tokens) == (7, 5, 12)

    second = AgentExecuteRequest(
        mode="QA", instruction="Go on.", response_continuation_id=first.response_continuation_id,
        tool_results_json=RESULTS,
    )  # fmt: skip
    last = posted(server, "transcript", second)
    assert last.kind == "ok", last.error_message
    messages_text = " ".join(msgspec.json.decode(last.text or "[]"))
    for text in ("You are Aptix.", "[MODE: DDR_CREATION]", "[MODE: QA]", "[TOOL_RESULTS]", '{"sky":"blue"}'):
        assert text in messages_text, text
    tools = [request.get("tools") for request in upstream.requests[-2:]]
    assert tools[0] == tools[1]
    assert tools[1] is not None
    assert tools[1][0]["function"]["name"] == "get_weather"


@pytest.mark.slow
@pytest.mark.requirement("AGN-004/tests-integration-length")
def test_over_http_a_truncated_output_is_reported(server: Served) -> None:
    response = posted(server, "short", AgentExecuteRequest(instruction="Hi"))
    assert (response.kind, response.text, response.finish_reason) == ("ok", "cut", "length")


@pytest.mark.slow
@pytest.mark.requirement("AGN-004/3-kind", "AGN-004/3-code", "AGN-004/3-message", "AGN-004/3-raw")
def test_over_http_a_refusal_is_an_error_with_its_payload(server: Served) -> None:
    unknown = AgentExecuteRequest(instruction="Hi", response_continuation_id="resp_unknown")
    response = posted(server, "echo", unknown)
    assert (response.kind, response.error_code) == ("error", "invalid_request_error")
    assert "resp_unknown" in (response.error_message or "")
    payload = msgspec.json.decode(response.raw_response_json or "")
    assert payload["error"]["message"] == response.error_message


@pytest.mark.slow
@pytest.mark.requirement("AGN-003/7-events")
def test_over_http_a_stream_is_server_sent_events(server: Served) -> None:
    context = replace(CONTEXT, model_name="echo")
    body = build_responses_request(context, AgentExecuteRequest(instruction="Hi"), stream=True)
    call = urllib.request.Request(
        f"{server.base_url}/responses", data=msgspec.json.encode(body), headers={"content-type": "application/json"}
    )  # fmt: skip
    with urllib.request.urlopen(call, timeout=30) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        data = [line[6:] for line in answer.read().decode().splitlines() if line.startswith("data: ")]
    terminal = next(line for line in data if '"response.completed"' in line)
    response = map_response(terminal, AgentExecuteRequest(), context)
    assert response.text == "You said: [MODE: ]\n\n[INSTRUCTION]\nHi"
