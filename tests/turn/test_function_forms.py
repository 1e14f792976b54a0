"""Calls and outputs of every kind, in the function form that models see and produce."""

from itertools import count
from typing import Any

import msgspec
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import InputImage
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import new_response
from antiphon.protocol.tool_items import ToolSearchCall
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk, Finished, ToolsFound
from antiphon.turn.context import FUNCTIONS, TurnRequest, build_turn
from antiphon.turn.function_forms.normal_arguments import normal_arguments
from antiphon.turn.machine import Machine
from tests.turn.chunk_strategies import DECLARED, TOOLS
from tests.turn.folding import fold, response_to_wire, to_wire
from tests.turn.order import check_order

JsonObject = dict[str, Any]
HI = {"role": "user", "content": "hi"}
SHELL = {"commands": ["ls", "cd src && ls"], "timeout_ms": 9, "max_output_length": None}
EXEC = {"type": "exec", "command": ["ls", "-l"], "env": {"A": "b"}, "working_directory": "/tmp"}
CLICK = {"type": "click", "x": 1, "y": 2, "button": "left"}
UPDATE = {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"}

CALLS: list[tuple[str, str, JsonObject]] = [
    ("f", '{"a":1}', {"type": "function_call", "name": "f", "arguments": '{"a":1}'}),
    ("time__now", "{}", {"type": "function_call", "name": "now", "namespace": "time", "arguments": "{}"}),
    ("patch", '{"input":"x\\n"}', {"type": "custom_tool_call", "name": "patch", "input": "x\n"}),
    (
        "shell",
        '{"commands":["ls","cd src && ls"],"timeout_ms":9}',
        {"type": "shell_call", "action": SHELL, "environment": {"type": "local"}},
    ),
    (
        "local_shell",
        '{"command":["ls","-l"],"env":{"A":"b"},"working_directory":"/tmp"}',
        {"type": "local_shell_call", "action": EXEC},
    ),
    (
        "apply_patch",
        '{"type":"update_file","path":"a.py","diff":"@@\\n-a\\n+b"}',
        {"type": "apply_patch_call", "operation": UPDATE},
    ),
    (
        "apply_patch",
        '{"type":"delete_file","path":"a.py"}',
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a.py"}},
    ),
    (
        "computer",
        '{"actions":[{"type":"click","x":1,"y":2,"button":"left"}]}',
        {"type": "computer_call", "actions": [CLICK], "pending_safety_checks": []},
    ),
    (
        "computer_use_preview",
        '{"actions":[{"type":"click","x":1,"y":2,"button":"left"}]}',
        {"type": "computer_call", "action": CLICK, "pending_safety_checks": []},
    ),
    (
        "tool_search",
        '{"query":"x"}',
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "x"}},
    ),
]
IDS = [f"{name}-{expected['type']}" for name, _, expected in CALLS]


def stream_of(*chunks: Chunk) -> list[JsonObject]:
    """The complete stream, after checking that it is well formed and folds to its response."""
    numbers = count()
    response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    machine = Machine(response, new_id=lambda prefix: f"{prefix}_{next(numbers)}", tools=TOOLS)
    events = machine.start() + machine.feed(chunks) + machine.end(2)
    assert fold(events) == response_to_wire(machine.response)
    wire = [to_wire(event) for event in events]
    check_order(wire)
    return wire


def called(name: str, arguments: str) -> JsonObject:
    chunks: list[Chunk] = [CallStarted(0, "call_1", name), CallDelta(0, arguments), Finished("tool_calls")]
    (item,) = stream_of(*chunks)[-1]["response"]["output"]
    return item


def view(*items: JsonObject, native: frozenset[str] = FUNCTIONS, **params: Any) -> TurnRequest:
    request = create_from(model="m", input=[*items, HI], **{"tools": DECLARED, **params})
    return build_turn(request, model="up", native=native)


def shown(*items: JsonObject, native: frozenset[str] = FUNCTIONS) -> tuple[Item, ...]:
    return view(*items, native=native).items[:-1]


