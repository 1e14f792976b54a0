"""`image_generation`: the model describes an image, an upstream makes it."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from openai.types.responses import ResponseImageGenCallPartialImageEvent

from antiphon.backends.images import ImageClient
from antiphon.backends.scripted import ScriptedBackend
from antiphon.errors import RequestError
from antiphon.protocol.items import FunctionCall, FunctionCallOutput
from antiphon.protocol.parse_create import create_from
from antiphon.service.hosted_tools.image_generation import ImageGeneration
from antiphon.service.responses.create import Creator
from antiphon.settings import UpstreamSettings
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.embeddings import make_json_client
from antiphon.wiring.hosted_tools import make_image_model
from tests.backends.image_server import PIXEL, ImageServer, run_image_server
from tests.service.conftest import MakeCreator
from tests.service.responses.searches import CALLER, create, stream

TOOL: dict[str, Any] = {"type": "image_generation"}
ANSWER: list[Chunk] = [TextDelta("Here it is."), Finished("stop")]


def paint(arguments: str = '{"prompt": "a cat"}') -> list[Chunk]:
    return [
        CallStarted(0, "call_0", "image_generation"),
        CallDelta(0, arguments),
        CallFinished(0),
        Finished("tool_calls"),
    ]


@pytest.fixture
async def server() -> AsyncGenerator[ImageServer, None]:
    async with run_image_server() as server:
        yield server


@pytest.fixture
async def tool(server: ImageServer) -> AsyncGenerator[ImageGeneration, None]:
    endpoint = make_endpoint(UpstreamSettings(base_url=server.url), 10.0)
    models = {name: ImageClient(make_json_client(endpoint), name) for name in ("painter", "sketcher")}
    yield ImageGeneration(models)
    for client in models.values():
        await client.aclose()


def creator_of(
    make: MakeCreator, tool: ImageGeneration, *turns: list[Chunk]
) -> tuple[Creator, ScriptedBackend]:
    backend = ScriptedBackend(*([turn] for turn in turns))
    return make(backend, served_tools=(tool,)), backend


def shown(backend: ScriptedBackend) -> list[tuple[str, str]]:
    """What the model has been shown of images in its last turn."""
    items = backend.turns[-1].items
    calls = [item.arguments for item in items if isinstance(item, FunctionCall)]
    return list(zip(calls, [str(i.output) for i in items if isinstance(i, FunctionCallOutput)], strict=True))


@pytest.mark.requirement("HOSTED/image-made")
async def test_the_image_is_an_item_and_the_model_learns_of_it(
    make_creator: MakeCreator, tool: ImageGeneration, server: ImageServer
) -> None:
    creator, backend = creator_of(make_creator, tool, paint(), ANSWER, ANSWER)
    declared = {**TOOL, "size": "1024x1024", "quality": "low", "output_compression": 0}
    events = await stream(creator, tools=[declared])
    assert [event["type"].removeprefix("response.") for event in events][2:7] == [
        "output_item.added",
        "image_generation_call.in_progress",
        "image_generation_call.generating",
        "image_generation_call.completed",
        "output_item.done",
    ]
    response = events[-1]["response"]
    item = response["output"][0]
    assert {name: item[name] for name in item if name != "id"} == {
        "type": "image_generation_call",
        "status": "completed",
        "action": "generate",
        "result": PIXEL,
        "revised_prompt": "A photo of a cat",
        "size": "1024x1024",
        "quality": "low",
        "output_format": "png",
    }
    assert server.requests == [
        {
            "model": "painter",
            "prompt": "a cat",
            "size": "1024x1024",
            "quality": "low",
            "output_compression": 0,
            "response_format": "b64_json",
        }
    ]
    expected = [
        ('{"prompt":"A photo of a cat"}', "The image was made, and the user sees it. You cannot see it.")
    ]
    assert shown(backend) == expected
    await stream(creator, tools=[TOOL], previous_response_id=response["id"])
    assert shown(backend) == expected


@pytest.mark.requirement("HOSTED/image-failed")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [('{"prompt": "a cat"}', "a storm"), ("{}", "must be a text"), ("", "must be a text")],
)
async def test_an_image_that_cannot_be_made_is_a_failed_item(
    make_creator: MakeCreator, tool: ImageGeneration, server: ImageServer, arguments: str, reason: str
) -> None:
    server.answers = [500]
    creator, backend = creator_of(make_creator, tool, paint(arguments), ANSWER)
    response = (await stream(creator, tools=[TOOL]))[-1]["response"]
    item = response["output"][0]
    assert (response["status"], item["status"], item["result"]) == ("completed", "failed", None)
    assert reason in item["error"]["message"]
    assert reason in shown(backend)[0][1]


@pytest.mark.requirement("HOSTED/image-partial")
async def test_unfinished_forms_are_events_of_a_stream_only(
    make_creator: MakeCreator, tool: ImageGeneration, server: ImageServer
) -> None:
    server.takes_format, server.streams = False, True
    creator, _ = creator_of(make_creator, tool, paint(), ANSWER, paint(), ANSWER)
    declared = {**TOOL, "partial_images": 2}
    events = await stream(creator, tools=[declared])
    partial = [event for event in events if event["type"].endswith(".partial_image")]
    for event in partial:
        ResponseImageGenCallPartialImageEvent.model_validate(event, strict=True)
    assert [(event["partial_image_index"], event["partial_image_b64"]) for event in partial] == [
        (0, "part0"),
        (1, "part1"),
    ]
    assert [event["type"].rpartition(".")[2] for event in events][4:8] == [
        "generating",
        "partial_image",
        "partial_image",
        "completed",
    ]
    assert events[-1]["response"]["output"][0]["result"] == PIXEL
    await create(creator, tools=[declared])
    assert "stream" not in server.requests[-1]


async def test_the_request_chooses_the_model(
    make_creator: MakeCreator, tool: ImageGeneration, server: ImageServer
) -> None:
    creator, _ = creator_of(make_creator, tool, paint(), ANSWER)
    await stream(creator, tools=[{**TOOL, "model": "sketcher"}])
    assert server.requests[0]["model"] == "sketcher"


@pytest.mark.requirement("HOSTED/image-gemini")
async def test_a_value_that_the_model_has_no_place_for_is_refused(make_creator: MakeCreator) -> None:
    client = make_image_model(UpstreamSettings(kind="gemini", api_key="k"), "painter", 10.0)
    creator, backend = creator_of(make_creator, ImageGeneration({"painter": client}), ANSWER)
    request = create_from(model="m", input="Paint.", tools=[{**TOOL, "quality": "high"}])
    with pytest.raises(RequestError) as refused:
        await creator.start(request, CALLER).result()
    assert (refused.value.status, refused.value.param) == (400, "tools[0].quality")
    assert backend.turns == []
    await client.aclose()


@pytest.mark.parametrize(
    ("members", "param", "code"),
    [
        ({"model": "unknown"}, "tools[0].model", "model_not_found"),
        ({"input_image_mask": {"file_id": "file_1"}}, "tools[0].input_image_mask", "unsupported_parameter"),
        ({"size": 3}, "tools[0]", "invalid_value"),
        ({"action": "edit"}, "tools[0].action", "unsupported_parameter"),
        ({"action": "paint"}, "tools[0]", "invalid_value"),
        ({"output_compression": 101}, "tools[0]", "invalid_value"),
        ({"partial_images": 4}, "tools[0]", "invalid_value"),
    ],
)
async def test_invalid_declarations_are_refused_before_any_event(
    make_creator: MakeCreator, tool: ImageGeneration, members: dict[str, Any], param: str, code: str
) -> None:
    creator, backend = creator_of(make_creator, tool, ANSWER)
    request = create_from(model="m", input="Paint.", tools=[{**TOOL, **members}])
    with pytest.raises(RequestError) as refused:
        await creator.start(request, CALLER).result()
    assert (refused.value.status, refused.value.param, refused.value.code) == (400, param, code)
    assert backend.turns == []
    assert msgspec.json.encode(refused.value.to_wire())
