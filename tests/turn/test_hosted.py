"""Items of hosted tools: the events of each kind follow the order of its row."""

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


def events_of_item(item: HostedItem) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]:
    """The events between, and the item as added and as done."""
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
    events, begun, done_item = events_of_item(item)
    assert steps(events) == [f"web_search_call.{step}" for step in ("in_progress", "searching", "completed")]
    assert begun == {"type": "web_search_call", "id": done_item["id"], "status": "in_progress"}
    assert done_item["id"].startswith("ws_")
    assert done_item["action"] == {"type": "search", "query": "q"}
    failed = events_of_item(WebSearchCall(status="failed"))
    assert (steps(failed[0]), failed[2]["status"]) == (steps(events), "failed")


@pytest.mark.requirement("PROTOCOL/order-file-search")
def test_a_search_in_files() -> None:
    events, begun, done_item = events_of_item(FileSearchCall(queries=["q"], results=[{"file_id": "f"}]))
    assert steps(events) == [f"file_search_call.{step}" for step in ("in_progress", "searching", "completed")]
    assert (begun["queries"], begun["results"]) == ([], None)
    assert (done_item["queries"], done_item["results"], done_item["status"]) == (
        ["q"],
        [{"file_id": "f"}],
        "completed",
    )


@pytest.mark.requirement("PROTOCOL/order-code")
def test_code() -> None:
    item = CodeInterpreterCall(code="1+1", container_id="c", outputs=[{"type": "logs", "logs": "2"}])
    events, begun, done_item = events_of_item(item)
    assert steps(events) == [
        "code_interpreter_call.in_progress",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.done",
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
    ]
    assert (events[1]["delta"], events[2]["code"]) == ("1+1", "1+1")
    assert (begun["code"], begun["outputs"], begun["container_id"]) == ("", [], "c")
    assert done_item["outputs"] == [{"type": "logs", "logs": "2"}]
    without_code = steps(events_of_item(CodeInterpreterCall(code=None, container_id="c"))[0])
    assert "code_interpreter_call_code.delta" not in without_code


@pytest.mark.requirement("PROTOCOL/order-image")
def test_an_image() -> None:
    events, begun, done_item = events_of_item(
        ImageGenerationCall(result="aGk=", size="1x1", revised_prompt="p")
    )
    names = ("in_progress", "generating", "completed")
    assert steps(events) == [f"image_generation_call.{step}" for step in names]
    assert begun.keys() == {"type", "id", "status"}
    assert done_item["result"] == "aGk="


@pytest.mark.requirement("PROTOCOL/order-mcp")
@pytest.mark.parametrize(("error", "end"), [(None, "completed"), ({"type": "http_error"}, "failed")])
def test_an_mcp_server(error: dict[str, Any] | None, end: str) -> None:
    events, begun, done_item = events_of_item(
        McpListTools(server_label="s", tools=[{"name": "t"}], error=error)
    )
    assert steps(events) == ["mcp_list_tools.in_progress", f"mcp_list_tools.{end}"]
    assert (begun["tools"], done_item["tools"], done_item["status"]) == ([], [{"name": "t"}], end)
    events, begun, done_item = events_of_item(
        McpCall(server_label="s", name="t", arguments='{"a":1}', error=error)
    )
    assert steps(events) == [
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        f"mcp_call.{end}",
    ]
    assert events[2]["arguments"] == '{"a":1}'
    assert (begun["arguments"], begun["output"], begun["error"]) == ("", None, None)
    assert done_item["status"] == end


def test_an_approval_request() -> None:
    events, begun, done_item = events_of_item(McpApprovalRequest(server_label="s", name="t", arguments="{}"))
    assert events == []
    assert begun == {**done_item, "status": "in_progress"}
    assert done_item["id"].startswith("mcpr_")


def test_profiles_without_hosted_items_report_them() -> None:
    hidden = run(HostedItemDone(WebSearchCall()), TextDelta("a"), Finished("stop"), profile=PROXY)
    assert [item["type"] for item in hidden[-1]["response"]["output"]] == ["message"]
    assert "tools that the model's server ran" in hidden[-1]["response"]["downgrades"][0]


@pytest.mark.requirement("PROTOCOL/divergence-response-id")
def test_events_of_items_do_not_repeat_the_id_of_the_response() -> None:
    events = run(TextDelta("a"), Finished("stop"))
    assert not any("response_id" in event for event in events)
    assert events[0]["response"]["id"] == "resp_1"


@pytest.mark.requirement("PROTOCOL/divergence-image-tokens")
def test_tokens_of_images_are_not_counted() -> None:
    events = run(HostedItemDone(ImageGenerationCall(result="aGk=")), Finished("stop"))
    assert events[-1]["response"]["tool_usage"] == events[0]["response"]["tool_usage"]


@pytest.mark.requirement("PROTOCOL/object-tool-usage")
def test_web_searches_are_counted() -> None:
    events = run(HostedItemDone(WebSearchCall()), HostedItemDone(WebSearchCall()), Finished("stop"))
    assert events[0]["response"]["tool_usage"]["web_search"] == {"num_requests": 0}
    assert events[-1]["response"]["tool_usage"]["web_search"] == {"num_requests": 2}


# Items that the backend separates


def items(*chunks: Chunk, **options: Any) -> list[tuple[str, str, Any]]:
    events = run(*chunks, Finished("stop"), **options)
    return [
        (item["type"], "".join(part["text"] for part in item["content"]), item.get("phase"))
        for item in events[-1]["response"]["output"]
        if item["type"] == "message"
    ]


def test_messages_in_a_row_have_their_phases() -> None:
    sent_chunks = (
        ItemBegun("commentary"),
        TextDelta("a"),
        TextDelta("b"),
        ItemBegun(),
        TextDelta("c"),
        ItemBegun("final_answer"),
        TextDelta("d"),
    )
    assert items(*sent_chunks) == [
        ("message", "ab", "commentary"),
        ("message", "c", None),
        ("message", "d", "final_answer"),
    ]


def test_an_item_without_text_is_not_added() -> None:
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


def test_a_message_of_an_earlier_attempt_keeps_its_phase() -> None:
    earlier, later = new_machine(), new_machine()
    earlier_events = [*earlier.start(), *earlier.feed([ItemBegun("commentary"), TextDelta("a")])]
    done, *_ = map(to_wire, later.resume(earlier_events)[-1:])
    assert (done["item"]["phase"], done["item"]["status"]) == ("commentary", "incomplete")


def test_profiles_with_one_message_merge_all_text() -> None:
    sent_chunks = (ItemBegun("commentary"), TextDelta("a"), ItemBegun(), TextDelta("b"))
    assert items(*sent_chunks, profile=PROXY) == [("message", "ab", None)]


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
    events = run(TextDelta("a"), HostedItemDone(FOUND), Finished("stop"))
    check_order(staged)
    assert [event["type"] for event in staged] == [event["type"] for event in events]
    assert staged[-1]["response"]["output"] == events[-1]["response"]["output"]


def test_other_chunks_wait_for_a_tool_at_work() -> None:
    """Text and a second tool arrive while the first runs: the items are not interleaved, and no chunk is
    lost.
    """
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


def test_a_private_side_is_stored_separately() -> None:
    machine = new_machine()
    machine.start()
    events = machine.feed([HostedItemDone(FOUND, private={"results": ["secret"]}), Finished("stop")])
    events += machine.end(2)
    (item,) = [item for item in machine.response.output if isinstance(item, FileSearchCall)]
    assert machine.private == {item.id: {"results": ["secret"]}}
    assert "secret" not in str([to_wire(event) for event in events])
