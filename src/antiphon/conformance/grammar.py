"""The order table: for every type of item, the events between `added` and `done`, and the members that are
empty in `added`. Event types are written without `response.`.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from antiphon.conformance.pattern import NOTHING, Pattern, either, kinds, many, sequence


class Row(Struct, frozen=True):
    """One row of the table.

    `observed` is a more tolerant order for other servers: events may be missing that real servers omit
    without harm to clients. `added` maps members to the values that are empty: clients append to them.
    """

    order: Pattern = NOTHING
    observed: Pattern | None = None
    added: Mapping[str, tuple[Any, ...]] = {}


def _part(text: str, *others: str) -> Pattern:
    """A content part with its deltas."""
    deltas = many(either(f"{text}.delta", *others)) if others else f"{text}.delta*"
    return sequence("content_part.added", deltas, f"{text}.done", "content_part.done")


_SUMMARY = sequence(
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta*",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
)
_EMPTY_TEXT = ("",)
_EMPTY_LIST: tuple[Any, ...] = ([], None)
_ABSENT: tuple[Any, ...] = (None,)


def _searching(name: str, added: Mapping[str, tuple[Any, ...]]) -> Row:
    return Row(
        order=sequence(f"{name}.in_progress", f"{name}.searching", f"{name}.completed"),
        observed=sequence(f"{name}.in_progress", f"{name}.searching*", f"{name}.completed?"),
        added=added,
    )


ROWS: dict[str, Row] = {
    "message": Row(
        order=many(either(_part("output_text", "output_text.annotation.added"), _part("refusal"))),
        added={"content": ([],)},
    ),
    "reasoning": Row(
        order=many(either(_SUMMARY, _part("reasoning_text"))),
        added={"summary": ([],), "content": _EMPTY_LIST},
    ),
    "function_call": Row(
        order=sequence("function_call_arguments.delta*", "function_call_arguments.done"),
        added={"arguments": _EMPTY_TEXT},
    ),
    "custom_tool_call": Row(
        order=sequence("custom_tool_call_input.delta*", "custom_tool_call_input.done"),
        observed=sequence("custom_tool_call_input.delta*", "custom_tool_call_input.done?"),
        added={"input": _EMPTY_TEXT},
    ),
    "web_search_call": _searching("web_search_call", {"action": (None, {})}),
    "file_search_call": _searching("file_search_call", {"queries": _EMPTY_LIST, "results": _EMPTY_LIST}),
    "mcp_list_tools": Row(
        order=sequence(
            "mcp_list_tools.in_progress", either("mcp_list_tools.completed", "mcp_list_tools.failed")
        ),
        added={"tools": _EMPTY_LIST},
    ),
    "mcp_call": Row(
        order=sequence(
            "mcp_call.in_progress",
            "mcp_call_arguments.delta*",
            "mcp_call_arguments.done",
            either("mcp_call.completed", "mcp_call.failed"),
        ),
        added={"arguments": _EMPTY_TEXT, "output": _ABSENT, "error": _ABSENT},
    ),
    "code_interpreter_call": Row(
        order=sequence(
            "code_interpreter_call.in_progress",
            "code_interpreter_call_code.delta*",
            "code_interpreter_call_code.done",
            "code_interpreter_call.interpreting",
            "code_interpreter_call.completed",
        ),
        added={"code": ("", None), "outputs": _EMPTY_LIST},
    ),
    "image_generation_call": Row(
        order=sequence(
            "image_generation_call.in_progress",
            "image_generation_call.generating",
            "image_generation_call.partial_image*",
            "image_generation_call.completed",
        ),
        added={"result": _ABSENT},
    ),
    "shell_call": Row(
        order=many("shell_call_command.added", "shell_call_command.delta*", "shell_call_command.done"),
        added={"action.commands": ([],)},
    ),
    "shell_call_output": Row(
        order=many("shell_call_output_content.delta*", "shell_call_output_content.done"),
        added={"output": ([],)},
    ),
    "apply_patch_call": Row(
        order=either(
            sequence("apply_patch_call_operation_diff.delta*", "apply_patch_call_operation_diff.done"),
            NOTHING,
        ),
        added={"operation.diff": ("", None)},
    ),
    "compaction": Row(order=sequence("compaction.compacting?")),
    "tool_search_call": Row(added={"arguments": ({}, None)}),
    "program": Row(added={"code": _EMPTY_TEXT}),
    "tool_search_output": Row(),
    "program_output": Row(),
    "local_shell_call": Row(),
    "computer_call": Row(),
    "mcp_approval_request": Row(),
}
"""Other types (outputs, extensions with a prefix) have no events between `added` and `done`."""

TERMINAL = frozenset({"completed", "incomplete", "failed"})
ENVELOPE = frozenset({"created", "queued", "in_progress", "error"}) | TERMINAL
KINDS = ENVELOPE.union(
    {"output_item.added", "output_item.done"}, *(kinds(row.order) for row in ROWS.values())
)
"""Every event type of the table. Others are extensions, which clients ignore."""

OPENING = either(sequence("created", "queued?", "in_progress"), sequence("queued", "created", "in_progress"))
"""The first events of a stream; `queued` in the background only."""

STATUSES = {
    "created": ("in_progress", "queued"),
    "queued": ("queued",),
    "in_progress": ("in_progress",),
    "completed": ("completed",),
    "incomplete": ("incomplete", "cancelled"),
    "failed": ("failed",),
}
"""The status of the response in each event of the envelope. A cancelled response ends as incomplete."""

WITHOUT_STATUS = frozenset(
    {"reasoning", "mcp_list_tools", "mcp_approval_request", "compaction", "program", "custom_tool_call"}
)
"""Types whose schema has no status, or whose status real servers omit."""

HOSTED = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "web_search_call",
    }
)
"""Items of tools that a server runs: one that is cut off ends as incomplete, without its last steps."""

ADDED_COMPLETE = frozenset(
    {
        "shell_call_output", "tool_search_output", "program_output", "mcp_approval_request", "compaction",
        "function_call_output", "custom_tool_call_output", "local_shell_call_output", "computer_call_output",
        "apply_patch_call_output",
    }
)  # fmt: skip
"""Types that may have their final status in `added`."""
