"""Summaries of responses and conversations: values of lists, trees and statistics, and the port of them."""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from antiphon.protocol.content import Metadata
from antiphon.protocol.response import Response
from antiphon.store.base import Page

MAX_TREE_NODES = 2000
MAX_TEXT_CANDIDATES = 2000
"""How many of the newest responses that match the other filters a search for text looks at."""
MAX_UNFINISHED = 500
"""The most unfinished responses that a list begins with."""
MAX_USAGE_ROWS = 10_000

Order = Literal["asc", "desc"]


class ResponseFilter(Struct, frozen=True, kw_only=True):
    """Which responses a list shows. None: any."""

    status: str | None = None
    model: str | None = None
    key_id: str | None = None
    tool: str | None = None
    conversation: str | None = None
    background: bool | None = None
    created_after: int | None = None
    created_before: int | None = None
    text: str | None = None
    """A part of a preview or of the id; upper and lower case of ASCII are the same."""


class ResponseSummary(Struct, frozen=True, kw_only=True):
    """A response without its items. `response` has no output."""

    response: Response
    parent: str | None
    conversation: str | None
    background: bool
    key_id: str | None
    tools: tuple[str, ...]
    input_preview: str
    output_preview: str
    first_token_ms: int | None
    total_ms: int | None
    upstream: str | None
    trace: bool
    forks: int


class SummaryPage(Struct, frozen=True):
    """A part of a list of summaries, and whether more follow in the requested order."""

    summaries: Sequence[ResponseSummary]
    has_more: bool


class TreeNode(Struct, frozen=True, kw_only=True):
    """A response in the tree of its chain."""

    id: str
    parent: str | None
    status: str
    model: str | None
    created_at: int
    input_tokens: int | None
    output_tokens: int | None
    total_ms: int | None
    compaction: bool
    input_preview: str
    output_preview: str


class Tree(Struct, frozen=True):
    """The responses that share a history with one; `truncated`: there are more than are shown."""

    root: str
    conversation: str | None
    truncated: bool
    nodes: Sequence[TreeNode]


class ConversationSummary(Struct, frozen=True, kw_only=True):
    """A conversation without its items."""

    id: str
    created_at: int
    metadata: Metadata
    response_count: int
    last_active_at: int


class ConversationPage(Struct, frozen=True):
    """A part of a list of conversations, and whether more follow in the requested order."""

    conversations: Sequence[ConversationSummary]
    has_more: bool


class Percentiles(Struct, frozen=True):
    """Of milliseconds; None if there is no value."""

    p50: int | None
    p95: int | None
    p99: int | None


class UsageBucket(Struct, frozen=True, kw_only=True):
    """Sums of the responses of one group that were created in one span of time."""

    start: int
    model: str | None
    key_id: str | None
    upstream: str | None
    responses: int
    errors: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    tool_calls: int
    first_token_ms: Percentiles
    total_ms: Percentiles


class UsageQuery(Struct, frozen=True, kw_only=True):
    """The span of time [start, end), the length of a bucket in seconds, and what they are grouped by."""

    start: int
    end: int
    bucket: int
    by_model: bool = False
    by_key: bool = False
    by_upstream: bool = False


class Found(Struct, frozen=True):
    """What an id names, and its response if that is something else."""

    kind: str
    response_id: str | None = None


class StoredTrace(Struct, frozen=True):
    """A sealed trace, and the request that has created its response."""

    sealed: bytes
    request_id: str | None


class SummaryStore(Protocol):
    """Lists, trees and statistics. Nothing here reads items, except for compactions."""

    async def responses(self, tenant: str, wanted: ResponseFilter, page: Page) -> SummaryPage:
        """A page of responses; in descending order unfinished ones first, then the newest."""
        ...

    async def tree(self, tenant: str, response_id: str) -> Tree:
        """The responses that share a history with this one."""
        ...

    async def conversations(self, tenant: str, page: Page) -> ConversationPage:
        """A page of conversations, by the time of their creation."""
        ...

    async def usage(self, tenant: str, query: UsageQuery) -> Sequence[UsageBucket]:
        """Sums of what is stored. Responses of versions before these columns do not count."""
        ...

    async def of_request(self, tenant: str, request_id: str) -> str | None:
        """The response that a request has created."""
        ...

    async def of_item(self, tenant: str, item_id: str) -> str | None:
        """The response of an item."""
        ...

    async def trace(self, tenant: str, response_id: str) -> StoredTrace:
        """The sealed trace of a response. Raises `NotFound` if none was recorded."""
        ...