@pytest.mark.requirement("PROTOCOL/tools-client-run")
@pytest.mark.parametrize(("name", "arguments", "expected"), CALLS, ids=IDS)
def test_a_call_becomes_the_item_of_its_kind_and_is_shown_unchanged(
    name: str, arguments: str, expected: JsonObject
) -> None:
    item = called(name, arguments)
    assert {key: item[key] for key in expected} == expected
    assert (item["call_id"], item["status"]) == ("call_1", "completed")
    (call,) = shown(item)
    assert isinstance(call, FunctionCall)
    # The model sees one name for the computer, that of the newer tool, which is declared here too.
    assert call.name in (name, "computer_use_preview")
    assert msgspec.json.decode(call.arguments) == msgspec.json.decode(arguments)
    tool = TOOLS.get(name)
    if tool is not None:
        assert msgspec.json.decode(normal_arguments(tool, arguments)) == msgspec.json.decode(call.arguments)


@pytest.mark.requirement("PROTOCOL/order-whole-calls")
@pytest.mark.parametrize(("name", "arguments", "expected"), CALLS, ids=IDS)
def test_any_split_of_a_call_yields_the_same_item(name: str, arguments: str, expected: JsonObject) -> None:
    pieces: list[Chunk] = [CallDelta(0, character) for character in arguments]
    events = stream_of(CallStarted(0, "call_1", name), *pieces, Finished("tool_calls"))
    assert events[-1]["response"]["output"] == [called(name, arguments)]


@pytest.mark.parametrize(("name", "arguments", "expected"), CALLS, ids=IDS)
def test_the_official_client_reads_every_event(name: str, arguments: str, expected: JsonObject) -> None:
    reader: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    events = stream_of(CallStarted(0, "call_1", name), CallDelta(0, arguments), Finished("tool_calls"))
    for event in events:
        if "apply_patch_call_operation_diff" not in event["type"]:  # the client has no type for these
            reader.validate_python(event)


def test_ids_have_the_prefixes_of_the_real_wire() -> None:
    assert [called(name, arguments)["id"].partition("_")[0] for name, arguments, _ in CALLS] == [
        "fc", "fc", "ctc", "sh", "lsh", "apc", "apc", "cu", "cu", "tsc",
    ]  # fmt: skip


@pytest.mark.requirement("PROTOCOL/order-shell")
def test_the_order_of_a_shell_call() -> None:
    events = stream_of(
        CallStarted(0, "c", "shell"), CallDelta(0, '{"commands":["ls","pwd"]}'), Finished("tool_calls")
    )
    command = ["shell_call_command.added", "shell_call_command.delta", "shell_call_command.done"]
    kinds = [event["type"].removeprefix("response.") for event in events[2:-1]]
    assert kinds == ["output_item.added", *command, *command, "output_item.done"]
    assert [event.get("command_index") for event in events[3:9]] == [0, 0, 0, 1, 1, 1]
    assert not any("item_id" in event for event in events)


@pytest.mark.requirement("PROTOCOL/order-apply-patch")
def test_a_patch_is_added_with_its_file_and_without_its_diff() -> None:
    arguments = msgspec.json.encode(UPDATE).decode()
    events = stream_of(CallStarted(0, "c", "apply_patch"), CallDelta(0, arguments), Finished("tool_calls"))
    assert events[2]["item"]["operation"] == {**UPDATE, "diff": ""}
    assert [event["type"].removeprefix("response.") for event in events[3:6]] == [
        "apply_patch_call_operation_diff.delta",
        "apply_patch_call_operation_diff.done",
        "output_item.done",
    ]


def test_the_input_of_a_custom_call_is_streamed() -> None:
    pieces = ['{"input":"*** Be', "gin\\", 'n"}']
    events = stream_of(
        CallStarted(0, "c", "patch"), *(CallDelta(0, piece) for piece in pieces), Finished("tool_calls")
    )
    deltas = [event["delta"] for event in events if event["type"].endswith("input.delta")]
    assert deltas == ["*** Be", "gin", "\n"]


@pytest.mark.requirement("PROTOCOL/tools-search-server")
def test_a_server_search_is_two_items() -> None:
    tools = create_from(model="m", input="x", tools=DECLARED[:2]).tools
    call, output, message = stream_of(ToolsFound({"query": "x"}, tools), Finished("stop"))[-1]["response"][
        "output"
    ]
    assert (call["type"], call["call_id"], call["execution"]) == ("tool_search_call", None, "server")
    assert (call["arguments"], call["id"][:4]) == ({"query": "x"}, "tsc_")
    assert (output["type"], output["call_id"], output["id"][:4]) == ("tool_search_output", None, "tso_")
    assert [tool["name"] for tool in output["tools"]] == ["patch", "time"]
    assert message["type"] == "message"
    search, found = shown(call, output)
    assert isinstance(search, FunctionCall)
    assert isinstance(found, FunctionCallOutput)
    assert search.call_id == found.call_id
    assert "patch, time.now" in str(found.output)


