"""The tool `file_search` on the wire: its declaration, parsed with the path of every member."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, to_builtins

from antiphon.errors import InvalidRequest
from antiphon.protocol.attribute_filters import parse_filter
from antiphon.protocol.content import JsonObject
from antiphon.protocol.parse import convert

FILE_SEARCH = "file_search"
DEFAULT_RESULTS = 20
"""Of the tool. The endpoint of a store has another default."""
MAX_STORES = 16
"""Vector stores of one tool. OpenAI takes fewer."""

Weight = Annotated[float, Meta(ge=0)]


class HybridSearch(Struct, frozen=True):
    """How much the similarity of vectors and the match of words count."""

    embedding_weight: Weight
    text_weight: Weight


class FileRanking(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """How results are ordered, and the least score of a result. Responses always contain the first two."""

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: Annotated[float, Meta(ge=0, le=1)] = 0
    hybrid_search: HybridSearch | None = None


class FileSearchTool(Struct, frozen=True, kw_only=True):
    """A declared `file_search`; `filters` was checked."""

    vector_store_ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_STORES)]
    filters: Any = None
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: FileRanking | None = None


def parse_file_search(body: JsonObject, path: str) -> FileSearchTool:
    """Parse a declaration. Raises `InvalidRequest` with the path of the member."""
    tool = convert(body, FileSearchTool, path)
    for index, store_id in enumerate(tool.vector_store_ids):
        if not store_id:
            where = f"{path}.vector_store_ids[{index}]"
            raise InvalidRequest(f"'{where}' is empty; name a vector store.", param=where)
    parse_filter(tool.filters, f"{path}.filters")
    hybrid = None if tool.ranking_options is None else tool.ranking_options.hybrid_search
    if hybrid is not None and not hybrid.embedding_weight and not hybrid.text_weight:
        where = f"{path}.ranking_options.hybrid_search"
        message = f"Invalid value for '{where}': at least one of the weights must be above 0."
        raise InvalidRequest(message, param=where, code="invalid_value")
    return tool


def complete_declaration(tool: FileSearchTool) -> JsonObject:
    """The declaration with the defaults, as responses contain it."""
    ranking: JsonObject = to_builtins(tool.ranking_options or FileRanking())
    if ranking["hybrid_search"] is None:
        del ranking["hybrid_search"]
    return {
        "type": FILE_SEARCH,
        "filters": tool.filters,
        "max_num_results": tool.max_num_results or DEFAULT_RESULTS,
        "ranking_options": ranking,
        "vector_store_ids": tool.vector_store_ids,
    }


def short_declaration(body: JsonObject) -> JsonObject:
    """A complete declaration without the members that have their defaults, for servers that may have others,
    or do not know all of them."""
    default = complete_declaration(FileSearchTool(vector_store_ids=[]))
    kept = ("type", "vector_store_ids")
    return {name: value for name, value in body.items() if name in kept or value != default.get(name)}
