"""Vector stores on the wire: the objects, and the checks of what a client sends."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.errors import InvalidRequest
from antiphon.protocol.attribute_filters import Attribute, Filter, parse_filter
from antiphon.protocol.content import Metadata
from antiphon.protocol.large_body import Body
from antiphon.protocol.parse import check_metadata, decode

MAX_ATTRIBUTES = 16
MAX_BATCH_FILES = 2000
MAX_STORE_FILES = 100
"""Of the `file_ids` of a new store; a batch takes more."""
MAX_QUERIES = 32
DEFAULT_CHUNK_TOKENS, DEFAULT_OVERLAP_TOKENS = 800, 400

FileStatus = Literal["in_progress", "completed", "cancelled", "failed"]
Ranker = Literal["none", "auto", "default-2024-11-15"]
Attributes = dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)] | float | bool]


class Chunking(Struct, frozen=True):
    """How a file is cut: the tokens of a chunk, and how many of them the next one repeats."""

    max_chunk_size_tokens: Annotated[int, Meta(ge=100, le=4096)]
    chunk_overlap_tokens: Annotated[int, Meta(ge=0)]


class StaticChunking(Struct, frozen=True, tag="static"):
    """A chunking strategy that the client chose, or that `auto` stands for."""

    static: Chunking


class AutoChunking(Struct, frozen=True, tag="auto"):
    """The default strategy."""


Strategy = StaticChunking | AutoChunking
DEFAULT_CHUNKING = StaticChunking(Chunking(DEFAULT_CHUNK_TOKENS, DEFAULT_OVERLAP_TOKENS))


class FileCounts(Struct, frozen=True):
    """The files of a store or of a batch, by their status."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    total: int = 0


class StoreExpiry(Struct, frozen=True):
    """A store expires so many days after it was used last."""

    anchor: Literal["last_active_at"]
    days: Annotated[int, Meta(ge=1, le=365)]


class VectorStoreObject(Struct, frozen=True, kw_only=True):
    """A vector store."""

    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str | None
    description: str | None = None
    usage_bytes: int
    file_counts: FileCounts
    status: Literal["expired", "in_progress", "completed"]
    expires_after: StoreExpiry | None
    expires_at: int | None
    last_active_at: int
    metadata: Metadata


class FileError(Struct, frozen=True):
    """Why a file could not be added."""

    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str


class StoreFileObject(Struct, frozen=True, kw_only=True):
    """A file of a vector store; its id is that of the file."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    usage_bytes: int
    created_at: int
    vector_store_id: str
    status: FileStatus
    last_error: FileError | None
    chunking_strategy: StaticChunking
    attributes: dict[str, Attribute]


class FileBatchObject(Struct, frozen=True, kw_only=True):
    """Files that were added together."""

    id: str
    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    created_at: int
    vector_store_id: str
    status: Literal["in_progress", "completed", "cancelled", "failed"]
    file_counts: FileCounts


class FoundText(Struct, frozen=True, kw_only=True):
    """The text of a chunk."""

    type: Literal["text"] = "text"
    text: str


class SearchScores(Struct, frozen=True, kw_only=True):
    """The match of words, the similarity of meaning, and the score that is made of both."""

    text: float
    vector: float
    mixed: float


class SearchResult(Struct, frozen=True, kw_only=True):
    """A chunk that a search found."""

    file_id: str
    filename: str
    score: float
    scores: SearchScores
    attributes: dict[str, Attribute]
    content: list[FoundText]


class NewStore(Struct, frozen=True, kw_only=True):
    """The body that creates a store."""

    name: Annotated[str, Meta(max_length=256)] | None = None
    description: Annotated[str, Meta(max_length=1024)] | None = None
    file_ids: Annotated[list[str], Meta(max_length=MAX_STORE_FILES)] | None = None
    chunking_strategy: Strategy | None = None
    expires_after: StoreExpiry | None = None
    metadata: Metadata | None = None


class StoreChange(Struct, frozen=True, kw_only=True):
    """The body that changes a store. A member that is absent stays as it is; null removes it."""

    name: Annotated[str, Meta(max_length=256)] | UnsetType | None = UNSET
    expires_after: StoreExpiry | UnsetType | None = UNSET
    metadata: Metadata | UnsetType | None = UNSET


class NewStoreFile(Struct, frozen=True, kw_only=True):
    """A file to add."""

    file_id: str
    attributes: Attributes | None = None
    chunking_strategy: Strategy | None = None

    @property
    def chunking(self) -> StaticChunking:
        """The strategy that is used; `auto` is the default one."""
        return (
            self.chunking_strategy if isinstance(self.chunking_strategy, StaticChunking) else DEFAULT_CHUNKING
        )


class NewBatch(Struct, frozen=True):
    """Files to add together. `param` is the path of a file's id, with a place for its number."""

    files: tuple[NewStoreFile, ...]
    param: str


class RankingOptions(Struct, frozen=True):
    """How results are ordered, and the least score of a result."""

    ranker: Ranker = "auto"
    score_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.0


