"""Hosted tools of requests, and the input items that belong to them."""

import base64
import random
from collections.abc import Callable
from typing import Any

from tests.fuzz.pool import MCP_APPROVAL, Pool

JsonObject = dict[str, Any]
INCLUDES = (
    "file_search_call.results",
    "web_search_call.action.sources",
    "code_interpreter_call.outputs",
)
CODE_CHANCE = 0.1
"""Code runs in a sandbox, which takes longer than everything else."""
SERVER_LABEL = "sums"
"""The MCP server of the settings."""
REFUSED_URL = "http://127.0.0.1:9/mcp"


class Hosted:
    """Draws hosted tools, files and approvals."""

    def __init__(self, rng: random.Random, pool: Pool) -> None:
        self._rng = rng
        self._pool = pool

    def tools(self) -> JsonObject:
        """One or two hosted tools, and what to include of them."""
        rng = self._rng
        kinds: list[Callable[[], JsonObject]] = [
            self._file_search,
            self._web_search,
            self._image_generation,
            self._mcp,
        ]
        tools = [make() for make in rng.sample(kinds, rng.randrange(1, 3))]
        if rng.random() < CODE_CHANCE:
            tools.append(self._code_interpreter())
        return {
            "tools": tools,
            **self._maybe(0.5, include=list(rng.sample(INCLUDES, 2))),
            **self._maybe(0.3, max_tool_calls=rng.choice((1, 3)), parallel_tool_calls=False),
        }

    def approval(self) -> JsonObject:
        """A continuation that answers a request for an approval."""
        response, request = self._pool.related(MCP_APPROVAL)
        answer = {
            "type": "mcp_approval_response",
            "approval_request_id": request,
            "approve": self._rng.random() < 0.8,
            **self._maybe(0.3, reason="Because."),
        }
        return {"previous_response_id": response, "input": [answer], "tools": [self._mcp()]}

    def part(self) -> JsonObject:
        """A content part with a file."""
        data = base64.b64encode(b"A text.").decode()
        return self._rng.choice(
            (
                {"type": "input_file", "file_id": self._pool.one("file")},
                {"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{data}"},
                {"type": "input_image", "file_id": self._pool.one("file"), "detail": "low"},
            )
        )

    def _file_search(self) -> JsonObject:
        filters = {"type": "eq", "key": "kind", "value": "x"}
        ranking = {"ranker": "auto", "score_threshold": 0.1}
        return {
            "type": "file_search",
            "vector_store_ids": [self._pool.one("vs")],
            **self._maybe(0.3, max_num_results=3, ranking_options=ranking),
            **self._maybe(0.3, filters=filters),
        }

    def _web_search(self) -> JsonObject:
        place = {"type": "approximate", "country": "FR", "city": "Paris"}
        return {
            "type": self._rng.choice(("web_search", "web_search_preview")),
            **self._maybe(0.3, search_context_size="low", user_location=place),
            **self._maybe(0.2, filters={"allowed_domains": ["sky.example"]}),
        }

    def _image_generation(self) -> JsonObject:
        return {"type": "image_generation", **self._maybe(0.5, size="1024x1024", partial_images=1)}

    def _mcp(self) -> JsonObject:
        rng = self._rng
        where = {} if rng.random() < 0.8 else {"server_url": REFUSED_URL, "authorization": "token"}
        approval = rng.choice(("always", "never", {"never": {"tool_names": ["add"]}}))
        return {
            "type": "mcp",
            "server_label": "other" if where else SERVER_LABEL,
            **where,
            "require_approval": approval,
            **self._maybe(0.3, allowed_tools=rng.choice((["add"], {"tool_names": ["add", "count"]}))),
            **self._maybe(0.2, defer_loading=True, server_description="Adds."),
        }

    def _code_interpreter(self) -> JsonObject:
        auto = {"type": "auto", **self._maybe(0.3, file_ids=[self._pool.one("file")], memory_limit="1g")}
        return {
            "type": "code_interpreter",
            "container": auto if self._rng.random() < 0.7 else self._pool.one("cntr"),
        }

    def _maybe(self, chance: float, **members: Any) -> JsonObject:
        return members if self._rng.random() < chance else {}
