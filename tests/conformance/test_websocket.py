"""The WebSocket clients of the official SDKs, against a real server process."""

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest
from agents import Agent, OpenAIResponsesWSModel, RunConfig, Runner
from openai.lib.responses_websocket import AsyncResponsesWebSocketSession, ResponsesWebSocketLimits
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.protocol.events import TERMINAL_TYPES
from tests.conformance.test_agents_sdk import get_weather
from tests.serving import Served, run_server
from tests.turn.order import check_order
from tests.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("conformance")]


def create(**params: object) -> Any:
    return {"type": "response.create", "model": "echo", "input": "hello", "store": False, **params}


def address(server: Served) -> str:
    return f"ws://127.0.0.1:{server.port}/v1/responses"


async def events_of_turn(connection: Any) -> list[Any]:
    """The events of one turn, from the SDK."""
    events: list[Any] = []
    while not events or events[-1].type not in {*TERMINAL_TYPES, "error"}:
        events.append(await asyncio.wait_for(connection.recv(), 30))
    return events


async def test_every_event_is_in_order(client: openai.AsyncOpenAI) -> None:
    async with client.responses.connect() as connection:
        for _ in range(2):
            await connection.response.create(model="echo", input="hello", store=False)
            events = await events_of_turn(connection)
            check_order([event.to_dict() for event in events])
            assert events[-1].response.output_text == "You said: hello"


@pytest.mark.requirement("PROTOCOL/websocket-store-false")
async def test_an_unstored_chain_lives_on_its_socket(client: openai.AsyncOpenAI, upstream: Upstream) -> None:
    async with client.responses.connect() as connection:
        await connection.send(create(input="one", generate=False))
        prepared = (await events_of_turn(connection))[-1].response
        assert prepared.output == []
        await connection.send(create(input="two", previous_response_id=prepared.id))
        response = (await events_of_turn(connection))[-1].response
        assert [message["content"] for message in upstream.requests[-1]["messages"]] == ["one", "two"]
        async with client.responses.connect() as other:
            await other.send(create(previous_response_id=response.id))
            error = (await events_of_turn(other))[-1]
            assert error.error.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(response.id)


@pytest.mark.requirement("PROTOCOL/websocket-http")
async def test_a_stored_response_is_known_to_http(client: openai.AsyncOpenAI) -> None:
    async with client.responses.connect() as connection:
        await connection.response.create(model="echo", input="hello")
        response = (await events_of_turn(connection))[-1].response
    assert (await client.responses.retrieve(response.id)).output_text == "You said: hello"
    further = await client.responses.create(model="echo", input="more", previous_response_id=response.id)
    assert further.output_text == "You said: more"


@pytest.mark.requirement("PROTOCOL/websocket-lanes")
async def test_lanes_of_a_session_are_concurrent(client: openai.AsyncOpenAI) -> None:
    limits = ResponsesWebSocketLimits(
        max_lanes=9,
        max_events_per_lane=100,
        max_events=1000,
        max_bytes_per_lane=2**20,
        max_bytes=2**23,
    )
    async with (
        client.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=limits) as session,
    ):
        lanes = [session.lane(f"lane-{number}") for number in range(8)]
        for number, lane in enumerate(lanes):
            await lane.send(create(input=f"number {number}"))
        answers = await asyncio.gather(*(lane.get_final_response() for lane in lanes))
    assert [answer.output_text for answer in answers] == [f"You said: number {number}" for number in range(8)]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.requirement("PROTOCOL/websocket-agents")
async def test_an_agent_calls_its_tools(client: openai.AsyncOpenAI, streamed: bool) -> None:
    model = OpenAIResponsesWSModel("tools", client)
    agent = Agent(name="a", instructions="Help.", model=model, tools=[get_weather])
    config = RunConfig(tracing_disabled=True)
    try:
        if streamed:
            run = Runner.run_streamed(agent, "Weather?", run_config=config, max_turns=4)
            async for _ in run.stream_events():
                pass
            final = run.final_output
        else:
            final = (await Runner.run(agent, "Weather?", run_config=config, max_turns=4)).final_output
    finally:
        await model.close()
    assert final == "It is sunny in Paris and sunny in Rome."


async def test_a_client_disconnect_stops_the_upstream(server: Served, upstream: Upstream) -> None:
    upstream.cut_off.clear()
    async with connect(address(server)) as socket:
        await socket.send(json.dumps(create(model="hangs")))
        while json.loads(await socket.recv())["type"] != "response.output_text.delta":
            pass
    assert await asyncio.to_thread(upstream.cut_off.wait, 30)


async def test_a_socket_needs_a_key_and_a_known_path(upstream: Upstream, tmp_path: Path) -> None:
    keys = {"ANTIPHON_SERVER__API_KEYS": '["secret"]'}
    with run_server(tmp_path, "--upstream", upstream.url, environment=keys) as server:
        for url, headers, status in (
            (address(server), {}, 401),
            (address(server), {"Authorization": "Bearer wrong"}, 401),
            (address(server) + "/nothing", {"Authorization": "Bearer secret"}, 404),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, additional_headers=headers).__aenter__()
            assert refused.value.response.status_code == status
            assert json.loads(refused.value.response.body or b"")["error"]["message"]
        async with connect(address(server), additional_headers={"Authorization": "Bearer secret"}) as socket:
            await socket.send(json.dumps(create()))
            assert json.loads(await socket.recv())["type"] == "response.created"


async def test_a_server_that_stops_sends_a_close_frame(upstream: Upstream, tmp_path: Path) -> None:
    with run_server(tmp_path, "--upstream", upstream.url, "--drain", "1") as server:
        async with connect(address(server)) as idle, connect(address(server)) as busy:
            await busy.send(json.dumps(create(model="hangs")))
            assert json.loads(await busy.recv())["type"] == "response.created"
            stopping = asyncio.create_task(asyncio.to_thread(server.stop, 30))
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(idle.recv(), 30)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            events: list[Any] = []
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    events.append(json.loads(await asyncio.wait_for(busy.recv(), 30)))
            assert events[-1]["type"] == "response.failed"
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            assert await stopping == 0
