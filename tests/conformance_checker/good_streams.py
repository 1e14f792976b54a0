"""A correct stream of every type of item in the order table."""

import copy
from typing import Any

JsonObject = dict[str, Any]
Events = list[JsonObject]

PATCH = "*** a\n+b"
CITATION = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}


def item_event(kind: str, **members: Any) -> JsonObject:
    """An event of the item; its number, index and item are filled in later."""
    return {"type": f"response.{kind}", **members}


def text_events(stem: str, field: str, text: str, **index: int) -> Events:
    """Two deltas and their end."""
    return [
        item_event(f"{stem}.delta", delta=text[:2], **index),
        item_event(f"{stem}.delta", delta=text[2:], **index),
        item_event(f"{stem}.done", **{field: text}, **index),
    ]


def part(kind: str, field: str, text: str, number: int) -> Events:
    """A content part with its text."""
    empty, full = {"type": kind, field: ""}, {"type": kind, field: text}
    return [
        item_event("content_part.added", part=empty, content_index=number),
        *text_events(kind, field, text, content_index=number),
        item_event("content_part.done", part=full, content_index=number),
    ]


def summary(text: str, number: int) -> Events:
    return [
        item_event(
            "reasoning_summary_part.added", part={"type": "summary_text", "text": ""}, summary_index=number
        ),
        *text_events("reasoning_summary_text", "text", text, summary_index=number),
        item_event(
            "reasoning_summary_part.done", part={"type": "summary_text", "text": text}, summary_index=number
        ),
    ]


def command(text: str, number: int) -> Events:
    return [
        item_event("shell_call_command.added", command="", command_index=number),
        *text_events("shell_call_command", "command", text, command_index=number),
    ]


def steps(name: str, *kinds: str) -> Events:
    return [item_event(f"{name}.{kind}") for kind in kinds]


def cited(events: Events) -> Events:
    """With a citation after the first delta."""
    citation = item_event(
        "output_text.annotation.added", annotation=CITATION, annotation_index=0, content_index=0
    )
    return [*events[:2], citation, *events[2:]]


TEXT = {"type": "output_text", "text": "Hello", "annotations": [CITATION], "logprobs": []}

