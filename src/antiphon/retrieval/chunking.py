"""Files cut into chunks, sans-IO. Every line that is not blank stands in exactly one chunk, in order."""

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from pathlib import PurePosixPath

from antiphon.retrieval import outline
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.languages import PLAIN, language_of
from antiphon.retrieval.lines import Block, Lines

_OUTLINES: dict[str, Callable[[Lines], list[Block]]] = {
    "markdown": outline.sections,
    "python": outline.definitions,
    PLAIN: outline.whole,
}


def cut(path: str, text: str) -> list[RagChunk]:
    """The chunks of a file. Its path is relative, with forward slashes.

    An id is the path and a digest of what the chunk says. So it stays while lines above change, and never
    means another text.
    """
    language = language_of(path)
    is_paged = PurePosixPath(path).suffix.lower() == ".pdf"
    find = outline.pages if is_paged else _OUTLINES.get(language, outline.top_level)
    lines = Lines(text)
    blocks = lines.packed(lines.trimmed(find(lines)))
    pieces = lines.without_scraps(piece for block in blocks for piece in lines.split(block))
    seen: Counter[str] = Counter()
    chunks: list[RagChunk] = []
    for block in pieces:
        content = lines.text(block)
        name = f"{path}#{_digest(block.symbol, content)}"
        seen[name] += 1
        chunks.append(
            RagChunk(
                id=name if seen[name] == 1 else f"{name}-{seen[name]}",
                path=path,
                start_line=block.start,
                end_line=block.end,
                language=language,
                text=content,
                symbol=block.symbol,
                symbol_type=block.symbol_type,
            )
        )
    return chunks


def _digest(symbol: str, content: str) -> str:
    said = f"{symbol}\n{content}".encode(errors="replace")
    return blake2b(said, digest_size=5).hexdigest()
