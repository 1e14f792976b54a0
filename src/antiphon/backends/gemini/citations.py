"""Sources of an answer that its server searched for, as the Responses API has them."""

from typing import Any, cast

from antiphon.protocol.content import JsonObject


def read_citations(grounding: object, text: str) -> list[JsonObject]:
    """The pages that pieces of the text rest on. The API counts their places in bytes, we in characters."""
    sources = [
        _object(_object(chunk).get("web")) for chunk in _list(_object(grounding).get("groundingChunks"))
    ]
    written = text.encode()
    found: list[JsonObject] = []
    for support in map(_object, _list(_object(grounding).get("groundingSupports"))):
        segment = _object(support.get("segment"))
        start, end = (_characters(written, segment.get(name)) for name in ("startIndex", "endIndex"))
        for index in _list(support.get("groundingChunkIndices")):
            if isinstance(index, int) and 0 <= index < len(sources) and sources[index].get("uri"):
                found.append(_citation(sources[index], start, end))
    return found


def _citation(source: JsonObject, start: int, end: int) -> JsonObject:
    return {
        "type": "url_citation",
        "url": source["uri"],
        "title": source.get("title") or "",
        "start_index": start,
        "end_index": end,
    }


def _characters(written: bytes, count: object) -> int:
    return len(written[: count if isinstance(count, int) else 0].decode(errors="ignore"))


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