class Search(Struct, frozen=True, kw_only=True):
    """A search: results of all queries together, best first."""

    queries: tuple[str, ...]
    filter: Filter | None = None
    max_num_results: int = 10
    ranking: RankingOptions = RankingOptions()
    rewrite_query: bool = False


class _RawBatch(Struct, frozen=True, kw_only=True):
    file_ids: list[str] | None = None
    files: list[NewStoreFile] | None = None
    attributes: Attributes | None = None
    chunking_strategy: Strategy | None = None


class _RawAttributes(Struct, frozen=True):
    attributes: Attributes | None


class _RawSearch(Struct, frozen=True, kw_only=True):
    query: str | list[str]
    filters: Any = None
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None
    rewrite_query: bool | None = None


def parse_new_store(body: bytes) -> NewStore:
    """Parse the body that creates a store; it may be empty."""
    new = decode(body or b"{}", NewStore)
    check_metadata(new.metadata)
    _check_chunking(new.chunking_strategy, "chunking_strategy")
    if new.chunking_strategy is not None and not new.file_ids:
        message = "'chunking_strategy' applies to the files of 'file_ids', and there are none."
        raise InvalidRequest(message, param="chunking_strategy", code="invalid_value")
    return new


def parse_store_change(body: bytes) -> StoreChange:
    """Parse the body that changes a store."""
    change = decode(body or b"{}", StoreChange)
    check_metadata(None if isinstance(change.metadata, UnsetType) else change.metadata)
    return change


def parse_store_file(body: bytes) -> NewStoreFile:
    """Parse the body that adds a file."""
    new = decode(body, NewStoreFile)
    _check_file(new, "")
    return new


def parse_file_batch(body: Body) -> NewBatch:
    """Parse the body that adds many files. Each one is given once; attributes and strategy beside `file_ids`
    are those of all files."""
    raw = decode(body, _RawBatch)
    if (raw.file_ids is None) is (raw.files is None):
        message = "Send either 'file_ids' or 'files'."
        raise InvalidRequest(message, param="file_ids", code="mutually_exclusive_parameters")
    if raw.files is not None:
        files, name, param = tuple(raw.files), "files", "files[{}].file_id"
    else:
        files = tuple(
            NewStoreFile(file_id=each, attributes=raw.attributes, chunking_strategy=raw.chunking_strategy)
            for each in raw.file_ids or ()
        )
        name, param = "file_ids", "file_ids[{}]"
    if not 1 <= len(files) <= MAX_BATCH_FILES:
        message = f"Invalid value for '{name}': a batch has from 1 to {MAX_BATCH_FILES} files."
        raise InvalidRequest(message, param=name, code="invalid_value")
    seen: set[str] = set()
    for index, new in enumerate(files):
        _check_file(new, f"files[{index}]." if raw.files is not None else "")
        if new.file_id in seen:
            place = param.format(index)
            raise InvalidRequest(f"'{place}' occurs twice in this batch.", param=place, code="invalid_value")
        seen.add(new.file_id)
    return NewBatch(files, param)


def parse_attributes(body: bytes) -> dict[str, Attribute]:
    """Parse the body that replaces the attributes of a file; null removes all."""
    attributes = decode(body, _RawAttributes).attributes
    _check_attributes(attributes, "attributes")
    return dict(attributes or {})


def parse_search(body: bytes) -> Search:
    """Parse a search."""
    raw = decode(body, _RawSearch)
    queries = (raw.query,) if isinstance(raw.query, str) else tuple(raw.query)
    if not queries or not all(query.strip() for query in queries):
        raise InvalidRequest("'query' is empty; send a question.", param="query", code="invalid_value")
    if len(queries) > MAX_QUERIES:
        message = f"'query' has {len(queries)} texts; at most {MAX_QUERIES} are allowed."
        raise InvalidRequest(message, param="query", code="array_above_max_length")
    return Search(
        queries=queries,
        filter=parse_filter(raw.filters),
        max_num_results=raw.max_num_results or 10,
        ranking=raw.ranking_options or RankingOptions(),
        rewrite_query=raw.rewrite_query is True,
    )


def _check_file(new: NewStoreFile, path: str) -> None:
    _check_attributes(new.attributes, f"{path}attributes")
    _check_chunking(new.chunking_strategy, f"{path}chunking_strategy")


def _check_attributes(attributes: Attributes | None, path: str) -> None:
    if attributes is not None and len(attributes) > MAX_ATTRIBUTES:
        message = f"'{path}' has {len(attributes)} pairs; at most {MAX_ATTRIBUTES} are allowed."
        raise InvalidRequest(message, param=path, code="object_above_max_properties")


def _check_chunking(strategy: Strategy | None, path: str) -> None:
    if not isinstance(strategy, StaticChunking):
        return
    most = strategy.static.max_chunk_size_tokens // 2
    if strategy.static.chunk_overlap_tokens > most:
        param = f"{path}.static.chunk_overlap_tokens"
        message = f"Invalid value for '{param}': at most half of 'max_chunk_size_tokens', which is {most}."
        raise InvalidRequest(message, param=param, code="invalid_value")
