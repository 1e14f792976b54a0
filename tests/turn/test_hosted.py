"""Work of a server's own tools: each kind is told in the order of its row."""

from itertools import count
from typing import Any

import pytest

from antiphon.errors import BackendBroken
from antiphon.protocol.events import FileSearchCallSearching
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.profile import PROXY
from antiphon.protocol.response import new_response
from antiphon.protocol.tool_items import (
    CodeInterpreterCall,
    FileSearchCall,
    HostedItem,
    ImageGenerationCall,
    McpApprovalRequest,
    McpCall,
    McpListTools,
    WebSearchCall,
)
from antiphon.turn.chunks import (
    Chunk,
    Failed,
    Finished,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ItemBegun,
    TextDelta,
)
from antiphon.turn.machine import Machine
from tests.turn.folding import to_wire
from tests.turn.order import check_order


def new_machine(**options: Any) -> Machine:
    numbers = count()
    return Machine(
        new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        **options,
    )


def run(*chunks: Chunk, **options: Any) -> list[dict[str, Any]]:
    machine = new_machine(**options)
    events = [*machine.start(), *machine.feed(chunks), *machine.end(2)]
    return [to_wire(event) for event in events]


def told(item: HostedItem) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """The events between, and the item when it was added and when it was done."""
    events = run(TextDelta("a"), HostedItemDone(item), TextDelta("b"), Finished("stop"))
    check_order(events)
    inner = [event for event in events if event.get("output_index") == 1]
    assert inner[0]["type"] == "response.output_item.added"
    assert inner[-1]["type"] == "response.output_item.done"
    assert events[-1]["response"]["output"][1] == inner[-1]["item"]
    assert {event["item_id"] for event in inner[1:-1]} <= {inner[0]["item"]["id"]}
    return inner[1:-1], inner[0]["item"], inner[-1]["item"]


