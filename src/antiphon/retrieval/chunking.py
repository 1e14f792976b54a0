"""Cuts files into chunks. Every line that is not blank is in exactly one chunk, in order. Sans-IO."""

from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import PurePosixPath

from antiphon.documents.document import Document
from antiphon.retrieval import outline
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.lines import Block, Lines

PLAIN = "plaintext"
MARKDOWN = "markdown"

_BY_EXTENSION = {
    ".cs": "csharp",
    ".css": "scss",
    ".go": "go",
    ".htm": "html",
    ".html": "html",
    ".java": "java",
    ".js": "javascript",
    ".json": "json",
    ".markdown": "markdown",
    ".md": "markdown",
    ".py": "python",
    ".pyi": "python",
    ".rs": "rust",
    ".scss": "scss",
    ".sh": "shell",
    ".sql": "sql",
    ".toml": "toml",
    ".ts": "typescript",
    ".tsx": "tsx",
    ".xml": "xml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


def language_of(path: str) -> str:
    """The language of a file, as named after a Markdown fence; `plaintext` if unknown."""
    return _BY_EXTENSION.get(PurePosixPath(path).suffix.lower(), PLAIN)


_OUTLINES: dict[str, Callable[[Lines], list[Block]]] = {
    MARKDOWN: outline.sections,
    "python": outline.definitions,
    PLAIN: outline.undivided,
}


def cut(path: str, text: str) -> list[RagChunk]:
    """The chunks of a file. Its path is relative, with forward slashes.

    An id is the path and a digest of the chunk's text. So it does not change with lines above the chunk, and
    never denotes another text.
    """
    language, lines = language_of(path), Lines(text)
    return _chunks(path, language, lines, _OUTLINES.get(language, outline.top_level)(lines))


def cut_document(path: str, document: Document) -> list[RagChunk]:
    """The same for a document, at its sections; the lines are those of its text."""
    if any(section.label for section in document.sections):
        language, lines = MARKDOWN if document.is_markdown else PLAIN, Lines(document.text)
        return _chunks(path, language, lines, outline.labelled(lines, document.sections))
    if document.is_markdown:
        lines = Lines(document.text)
        return _chunks(path, MARKDOWN, lines, outline.sections(lines))
    return cut(path, document.text)


def _chunks(path: str, language: str, lines: Lines, found: Iterable[Block]) -> list[RagChunk]:
    blocks = lines.packed(lines.trimmed(found))
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
    digested = f"{symbol}\n{content}".encode(errors="replace")
    return blake2b(digested, digest_size=5).hexdigest()
