"""Context windows of models, read from the reports of their servers. Sans-IO.

The window that the server uses counts, not the one that the model was trained for: a server with a smaller
one truncates the prompt, or rejects it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import cast

from antiphon.backends.model_reports import ANY, by_name, decode_report, listed_rows
from antiphon.backends.registry import WindowSource

MAX_WINDOW_TOKENS = 2**40
"""No window is larger: a number beyond is a mistake."""

_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,18})\s*$", re.MULTILINE)
Windows = Mapping[str, int]
"""Tokens by model."""


def read_windows(source: WindowSource, body: bytes) -> Windows:
    """The windows of all models in a report."""
    report = decode_report(body)
    match source.form:
        case "object":
            window = _first(report, source.members)
        case "show":
            window = _parameter(report)
        case "list":
            return _listed(report, source.members)
    return {} if window is None else {ANY: window}


def _listed(report: object, members: Iterable[str]) -> Windows:
    rows = listed_rows(report)
    windows = by_name(rows, [_first(row, members) for row in rows])
    # vLLM lists an adapter without a window of its own, but with the model that it belongs to.
    of_parents = by_name(rows, [windows.get(str(row.get("parent"))) for row in rows])
    return {**of_parents, **windows}


def _first(tree: object, members: Iterable[str]) -> int | None:
    return next((found for member in members if (found := _member(tree, member.split(".")))), None)


def _member(tree: object, path: list[str]) -> int | None:
    """The number at the end of a path. `*` is every element of a list, and then the least number counts."""
    if not path:
        return (
            tree
            if isinstance(tree, int) and not isinstance(tree, bool) and 0 < tree < MAX_WINDOW_TOKENS
            else None
        )
    if path[0] == "*":
        return min(filter(None, (_member(inner, path[1:]) for inner in _list(tree))), default=None)
    return _member(cast("dict[str, object]", tree).get(path[0]), path[1:]) if isinstance(tree, dict) else None


def _parameter(answer: object) -> int | None:
    """`num_ctx` among the parameters of a Modelfile."""
    text = cast("dict[str, object]", answer).get("parameters") if isinstance(answer, dict) else None
    found = _NUM_CTX.search(text) if isinstance(text, str) else None
    return _member(int(found[1]), []) if found else None


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
