"""`code_interpreter` in the loop, with a real sandbox."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.errors import InvalidRequest, NotFound, TooManyRequests
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tool_items import CodeInterpreterCall
from antiphon.sandbox.monty import Monty
from antiphon.sandbox.port import RunResult, SandboxFile
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.service.hosted_tools.code_interpreter import CodeInterpreter, read_code, text_for_model
from antiphon.service.hosted_tools.container_use import REPLACED
from antiphon.service.responses.create import Creator
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from tests.sandbox.sandboxes import SMALL, bubblewrap
from tests.service.conftest import MakeCreator
from tests.service.responses.searches import create, outputs, stream

TOOL: dict[str, Any] = {"type": "code_interpreter", "container": {"type": "auto"}}
ANSWER: list[Chunk] = [TextDelta("Done."), Finished("stop")]
PIXEL = base64.b64encode(bytes(8)).decode()


class SettableClock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def code(*texts: str) -> list[Chunk]:
    chunks: list[Chunk] = []
    for index, text in enumerate(texts):
        arguments = msgspec.json.encode({"code": text}).decode()
        chunks += [
            CallStarted(index, f"call_{index}", "python"),
            CallDelta(index, arguments),
            CallFinished(index),
        ]
    return [*chunks, Finished("tool_calls")]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
async def containers(make_creator: MakeCreator, clock: SettableClock) -> AsyncGenerator[Containers, None]:
    creator = make_creator(ScriptedBackend([ANSWER]))
    files: Any = FilesOf(creator)
    made = Containers(bubblewrap(), files, creator.ids, clock, ContainerLimits(sandbox=SMALL, per_tenant=2))
    yield made
    await made.aclose()


class FilesOf:
    """Only the part that containers use: a store of files, which has none."""

    def __init__(self, creator: Creator) -> None:
        self.store = creator.store.files


def interpreting(
    make_creator: MakeCreator, containers: Containers, *turns: list[Chunk]
) -> tuple[Creator, ScriptedBackend]:
    backend = ScriptedBackend(*([turn] for turn in turns))
    return make_creator(backend, served_tools=(CodeInterpreter(containers),)), backend


async def test_the_model_continues_with_the_output(make_creator: MakeCreator, containers: Containers) -> None:
    creator, backend = interpreting(make_creator, containers, code("x = 6 * 7\nx"), ANSWER)
    response = await create(creator, tools=[TOOL])
    run = response.output[0]
    assert isinstance(run, CodeInterpreterCall)
    assert (run.status, run.code, run.outputs) == ("completed", "x = 6 * 7\nx", None)
    assert str(run.id).startswith("ci_")
    assert str(run.container_id).startswith("cntr_")
    assert outputs(backend) == ["42"]
    assert backend.turns[0].tools[0].name == "python"


async def test_the_model_is_told_what_its_python_lacks(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend([ANSWER]))
    files: Any = FilesOf(creator)
    containers = Containers(Monty(), files, creator.ids, creator.clock, ContainerLimits(sandbox=SMALL))
    creator, backend = interpreting(make_creator, containers, code("6 * 7"), ANSWER)
    response = await create(creator, tools=[TOOL])
    assert response.output[0].status == "completed"  # pyright: ignore[reportAttributeAccessIssue]
    assert outputs(backend) == ["42"]
    assert "no packages" in str(backend.turns[0].tools[0].description)
    await containers.aclose()


async def test_the_events_come_in_their_order(make_creator: MakeCreator, containers: Containers) -> None:
    creator, _ = interpreting(make_creator, containers, code("print(1)"), ANSWER)
    events = await stream(creator, tools=[TOOL], include=["code_interpreter_call.outputs"])
    types = [event["type"].removeprefix("response.") for event in events]
    assert types[2:10] == [
        "output_item.added",
        "code_interpreter_call.in_progress",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.done",
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
        "output_item.done",
        "output_item.added",
    ]
    assert events[8]["item"]["outputs"] == [{"type": "logs", "logs": "1\n"}]
    assert events[2]["item"]["container_id"] == events[8]["item"]["container_id"]


async def test_a_chain_keeps_its_container_and_shows_the_output_again(
    make_creator: MakeCreator, containers: Containers
) -> None:
    creator, backend = interpreting(make_creator, containers, code("x = 41"), ANSWER, code("x + 1"), ANSWER)
    first = await create(creator, tools=[TOOL])
    second = await create(creator, tools=[TOOL], previous_response_id=first.id)
    runs = [item for item in (*first.output, *second.output) if isinstance(item, CodeInterpreterCall)]
    assert len({run.container_id for run in runs}) == 1
    assert outputs(backend) == ["The code has run, without output.", "42"]


async def test_a_container_that_expired_is_replaced(
    make_creator: MakeCreator, containers: Containers, clock: SettableClock
) -> None:
    creator, backend = interpreting(
        make_creator, containers, code("x = 41"), ANSWER, code("x + 1"), ANSWER, code("6 * 7"), ANSWER
    )
    first = await create(creator, tools=[TOOL])
    clock.now += 21 * 60
    second = await create(creator, tools=[TOOL], previous_response_id=first.id)
    shown = outputs(backend)[-1]
    assert shown.startswith(f"{REPLACED}\nTraceback")
    assert "NameError" in shown
    third = await create(creator, tools=[TOOL], previous_response_id=second.id)
    assert [one.startswith(REPLACED) for one in outputs(backend)[-2:]] == [True, False], "it is shown once"
    assert third.status == "completed"


async def test_images_are_outputs(make_creator: MakeCreator, containers: Containers) -> None:
    creator, backend = interpreting(
        make_creator, containers, code("open('a.png', 'wb').write(bytes(8)); None"), ANSWER
    )
    response = await create(creator, tools=[TOOL], include=["code_interpreter_call.outputs"])
    run = response.output[0]
    assert isinstance(run, CodeInterpreterCall)
    assert run.outputs == [{"type": "image", "url": f"data:image/png;base64,{PIXEL}"}]
    assert outputs(backend) == ["[Files that were written: /mnt/data/a.png]"]


async def test_calls_of_one_turn_share_a_container(make_creator: MakeCreator, containers: Containers) -> None:
    creator, _ = interpreting(make_creator, containers, code("a = 1", "b = 2"), ANSWER)
    response = await create(creator, tools=[TOOL])
    runs = [item for item in response.output if isinstance(item, CodeInterpreterCall)]
    assert len(runs) == 2
    assert len({run.container_id for run in runs}) == 1


async def test_a_container_that_is_killed_is_a_failed_call(
    make_creator: MakeCreator, containers: Containers
) -> None:
    kill = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass"
    creator, backend = interpreting(make_creator, containers, code(kill), code("print('new')"), ANSWER)
    response = await create(creator, tools=[TOOL])
    first, second = response.output[:2]
    assert isinstance(first, CodeInterpreterCall)
    assert isinstance(second, CodeInterpreterCall)
    assert (first.status, second.status) == ("failed", "completed")
    assert "could not be run" in outputs(backend)[0]
    assert outputs(backend)[1] == f"{REPLACED}\nnew"
    assert first.container_id != second.container_id


async def test_a_call_without_code_fails(make_creator: MakeCreator, containers: Containers) -> None:
    creator, backend = interpreting(make_creator, containers, code(""), ANSWER)
    await create(creator, tools=[TOOL])
    assert "'code' must be" in outputs(backend)[0]


@pytest.mark.parametrize(
    ("container", "error", "param"),
    [
        ("cntr_unknown", NotFound, "tools[0].container"),
        ("", InvalidRequest, "tools[0].container"),
        (3, InvalidRequest, "tools[0].container"),
        ({"type": "other"}, InvalidRequest, "tools[0].container.type"),
        ({"type": "auto", "file_ids": ["file-1"]}, NotFound, "tools[0].container.file_ids"),
        ({"type": "auto", "memory_limit": "64g"}, InvalidRequest, "tools[0].container.memory_limit"),
        (
            {"type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": ["a"]}},
            InvalidRequest,
            "tools[0].container.network_policy",
        ),
    ],
)
async def test_a_container_that_cannot_be_used_is_an_error(
    make_creator: MakeCreator, containers: Containers, container: object, error: type[Exception], param: str
) -> None:
    creator, _ = interpreting(make_creator, containers, ANSWER)
    with pytest.raises(error) as caught:
        await create(creator, tools=[{"type": "code_interpreter", "container": container}])
    assert getattr(caught.value, "param", None) == param


async def test_a_container_belongs_to_its_tenant(make_creator: MakeCreator, containers: Containers) -> None:
    container = await containers.create("t", "mine")
    creator, _ = interpreting(make_creator, containers, code("1"), ANSWER)
    tools = [{"type": "code_interpreter", "container": container.id}]
    assert (await create(creator, tools=tools)).status == "completed"
    request = create_from(model="m", input="x", tools=tools)
    with pytest.raises(NotFound):
        await creator.start(request, Caller.of("other")).result()


async def test_an_expired_container_is_an_error(
    make_creator: MakeCreator, containers: Containers, clock: SettableClock
) -> None:
    container = await containers.create("t", "mine")
    clock.now += 21 * 60
    creator, _ = interpreting(make_creator, containers, ANSWER)
    with pytest.raises(InvalidRequest, match="has expired"):
        await create(creator, tools=[{"type": "code_interpreter", "container": container.id}])
    await containers.expire()
    assert container.ended


async def test_a_tenant_has_a_number_of_containers(containers: Containers) -> None:
    first = await containers.create("t", "auto", automatic=True)
    await containers.create("t", "mine")
    await containers.create("t", "mine")
    assert first.ended
    with pytest.raises(TooManyRequests):
        await containers.create("t", "mine")
    await containers.create("other", "theirs")
    assert [container.name for container in containers.list("t")] == ["mine", "mine", "auto"]


def test_code_is_read_from_near_misses() -> None:
    assert read_code('{"code": "1"}') == "1"
    assert read_code("print(1)") == "print(1)"
    assert read_code('{"code": 3}') == ""
    assert read_code("") == ""


def test_the_model_is_told_what_was_lost() -> None:
    assert "took too long" in text_for_model(RunResult("timeout", "x\n"))
    assert "has ended" in text_for_model(RunResult("died", ""))
    assert "[5 more bytes" in text_for_model(RunResult("completed", "x", 5))
    assert "/mnt/data/a" in text_for_model(RunResult("completed", "", 0, (SandboxFile("a", 1),)))


@pytest.mark.requirement("HOSTED/containers-citations")
async def test_a_file_that_the_answer_links_is_cited(
    make_creator: MakeCreator, containers: Containers
) -> None:
    write = "open('r.csv', 'w').write('1'); open('p.png', 'wb').write(bytes(8)); None"
    text = "Here: [report](sandbox:/mnt/data/r.csv)."
    answer: list[Chunk] = [TextDelta(text[:20]), TextDelta(text[20:]), Finished("stop")]
    creator, _ = interpreting(make_creator, containers, code(write), answer, code("1"), answer)
    events = await stream(creator, tools=[TOOL])
    annotations = [
        event["annotation"] for event in events if event["type"] == "response.output_text.annotation.added"
    ]
    run, message = events[-1]["response"]["output"]
    assert message["content"][0]["text"] == text
    assert message["content"][0]["annotations"] == annotations
    linked, picture = annotations
    assert text[linked["start_index"] : linked["end_index"]] == "sandbox:/mnt/data/r.csv"
    assert (picture["filename"], picture["start_index"], picture["end_index"]) == ("p.png", 0, 0)
    assert linked == {
        "type": "container_file_citation",
        "container_id": run["container_id"],
        "file_id": linked["file_id"],
        "filename": "r.csv",
        "start_index": 15,
        "end_index": 38,
    }
    container = containers.retrieve("t", run["container_id"])
    assert container.known.find(linked["file_id"]) == container.known.by_name["r.csv"]
    again = await create(creator, tools=[TOOL], previous_response_id=events[-1]["response"]["id"])
    cited: Any = msgspec.to_builtins(again.output[-1])["content"][0]["annotations"]
    assert [one["file_id"] for one in cited] == [linked["file_id"]]
