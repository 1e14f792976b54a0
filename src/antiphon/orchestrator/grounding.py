"""The context shown to the model besides the instruction: retrieved chunks (AGN-002), then active files."""

from collections.abc import Sequence

from msgspec import Struct

from antiphon.orchestrator.blocks import build_rag_context_block
from antiphon.orchestrator.file_tools import active_files_block
from antiphon.orchestrator.models import Limits, SourceRef
from antiphon.orchestrator.resolution import Plan
from antiphon.retrieval.base import RagChunk, Retriever


class Grounding(Struct, frozen=True):
    """The block for the user message, the sources of its chunks, and warnings about omissions."""

    block: str = ""
    sources: tuple[SourceRef, ...] = ()
    warnings: tuple[str, ...] = ()


async def ground(plan: Plan, retriever: Retriever | None, limits: Limits) -> Grounding:
    """Retrieve context for the instruction; a request with results only needs none."""
    query = (plan.request.instruction or "").strip()
    if not query:
        return Grounding()
    found: Sequence[RagChunk] = ()
    if retriever is not None and plan.mode.retrieves:
        found = await retriever.retrieve(query, scope=plan.scope, limit=limits.chunks)
    shown = _within(found, limits.max_context)
    context, files = build_rag_context_block(shown), active_files_block(plan.request, limits.max_context)
    return Grounding(
        block="\n".join(block for block in (context, files.text) if block),
        sources=tuple(map(_source, shown)),
        warnings=(*_left_out(len(found) - len(shown)), *_files_left_out(files.left_out)),
    )


def _within(chunks: Sequence[RagChunk], limit: int) -> Sequence[RagChunk]:
    """The best chunks that fit together."""
    size = 0
    for index, chunk in enumerate(chunks):
        size += len(chunk.text)
        if size > limit:
            return chunks[:index]
    return chunks


def _source(chunk: RagChunk) -> SourceRef:
    return SourceRef(
        tag=chunk.id,
        path=chunk.path,
        file_name=chunk.path.rpartition("/")[2],
        start=chunk.start_line,
        end=chunk.end_line,
        symbol=chunk.symbol or None,
        symbol_type=chunk.symbol_type or None,
    )


def _left_out(count: int) -> list[str]:
    return [f"The context is truncated: {count} of the chunks found did not fit into it."] if count else []


def _files_left_out(paths: Sequence[str]) -> list[str]:
    return [f"The context is truncated: the active file '{path}' is too long for it." for path in paths]