def steps(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


@pytest.mark.requirement("PROTOCOL/order-web-search")
def test_a_search_of_the_web() -> None:
    item = WebSearchCall(id="theirs", status="completed", action={"type": "search", "query": "q"})
    events, begun, whole = told(item)
    assert steps(events) == [f"web_search_call.{step}" for step in ("in_progress", "searching", "completed")]
    assert begun == {"type": "web_search_call", "id": whole["id"], "status": "in_progress"}
    assert whole["id"].startswith("ws_")
    assert whole["action"] == {"type": "search", "query": "q"}
    failed = told(WebSearchCall(status="failed"))
    assert (steps(failed[0]), failed[2]["status"]) == (steps(events), "failed")


@pytest.mark.requirement("PROTOCOL/order-file-search")
def test_a_search_in_files() -> None:
    events, begun, whole = told(FileSearchCall(queries=["q"], results=[{"file_id": "f"}]))
    assert steps(events) == [f"file_search_call.{step}" for step in ("in_progress", "searching", "completed")]
    assert (begun["queries"], begun["results"]) == ([], None)
    assert (whole["queries"], whole["results"], whole["status"]) == (["q"], [{"file_id": "f"}], "completed")


@pytest.mark.requirement("PROTOCOL/order-code")
def test_code() -> None:
    item = CodeInterpreterCall(code="1+1", container_id="c", outputs=[{"type": "logs", "logs": "2"}])
    events, begun, whole = told(item)
    assert steps(events) == [
        "code_interpreter_call.in_progress",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.done",
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
    ]
    assert (events[1]["delta"], events[2]["code"]) == ("1+1", "1+1")
    assert (begun["code"], begun["outputs"], begun["container_id"]) == ("", [], "c")
    assert whole["outputs"] == [{"type": "logs", "logs": "2"}]
    silent = steps(told(CodeInterpreterCall(code=None, container_id="c"))[0])
    assert "code_interpreter_call_code.delta" not in silent


@pytest.mark.requirement("PROTOCOL/order-image")
def test_an_image() -> None:
    events, begun, whole = told(ImageGenerationCall(result="aGk=", size="1x1", revised_prompt="p"))
    names = ("in_progress", "generating", "completed")
    assert steps(events) == [f"image_generation_call.{step}" for step in names]
    assert begun.keys() == {"type", "id", "status"}
    assert whole["result"] == "aGk="


@pytest.mark.requirement("PROTOCOL/order-mcp")
@pytest.mark.parametrize(("error", "end"), [(None, "completed"), ({"type": "http_error"}, "failed")])
def test_an_mcp_server(error: dict[str, Any] | None, end: str) -> None:
    events, begun, whole = told(McpListTools(server_label="s", tools=[{"name": "t"}], error=error))
    assert steps(events) == ["mcp_list_tools.in_progress", f"mcp_list_tools.{end}"]
    assert (begun["tools"], whole["tools"], whole["status"]) == ([], [{"name": "t"}], end)
    events, begun, whole = told(McpCall(server_label="s", name="t", arguments='{"a":1}', error=error))
    assert steps(events) == [
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        f"mcp_call.{end}",
    ]
    assert events[2]["arguments"] == '{"a":1}'
    assert (begun["arguments"], begun["output"], begun["error"]) == ("", None, None)
    assert whole["status"] == end


def test_a_call_that_somebody_must_allow() -> None:
    events, begun, whole = told(McpApprovalRequest(server_label="s", name="t", arguments="{}"))
    assert events == []
    assert begun == {**whole, "status": "in_progress"}
    assert whole["id"].startswith("mcpr_")


def test_profiles_that_show_no_such_work_say_so() -> None:
    hidden = run(HostedItemDone(WebSearchCall()), TextDelta("a"), Finished("stop"), profile=PROXY)
    assert [item["type"] for item in hidden[-1]["response"]["output"]] == ["message"]
    assert "tools that the model's server ran" in hidden[-1]["response"]["downgrades"][0]


# Items that the backend tells apart


def items(*chunks: Chunk, **options: Any) -> list[tuple[str, str, Any]]:
    events = run(*chunks, Finished("stop"), **options)
    return [
        (item["type"], "".join(part["text"] for part in item["content"]), item.get("phase"))
        for item in events[-1]["response"]["output"]
        if item["type"] == "message"
    ]


def test_messages_in_a_row_have_their_phases() -> None:
    said = (
        ItemBegun("commentary"),
        TextDelta("a"),
        TextDelta("b"),
        ItemBegun(),
        TextDelta("c"),
        ItemBegun("final_answer"),
        TextDelta("d"),
    )
    assert items(*said) == [
        ("message", "ab", "commentary"),
        ("message", "c", None),
        ("message", "d", "final_answer"),
    ]


def test_an_item_without_a_word_is_not_begun() -> None:
    assert items(ItemBegun("commentary"), ItemBegun(), TextDelta("a"), ItemBegun()) == [
        ("message", "a", None)
    ]
    assert items(ItemBegun("final_answer")) == [("message", "", "final_answer")]


def test_a_phase_is_that_of_one_message() -> None:
    work = HostedItemDone(WebSearchCall())
    assert items(ItemBegun("commentary"), TextDelta("a"), work, TextDelta("b")) == [
        ("message", "a", "commentary"),
        ("message", "b", None),
    ]


def test_a_message_that_an_earlier_attempt_began_keeps_its_phase() -> None:
    earlier, later = new_machine(), new_machine()
    said = [*earlier.start(), *earlier.feed([ItemBegun("commentary"), TextDelta("a")])]
    done, *_ = map(to_wire, later.resume(said)[-1:])
    assert (done["item"]["phase"], done["item"]["status"]) == ("commentary", "incomplete")


def test_where_there_is_one_message_all_is_said_in_it() -> None:
    said = (ItemBegun("commentary"), TextDelta("a"), ItemBegun(), TextDelta("b"))
    assert items(*said, profile=PROXY) == [("message", "ab", None)]


SEARCH = HostedItemBegun(0, FileSearchCall())
SEARCHING = HostedItemStep(0, FileSearchCallSearching)
FOUND = FileSearchCall(queries=["q"], results=[{"file_id": "f"}])


@pytest.mark.requirement("PROTOCOL/order-file-search")
def test_a_search_is_reported_while_it_runs() -> None:
    machine = new_machine()
    machine.start()
    begun = [to_wire(event) for event in machine.feed([SEARCH, SEARCHING])]
    assert steps(begun) == ["output_item.added", "file_search_call.in_progress", "file_search_call.searching"]
    assert begun[0]["item"]["status"] == "in_progress"
    done = [to_wire(event) for event in machine.feed([HostedItemDone(FOUND, index=0)])]
    assert steps(done) == ["file_search_call.completed", "output_item.done"]
    assert done[-1]["item"]["id"] == begun[0]["item"]["id"]
    assert done[-1]["item"]["results"] == [{"file_id": "f"}]


def test_staged_and_finished_items_make_the_same_events() -> None:
    staged = run(TextDelta("a"), SEARCH, SEARCHING, HostedItemDone(FOUND, index=0), Finished("stop"))
    whole = run(TextDelta("a"), HostedItemDone(FOUND), Finished("stop"))
    check_order(staged)
    assert [event["type"] for event in staged] == [event["type"] for event in whole]
    assert staged[-1]["response"]["output"] == whole[-1]["response"]["output"]


def test_other_chunks_wait_for_a_tool_at_work() -> None:
    """Text and a second tool come while the first works: nothing is interleaved, nothing is lost."""
    second = HostedItemBegun(1, WebSearchCall())
    chunks = [SEARCH, second, TextDelta("later"), HostedItemDone(WebSearchCall(), index=1)]
    events = run(*chunks, HostedItemDone(FOUND, index=0), Finished("stop"))
    check_order(events)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["file_search_call", "web_search_call", "message"]
    assert {item["status"] for item in output} == {"completed"}


def test_a_tool_that_does_not_end_is_incomplete() -> None:
    events = run(SEARCH, SEARCHING, Failed(BackendBroken("gone")))
    check_order(events)
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"


def test_a_tool_at_work_in_a_log_is_closed_when_the_response_resumes() -> None:
    first = new_machine()
    log = [*first.start(), *first.feed([SEARCH, SEARCHING])]
    second = new_machine()
    events = [*log, *second.resume(log), *second.feed([TextDelta("a"), Finished("stop")]), *second.end(2)]
    check_order([to_wire(event) for event in events])
    assert [item.status for item in second.response.output] == ["incomplete", "completed"]


def test_a_private_side_is_kept_apart() -> None:
    machine = new_machine()
    machine.start()
    events = machine.feed([HostedItemDone(FOUND, private={"results": ["secret"]}), Finished("stop")])
    events += machine.end(2)
    (item,) = [item for item in machine.response.output if isinstance(item, FileSearchCall)]
    assert machine.private == {item.id: {"results": ["secret"]}}
    assert "secret" not in str([to_wire(event) for event in events])
