"""Breakpoints of the prompt cache.

The caller's breakpoints are sent. Two more are set, if the endpoint's row allows it and the caller's mode is
not `explicit`: after the system prompt (or the tools), and after the conversation, for the next turn. The API
takes four at most, and no long-lived one after a short-lived one, so all have the same lifetime.
"""

from collections.abc import Iterable

from msgspec import UnsetType

from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.requests import CreateBody

_FIELD = "cache_control"
_LONG = "1h"
_MAX_BREAKPOINTS = 4
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


def marker(breakpoint_: JsonObject | UnsetType) -> JsonObject:
    """The member for a block with a breakpoint of the caller; empty for other blocks."""
    if isinstance(breakpoint_, UnsetType):
        return {}
    return {_FIELD: _control(_lives_long(breakpoint_.get("ttl")))}


def hoisted(blocks: list[JsonObject]) -> JsonObject:
    """Move the breakpoint of blocks inside a tool result to the result itself."""
    controls = [block.pop(_FIELD) for block in blocks if _FIELD in block]
    return {_FIELD: controls[-1]} if controls else {}


def place_breakpoints(
    prefix: list[JsonObject],
    messages: list[JsonObject],
    params: CreateBody,
    downgrades: Downgrades,
    *,
    automatic: bool,
) -> None:
    """Set the breakpoints of a request. `prefix` precedes the messages: tools, then system."""
    content = [block for message in messages for block in message["content"]]
    marked = [block for block in (*prefix, *content) if _FIELD in block]
    if len(marked) > _MAX_BREAKPOINTS:
        downgrades.add(
            "not_sent", f"only the last {_MAX_BREAKPOINTS} prompt cache breakpoints are sent", "input"
        )
        for block in marked[:-_MAX_BREAKPOINTS]:
            del block[_FIELD]
        marked = marked[-_MAX_BREAKPOINTS:]
    options = params.prompt_cache_options or {}
    if automatic and options.get("mode") != "explicit":
        for block in _ends(prefix, content):
            if _FIELD not in block and len(marked) < _MAX_BREAKPOINTS:
                marked.append(block)
    long = (
        params.prompt_cache_retention == "24h"
        or _lives_long(options.get("ttl"))
        or any("ttl" in block.get(_FIELD, {}) for block in marked)
    )
    for block in marked:
        block[_FIELD] = _control(long)


def _ends(prefix: list[JsonObject], content: list[JsonObject]) -> Iterable[JsonObject]:
    """The last blocks of the conversation and of the prefix."""
    markable = [block for block in content[-1:] if block["type"] not in _UNMARKABLE]
    return [*markable, *prefix[-1:]]


def _lives_long(ttl: object) -> bool:
    """Whether a breakpoint needs the API's lifetime of one hour instead of five minutes."""
    return isinstance(ttl, str) and ttl not in ("", "5m")


def _control(long: bool) -> JsonObject:
    return {"type": "ephemeral", "ttl": _LONG} if long else {"type": "ephemeral"}