@pytest.mark.requirement("PROTOCOL/order-tool-search")
def test_a_search_that_the_server_has_to_make_has_no_call_to_answer() -> None:
    (tool,) = view(tools=[{"type": "tool_search"}]).tools
    response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    machine = Machine(response, new_id=lambda prefix: f"{prefix}_1", tools={tool.name: tool})
    machine.feed([CallStarted(0, "c", "tool_search"), CallDelta(0, '{"query":"x"}'), Finished("tool_calls")])
    (call, _) = machine.output
    assert isinstance(call, ToolSearchCall)
    assert (call.call_id, call.execution, call.arguments) == (None, "server", {"query": "x"})


def test_an_empty_command_has_no_delta() -> None:
    events = stream_of(
        CallStarted(0, "c", "shell"), CallDelta(0, '{"commands":["", "ls"]}'), Finished("stop")
    )
    deltas = [event["delta"] for event in events if event["type"].endswith("command.delta")]
    assert deltas == ["ls"]


BROKEN: list[tuple[str, str, JsonObject]] = [
    ("shell", "", {"action": {**SHELL, "commands": [], "timeout_ms": None}}),
    ("shell", '{"commands":["ls","ca', {"action": {**SHELL, "commands": ["ls", "ca"], "timeout_ms": None}}),
    ("shell", '{"commands":5}', {"action": {**SHELL, "commands": [], "timeout_ms": None}}),
    ("shell", "[1", {"action": {**SHELL, "commands": [], "timeout_ms": None}}),
    ("local_shell", "{", {"action": {"type": "exec", "command": [], "env": {}}}),
    ("apply_patch", "{}", {"operation": {"type": "update_file", "path": "", "diff": ""}}),
    ("apply_patch", '{"type":"create_file","path":"a"}', {"operation": {**UPDATE, "type": "create_file", "path": "a", "diff": ""}}),
    ("apply_patch", '{"type":"update_file","path":"a.py","diff":"@@\\n-a\\', {"operation": {**UPDATE, "diff": "@@\n-a"}}),
    ("apply_patch", '{"type":"chmod","path":"a.py","diff":"x"}', {"operation": {**UPDATE, "diff": "x"}}),
    ("computer", "nothing", {"actions": [{"type": "screenshot"}]}),
    ("computer", '{"actions":[5]}', {"actions": [{"type": "screenshot"}]}),
    ("tool_search", '{"query":"x', {"arguments": {"query": "x"}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "expected"), BROKEN)
def test_unparsable_arguments_yield_a_well_formed_incomplete_call(
    name: str, arguments: str, expected: JsonObject
) -> None:
    item = called(name, arguments)
    assert {key: item[key] for key in expected} == expected
    assert item["status"] == "incomplete"


LIBERAL: list[tuple[str, str, JsonObject]] = [
    ("shell", "ls -l", {"action": {**SHELL, "commands": ["ls -l"], "timeout_ms": None}}),
    ("shell", '{"command":"ls"}', {"action": {**SHELL, "commands": ["ls"], "timeout_ms": None}}),
    ("local_shell", '{"command":"ls | wc"}', {"action": {"type": "exec", "command": ["bash", "-lc", "ls | wc"], "env": {}}}),
    ("local_shell", '{"command":["ls"],"env":{"A":1},"timeout_ms":5,"user":"me"}', {"action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5, "user": "me"}}),
    ("apply_patch", '{"operation":{"type":"delete_file","path":"a","diff":"x"}}', {"operation": {"type": "delete_file", "path": "a"}}),
    ("computer", '{"type":"wait"}', {"actions": [{"type": "wait"}]}),
    ("computer", '{"action":{"type":"wait"}}', {"actions": [{"type": "wait"}]}),
    ("computer_use_preview", '{"actions":[{"type":"wait"},{"type":"wait"}]}', {"actions": [{"type": "wait"}] * 2}),
    ("tool_search", "mail", {"arguments": {"query": "mail"}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "expected"), LIBERAL)
def test_near_miss_arguments_are_normalized(name: str, arguments: str, expected: JsonObject) -> None:
    item = called(name, arguments)
    assert {key: item[key] for key in expected} == expected
    assert item["status"] == "completed"
    (call,) = shown(item)
    assert isinstance(call, FunctionCall)
    assert msgspec.json.decode(normal_arguments(TOOLS[name], arguments)) == msgspec.json.decode(
        call.arguments
    )


def test_tools_that_were_found_are_known_from_then_on() -> None:
    response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    machine = Machine(response, new_id=lambda prefix: f"{prefix}_1", forbidden=frozenset({"time__now"}))
    machine.set_tools(TOOLS, frozenset())
    machine.feed([CallStarted(0, "c", "time__now"), Finished("tool_calls")])
    (call,) = machine.output
    assert isinstance(call, FunctionCall)
    assert (call.name, call.namespace) == ("now", "time")


def test_a_truncated_call_is_incomplete_even_if_it_can_be_parsed() -> None:
    events = stream_of(
        CallStarted(0, "c", "shell"), CallDelta(0, '{"commands":["rm -rf build'), Finished("length")
    )
    (item,) = events[-1]["response"]["output"]
    assert (item["status"], item["action"]["commands"]) == ("incomplete", ["rm -rf build"])


def answer(call: JsonObject, output: JsonObject) -> Any:
    """The output as the model sees it."""
    found = shown({"call_id": "c", **call}, {"call_id": "c", **output})[-1]
    assert isinstance(found, FunctionCallOutput)
    assert found.call_id == "c"
    return found.output


def ran(stdout: str = "", stderr: str = "", code: int | None = 0) -> JsonObject:
    outcome = {"type": "timeout"} if code is None else {"type": "exit", "exit_code": code}
    return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


@pytest.mark.parametrize(
    ("commands", "results", "text"),
    [
        (["ls"], [ran("a\nb\n")], "a\nb\n[exit code 0]"),
        (["ls"], [ran("", "no such file\n", 2)], "[stderr]\nno such file\n[exit code 2]"),
        (["ls", "pwd"], [ran("a\n"), ran("/\n", "", None)], "$ ls\na\n[exit code 0]\n$ pwd\n/\n[timed out]"),
        (["ls", "pwd"], [ran("a\n")], "a\n[exit code 0]"),
        (["ls"], [{"stdout": "a"}], "a"),
        (["ls"], [], "[no output]"),
    ],
)
def test_the_output_of_a_shell_can_be_read(commands: list[str], results: list[Any], text: str) -> None:
    call = {"type": "shell_call", "action": {"commands": commands}}
    assert answer(call, {"type": "shell_call_output", "output": results}) == text


def test_the_outputs_of_other_kinds_can_be_read() -> None:
    patch = {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}}
    done = {"type": "apply_patch_call_output", "status": "completed"}
    assert answer(patch, done) == "The patch was applied."
    failed = {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"}
    assert answer(patch, failed) == "The patch failed.\nno such file"
    local = {"type": "local_shell_call", "action": {"command": ["ls"]}}
    assert answer(local, {"type": "local_shell_call_output", "output": "a"}) == "a"
    search: JsonObject = {"type": "tool_search_call", "arguments": {}}
    assert answer(search, {"type": "tool_search_output", "tools": []}) == "No tools were found."
    custom = {"type": "custom_tool_call", "name": "patch", "input": "x"}
    assert answer(custom, {"type": "custom_tool_call_output", "output": "ok"}) == "ok"


def test_a_screenshot_is_an_image() -> None:
    call = {"type": "computer_call", "action": {"type": "screenshot"}}
    screen = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}
    output = {"type": "computer_call_output", "output": screen}
    assert answer(call, output) == [InputImage(image_url="data:image/png;base64,AA==")]


def test_calls_of_tools_that_are_gone_are_still_shown() -> None:
    request = view(
        {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}},
        {"type": "function_call", "call_id": "b", "name": "get", "namespace": "crm", "arguments": "{}"},
        tools=[],
    )
    assert [item.name for item in request.items if isinstance(item, FunctionCall)] == ["shell", "crm__get"]


def test_a_function_form_gets_a_free_name() -> None:
    request = view(
        {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}},
        tools=[{"type": "shell"}, {"type": "function", "name": "shell"}],
    )
    (call,) = [item for item in request.items if isinstance(item, FunctionCall)]
    assert call.name == "shell_2"


NATIVE = frozenset({"function", "custom", "namespace", "shell", "mcp"})


def test_native_tools_are_unchanged() -> None:
    items: list[JsonObject] = [
        {"type": "function_call", "call_id": "a", "name": "now", "namespace": "time", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "1"},
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c", "output": [ran("a")]},
        {"type": "mcp_call", "server_label": "s", "name": "f", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "x", "approve": True},
    ]
    request = view(*items, native=NATIVE)
    assert list(request.items) == list(create_from(model="m", input=[*items, HI]).items)
    assert request.places == ()
    patch = {"type": "apply_patch_call", "call_id": "d", "operation": {"type": "delete_file", "path": "a"}}
    output = {"type": "apply_patch_call_output", "call_id": "d", "status": "completed"}
    assert [type(item) for item in shown(patch, output, native=NATIVE)] == [FunctionCall, FunctionCallOutput]


def test_a_namespace_is_flat_where_only_custom_tools_are_native() -> None:
    call = {"type": "custom_tool_call", "call_id": "b", "name": "x", "namespace": "n", "input": "y"}
    (item,) = shown(call, native=frozenset({"function", "custom"}))
    assert isinstance(item, FunctionCall)
    assert item.name == "n__x"


def test_an_mcp_call_is_a_call_and_its_output() -> None:
    request = view(
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "my server", "name": "f", "arguments": "{}", "output": "1"},
        {"type": "mcp_call", "server_label": "s", "name": "g", "arguments": "{}", "error": "broken"},
    )  # fmt: skip
    call, output, failed, error, _ = request.items
    assert isinstance(call, FunctionCall)
    assert isinstance(output, FunctionCallOutput)
    assert (call.name, call.call_id, output.call_id, output.output) == ("my_server__f", "mcp_1", "mcp_1", "1")
    assert isinstance(failed, FunctionCall)
    assert isinstance(error, FunctionCallOutput)
    assert (failed.call_id, "broken" in str(error.output)) == (error.call_id, True)
    assert [request.param(index) for index in range(5)] == [
        "input[1]", "input[1]", "input[2]", "input[2]", "input[3]",
    ]  # fmt: skip
    assert [
        note for note in rendered(request.downgrades) if "shown to the model as a function" not in note
    ] == [
        "items of type 'web_search_call' are left out: this model cannot read them",
        "calls of MCP tools in the input are shown as calls of functions",
    ]


