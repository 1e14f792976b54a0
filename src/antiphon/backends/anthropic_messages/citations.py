"""Citations, as the Responses API has them."""

from typing import cast

from antiphon.protocol.content import JsonObject


def read_citation(wire: object, start: int, end: int) -> JsonObject | None:
    """A citation of the words between `start` and `end`: of a page of the web, or of a document.

    Of a document the place inside it is lost: the Responses API has no field for it.
    """
    if not isinstance(wire, dict):
        return None
    members = cast("JsonObject", wire)
    match members.get("type"):
        case "web_search_result_location":
            return _of_page(members.get("url"), members.get("title"), start, end)
        case "search_result_location":
            return _of_page(members.get("source"), members.get("title"), start, end)
        case "page_location" | "char_location" | "content_block_location":
            title, file_id = members.get("document_title"), members.get("file_id")
            return {"type": "file_citation", "file_id": file_id or "", "filename": title or "", "index": end}
        case _:
            return None


def _of_page(url: object, title: object, start: int, end: int) -> JsonObject:
    return {
        "type": "url_citation",
        "url": url or "",
        "title": title or "",
        "start_index": start,
        "end_index": end,
    }
