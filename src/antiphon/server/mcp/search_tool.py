"""The tool `search_vector_store`."""

from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.caller import READ
from antiphon.protocol.ids import VECTOR_STORE_ID
from antiphon.protocol.parse import decode
from antiphon.protocol.requests import Id
from antiphon.protocol.vector_stores import parse_search
from antiphon.server.mcp.tool import McpTool, ToolCall, ToolResult, object_schema, text_schema
from antiphon.service.vector_stores.objects import search_result
from antiphon.service.vector_stores.passages import Passage, PassageSearch
from antiphon.service.vector_stores.search import passage_query


class _Search(Struct, forbid_unknown_fields=True, omit_defaults=True):
    vector_store_id: Id
    query: str
    max_num_results: int | UnsetType | None = UNSET


class _Body(Struct, omit_defaults=True):
    query: str
    max_num_results: int | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class SearchTool:
    """Finds passages."""

    search: PassageSearch

    def tool(self) -> McpTool:
        return McpTool(
            name="search_vector_store",
            title="Search a vector store",
            description="Find the passages of the files of a vector store that fit a question best.",
            inputs=object_schema(
                {
                    "vector_store_id": text_schema("The store; begins with vs_."),
                    "query": text_schema("The question, or some words.", minLength=1),
                    "max_num_results": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
                },
                ("vector_store_id", "query"),
            ),
            outputs=object_schema(
                {
                    "passages": {
                        "type": "array",
                        "items": object_schema(
                            {
                                "text": text_schema("The passage."),
                                "filename": text_schema("The file that it is from."),
                                "file_id": text_schema("The id of the file."),
                                "score": {"type": "number", "description": "From 0 to 1."},
                                "attributes": {"type": "object", "description": "Of the file."},
                            },
                            ("text", "filename", "file_id", "score", "attributes"),
                        ),
                    }
                },
                ("passages",),
            ),
            run=self.run,
            scope=READ,
            stateful=True,
            read_only=True,
        )

    async def run(self, call: ToolCall) -> ToolResult:
        """Search, as `POST /v1/vector_stores/{id}/search` does."""
        wanted = decode(call.arguments, _Search, "The arguments")
        VECTOR_STORE_ID.check(wanted.vector_store_id)
        body = msgspec.json.encode(_Body(wanted.query, wanted.max_num_results))
        query = passage_query(parse_search(body))
        found = await self.search.search(call.caller.tenant, [wanted.vector_store_id], query)
        texts = tuple(map(_shown, found)) or ("No passage was found.",)
        passages = [
            {
                "text": passage.text,
                "filename": passage.filename,
                "file_id": passage.file_id,
                "score": search_result(passage).score,
                "attributes": dict(passage.attributes),
            }
            for passage in found
        ]
        return ToolResult(texts, {"passages": passages})


def _shown(passage: Passage) -> str:
    place = f", {passage.label}" if passage.label else ""
    return f"[{passage.filename}{place}]\n{passage.text}"
