"""Search for deferred tools by the terms in their names, descriptions and parameters.

A term scores higher in a name than in a description, and higher if few tools have it. Terms are compared by
rough stems: "files" finds `read_file`.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import UnsetType
from msgspec.structs import replace

from antiphon.protocol.content import JsonObject
from antiphon.protocol.tools import CustomTool, FunctionTool, NamespaceTool, Tool

DEFAULT_LIMIT = 8
MAX_FOUND_TOOLS = 50
"""Each found tool is shown to the model from then on."""
MAX_QUERY_CHARACTERS = 4_000

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_ENDING = re.compile(r"(?<=[a-z]{3})(?:ies|ing|ed|es|s|e|y)$")
_STOP_WORDS = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "is", "it", "of", "on", "or", "the", "to", "with")
)
_WEIGHTS = (4.0, 2.0, 1.0, 1.0)
"""Of a term in the tool's name, namespace, description and parameters."""


class _Candidate(NamedTuple):
    tool: FunctionTool | CustomTool
    within: NamespaceTool | None
    words: tuple[frozenset[str], ...]


def search_tools(query: str, deferred: Sequence[Tool], limit: int = DEFAULT_LIMIT) -> list[Tool]:
    """The matching tools, best first; those of one namespace together, in a namespace with no others."""
    candidates = [_candidate(tool, within) for tool, within in _each(deferred)]
    wanted = _stems(query[:MAX_QUERY_CHARACTERS])
    rarity = {stem: _rarity(stem, candidates) for stem in wanted}
    scored = [(_score(candidate, rarity), candidate) for candidate in candidates]
    fitting = sorted((entry for entry in scored if entry[0] > 0), key=lambda entry: -entry[0])
    return _grouped(candidate for _, candidate in fitting[: max(1, min(limit, MAX_FOUND_TOOLS))])


def search_limit(arguments: JsonObject) -> int:
    """The number of tools that the model asks for."""
    limit = arguments.get("limit")
    return limit if isinstance(limit, int) and limit > 0 else DEFAULT_LIMIT


def _each(tools: Sequence[Tool]) -> Iterable[tuple[FunctionTool | CustomTool, NamespaceTool | None]]:
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            yield from ((member, tool) for member in tool.tools)
        elif isinstance(tool, FunctionTool | CustomTool):
            yield tool, None


def _candidate(tool: FunctionTool | CustomTool, within: NamespaceTool | None) -> _Candidate:
    parameters = (tool.parameters or {}) if isinstance(tool, FunctionTool) else {}
    properties: object = parameters.get("properties")
    texts = (
        tool.name,
        "" if within is None else f"{within.name} {_text(within.description)}",
        _text(tool.description),
        " ".join(map(str, properties)) if isinstance(properties, dict) else "",  # pyright: ignore[reportUnknownArgumentType] -- only the names are used
    )
    return _Candidate(tool, within, tuple(map(_stems, texts)))


def _text(text: str | UnsetType | None) -> str:
    return text if isinstance(text, str) else ""


def _stems(text: str) -> frozenset[str]:
    words = frozenset(word.lower() for word in _WORD.findall(text)) - _STOP_WORDS
    return frozenset(_ENDING.sub("", word) for word in words)


def _rarity(stem: str, candidates: Sequence[_Candidate]) -> float:
    having = sum(any(stem in words for words in candidate.words) for candidate in candidates)
    return math.log(1 + len(candidates) / having) if having else 0.0


def _score(candidate: _Candidate, rarity: dict[str, float]) -> float:
    return sum(
        weight * worth
        for stem, worth in rarity.items()
        for weight, words in zip(_WEIGHTS, candidate.words, strict=True)
        if stem in words
    )


def _grouped(found: Iterable[_Candidate]) -> list[Tool]:
    members: dict[tuple[type[Tool], str], list[FunctionTool | CustomTool]] = {}
    tools: dict[tuple[type[Tool], str], Tool] = {}
    for candidate in found:
        if candidate.within is None:
            tools[type(candidate.tool), candidate.tool.name] = candidate.tool
        else:
            key = (type(candidate.within), candidate.within.name)
            members.setdefault(key, []).append(candidate.tool)
            tools[key] = replace(candidate.within, tools=members[key])
    return list(tools.values())
