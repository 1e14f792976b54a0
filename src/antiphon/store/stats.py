"""What lists and statistics of responses read: columns of the row of a response, derived when it is saved."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

from msgspec import Struct

from antiphon.protocol.items import FunctionCall, Item, Message, Reasoning
from antiphon.protocol.response import Response
from antiphon.protocol.stored_items import item_type

MAX_PREVIEW_CHARACTERS = 200
MAX_TOOLS = 16
"""The most distinct names of tools in a row."""
MAX_NAME_CHARACTERS = 200
"""Of a model or an upstream: the columns are part of an index, whose rows have a maximal size."""
MAX_TOOL_CHARACTERS = 64
MAX_PREVIEW_ITEMS = 100
"""How many of the last items a preview is looked for in, and in how many parts of each."""
_READ_CHARACTERS = 2 * MAX_PREVIEW_CHARACTERS
"""How much of a text is read for a preview: more than its length, because white space is collapsed."""


class ResponseStats(Struct, frozen=True, kw_only=True):
    """What the saved response itself does not tell. At the end of a background response, None leaves the key
    and the request that were saved when it was submitted."""

    key_id: str | None = None
    request_id: str | None = None
    upstream: str | None = None
    """The name of the backend that has answered last."""
    first_token_ms: int | None = None
    total_ms: int | None = None


NO_STATS = ResponseStats()


def stats_columns(stats: ResponseStats, response: Response, items: Sequence[Item]) -> tuple[Any, ...]:
    """The values of the columns, in the order of the statements `add_response` and `finish_response`."""
    usage, output = response.usage, response.output
    names, calls = _called(output) if output else ("", 0)
    return (
        *(response.model[:MAX_NAME_CHARACTERS], stats.key_id, stats.request_id, int(response.background)),
        *(names, preview(items), preview(output) or _last_call(output)),
        *(stats.upstream and stats.upstream[:MAX_NAME_CHARACTERS], stats.first_token_ms, stats.total_ms),
        *(
            (None, None, None, None)
            if usage is None
            else (
                usage.input_tokens,
                usage.input_tokens_details.cached_tokens,
                usage.output_tokens,
                usage.output_tokens_details.reasoning_tokens,
            )
        ),
        calls,
    )


def preview(items: Sequence[Item]) -> str:
    """The beginning of the last text in these items, on one line."""
    for item in islice(reversed(items), MAX_PREVIEW_ITEMS):
        if isinstance(item, Message) and (line := _line(_beginning(item.content))):
            return line
    return ""


def _last_call(output: Sequence[Item]) -> str:
    """`name(arguments)` of the last call of a function, as the preview of an output without text."""
    for item in islice(reversed(output), MAX_PREVIEW_ITEMS):
        if isinstance(item, FunctionCall):
            return _line(f"{item.name}({item.arguments[:_READ_CHARACTERS]})")
    return ""


def tool_word(name: str) -> str:
    """A name of a tool as it is in the column: a word of ASCII, in lower case."""
    cut = name[:MAX_TOOL_CHARACTERS].lower().encode("ascii", "replace").decode()
    return "_".join(cut.split())


def _called(output: Sequence[Item]) -> tuple[str, int]:
    """The names of the tools that were called, between spaces, and the number of calls."""
    names: dict[str, None] = {}
    calls = 0
    for item in output:
        if isinstance(item, Message | Reasoning):
            continue
        kind = item_type(item)
        if not kind.endswith("_call"):
            continue
        calls += 1
        if len(names) < MAX_TOOLS:
            named = getattr(item, "name", None) if kind in _NAMED_CALLS else None
            names[tool_word(named if isinstance(named, str) else kind.removesuffix("_call"))] = None
            if kind == "mcp_call":
                names["mcp"] = None
    return (f" {' '.join(names)} " if names else ""), calls


_NAMED_CALLS = frozenset({"function_call", "custom_tool_call", "mcp_call"})


def _beginning(content: object) -> str:
    """The first characters of a text, or of the texts of parts."""
    if isinstance(content, str):
        return content[:_READ_CHARACTERS]
    if not isinstance(content, list):
        return ""
    found, size = list[str](), 0
    for part in cast("list[object]", content)[:MAX_PREVIEW_ITEMS]:
        text = getattr(part, "text", None) or getattr(part, "refusal", None)
        if isinstance(text, str):
            found.append(text[:_READ_CHARACTERS])
            size += len(text)
            if size >= MAX_PREVIEW_CHARACTERS:
                break
    return " ".join(found)


def _line(text: str) -> str:
    """A text as one short line. PostgreSQL takes no NUL, and no database half a surrogate pair."""
    line = text[:MAX_PREVIEW_CHARACTERS]
    if line.isprintable() and "  " not in line:  # as most are: one line already
        return line.strip()
    line = " ".join(text.replace("\0", "").split())[:MAX_PREVIEW_CHARACTERS]
    return line if line.isascii() else line.encode("utf-8", "replace").decode()