def test_an_error_names_the_callers_path_when_the_history_is_converted() -> None:
    hosted_item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    request = create_from(model="m", input=[hosted_item, HI, HI], previous_response_id="resp_1")
    turn = build_turn(request, [*request.items, *request.items], model="up", history=3)
    assert (len(turn.items), turn.history) == (4, 2)
    assert [turn.param(index) for index in range(4)] == [
        "previous_response_id", "previous_response_id", "input[1]", "input[2]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "item",
    [
        {"type": "configuration_update"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        {"type": "program", "code": "1"},
        {"type": "program_output"},
        {"type": "compaction", "encrypted_content": "?"},
    ],
)
def test_unsupported_items_are_rejected_with_their_path(item: JsonObject) -> None:
    with pytest.raises(Unsupported) as caught:
        view({"type": "web_search_call", "status": "completed"}, HI, item)
    assert (caught.value.param, caught.value.code) == ("input[2]", "unsupported_item")
    assert item["type"] in caught.value.message


def test_an_unresolved_item_reference_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        view({"type": "item_reference", "id": "msg_1"})
    assert (caught.value.param, caught.value.code) == ("input[0]", "not_found")


def test_plain_conversations_are_unchanged() -> None:
    request = create_from(model="m", input=[HI, {"role": "assistant", "content": "x"}])
    turn = build_turn(request, model="up")
    assert turn.items is request.items or turn.items == request.items
    assert all(isinstance(item, Message) for item in turn.items)
    assert turn.places == ()