ITEMS: dict[str, tuple[JsonObject, Events, JsonObject]] = {
    "message": (
        {"role": "assistant", "content": []},
        [*cited(part("output_text", "text", "Hello", 0)), *part("refusal", "refusal", "I will not", 1)],
        {"content": [TEXT, {"type": "refusal", "refusal": "I will not"}]},
    ),
    "reasoning": (
        {"summary": []},
        [*summary("First", 0), *summary("Then", 1), *part("reasoning_text", "text", "Hmm.", 0)],
        {
            "summary": [{"type": "summary_text", "text": "First"}, {"type": "summary_text", "text": "Then"}],
            "content": [{"type": "reasoning_text", "text": "Hmm."}],
        },
    ),
    "function_call": (
        {"arguments": "", "name": "f", "call_id": "call_1", "namespace": "n"},
        text_events("function_call_arguments", "arguments", '{"a":1}'),
        {"arguments": '{"a":1}'},
    ),
    "custom_tool_call": (
        {"input": "", "name": "f", "call_id": "call_1"},
        text_events("custom_tool_call_input", "input", "buy milk"),
        {"input": "buy milk"},
    ),
    "web_search_call": (
        {},
        steps("web_search_call", "in_progress", "searching", "completed"),
        {"action": {"type": "search", "query": "tides"}},
    ),
    "file_search_call": (
        {"queries": [], "results": None},
        steps("file_search_call", "in_progress", "searching", "completed"),
        {"queries": ["tides"]},
    ),
    "mcp_list_tools": (
        {"server_label": "s", "tools": []},
        steps("mcp_list_tools", "in_progress", "completed"),
        {"tools": [{"name": "t"}]},
    ),
    "mcp_call": (
        {"arguments": "", "name": "t", "output": None, "error": None},
        [
            *steps("mcp_call", "in_progress"),
            *text_events("mcp_call_arguments", "arguments", '{"a":1}'),
            *steps("mcp_call", "failed"),
        ],
        {"arguments": '{"a":1}', "error": {"type": "http_error"}, "status": "failed"},
    ),
    "mcp_approval_request": ({"arguments": "{}", "name": "t", "server_label": "s"}, [], {}),
    "code_interpreter_call": (
        {"code": "", "container_id": "cntr_1", "outputs": []},
        [
            *steps("code_interpreter_call", "in_progress"),
            *text_events("code_interpreter_call_code", "code", "1 + 1"),
            *steps("code_interpreter_call", "interpreting", "completed"),
        ],
        {"code": "1 + 1", "outputs": [{"type": "logs", "logs": "2"}]},
    ),
    "image_generation_call": (
        {},
        steps("image_generation_call", "in_progress", "generating", "completed"),
        {"result": "aGk="},
    ),
    "shell_call": (
        {"call_id": "call_1", "action": {"commands": []}},
        [*command("ls -l", 0), *command("pwd", 1)],
        {"action": {"commands": ["ls -l", "pwd"]}},
    ),
    "shell_call_output": (
        {"call_id": "call_1", "output": [], "status": "completed"},
        [
            item_event("shell_call_output_content.delta", command_index=0, delta={"stdout": "a"}),
            item_event(
                "shell_call_output_content.done", command_index=0, output=[{"stdout": "a", "stderr": ""}]
            ),
        ],
        {"output": [{"stdout": "a", "stderr": ""}]},
    ),
    "apply_patch_call": (
        {"call_id": "call_1", "operation": {"type": "update_file", "path": "p", "diff": ""}},
        text_events("apply_patch_call_operation_diff", "diff", PATCH),
        {"operation": {"type": "update_file", "path": "p", "diff": PATCH}},
    ),
    "compaction": ({"encrypted_content": "x"}, steps("compaction", "compacting"), {}),
    "tool_search_call": (
        {"call_id": None, "execution": "server", "arguments": {}},
        [],
        {"arguments": {"q": "x"}},
    ),
    "tool_search_output": ({"call_id": None, "tools": []}, [], {}),
    "program": ({"call_id": "call_1", "code": "", "fingerprint": "x"}, [], {"code": "f()"}),
    "program_output": ({"call_id": "call_1", "result": "1"}, [], {}),
    "local_shell_call": ({"call_id": "call_1", "action": {"type": "exec", "command": ["ls"]}}, [], {}),
    "computer_call": ({"call_id": "call_1", "action": {"type": "click"}}, [], {}),
}
OPTIONAL = {"response.compaction.compacting"}
"""Optional events of a stream."""


def stream(*kinds: str, status: str = "completed") -> Events:
    """A complete stream with one item of each of these types."""
    events: Events = [_envelope("created", "in_progress", []), _envelope("in_progress", "in_progress", [])]
    output: Events = []
    for index, kind in enumerate(kinds):
        begin, item_events, end = ITEMS[kind]
        item = {"type": kind, "id": f"item_{index}", "status": "in_progress", **begin}
        done = {**item, "status": "completed", **end}
        belongs = {"output_index": index, "item_id": item["id"]}
        events.append(item_event("output_item.added", output_index=index, item=item))
        events += [_owned(event, belongs) for event in item_events]
        events.append(item_event("output_item.done", output_index=index, item=done))
        output.append(copy.deepcopy(done))
    return numbered([*events, _envelope(status, status, output)])


def numbered(events: Events) -> Events:
    """The same events, renumbered."""
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _owned(event: JsonObject, belongs: JsonObject) -> JsonObject:
    if "shell_call_command" in event["type"]:
        return {**event, "output_index": belongs["output_index"]}
    return {**event, **belongs}


def _envelope(kind: str, status: str, output: Events) -> JsonObject:
    return item_event(
        kind, response={"id": "resp_1", "object": "response", "status": status, "output": output}
    )
