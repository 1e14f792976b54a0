"""Finds where a text may be cut: Markdown sections, Python definitions, top-level blocks, pages."""

import ast
import re
from collections.abc import Iterator, Sequence

from antiphon.documents.document import PAGE_BREAK, Section
from antiphon.retrieval.lines import Block, Lines

MAX_PARSED_CHARS = 100_000
"""Longer Python files are cut like any other code, because the parser holds the interpreter lock."""
MAX_SYMBOL_CHARS = 200
SEPARATOR = " > "

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CLOSERS = (" ", "\t", "}", ")", "]")

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def undivided(lines: Lines) -> list[Block]:
    """The text as one block."""
    return [Block(1, len(lines))]


def sections(lines: Lines) -> list[Block]:
    """One block per Markdown heading, named by the headings above it.

    A heading without text of its own is joined with the next one.
    """
    blocks: list[Block] = []
    trail: list[tuple[int, str]] = []
    start = 1
    for number, level, title in headings(lines.all):
        if any(not lines.is_blank(at) for at in range(start + bool(trail), number)):
            blocks.append(_section(start, number - 1, trail))
            start = number
        trail = [(depth, name) for depth, name in trail if depth < level] + [(level, title)]
    return [*blocks, _section(start, len(lines), trail)]


def _section(start: int, end: int, trail: Sequence[tuple[int, str]]) -> Block:
    if not trail:
        return Block(start, end)
    return Block(start, end, SEPARATOR.join(title for _, title in trail)[:MAX_SYMBOL_CHARS], "section")


def headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Number, level and title of each heading outside of fenced code."""
    fence = ""
    for number, line in enumerate(lines, 1):
        found = _FENCE.match(line)
        if fence:
            # A closing fence is at least as long as the opening one, and alone on its line.
            if found and found[1].startswith(fence) and not line[found.end() :].strip():
                fence = ""
        elif found:
            fence = found[1]
        elif heading := _HEADING.match(line):
            yield number, len(heading[1]), _title(line[heading.end() :].strip())


def _title(title: str) -> str:
    """Without the closing characters of a heading: `## Title ##`."""
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else title


def definitions(lines: Lines) -> list[Block]:
    """One block per top-level Python definition, per method of a long class, and for the code between."""
    source = "\n".join(lines.all)
    if len(source) > MAX_PARSED_CHARS:
        return top_level(lines)
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: deep nesting
        return top_level(lines)
    return list(_members(lines, module.body, 1, len(lines), Block(1, len(lines))))


def _members(lines: Lines, body: Sequence[ast.stmt], start: int, end: int, outer: Block) -> Iterator[Block]:
    """The lines from start to end, cut after each statement. Lines before a statement belong to it."""
    for node in body:
        last = end if node is body[-1] else (node.end_lineno or node.lineno)
        block = _named(node, start, last, outer)
        if isinstance(node, ast.ClassDef) and not lines.is_small(start, last):
            yield from _members(lines, node.body, start, last, block)
        elif start <= last:
            yield block
        start = last + 1
    if not body:
        yield Block(start, end)


def _named(node: ast.stmt, start: int, end: int, outer: Block) -> Block:
    if not isinstance(node, _Definition):
        return Block(start, end, outer.symbol, outer.symbol_type)
    if isinstance(node, ast.ClassDef):
        kind = "class"
    else:
        kind = "method" if outer.symbol_type == "class" else "function"
    name = f"{outer.symbol}.{node.name}" if outer.symbol else node.name
    return Block(start, end, name[:MAX_SYMBOL_CHARS], kind)


def top_level(lines: Lines) -> list[Block]:
    """Blocks of code in any language: a block starts at an unindented line after a blank one."""
    starts = [
        number
        for number in range(2, len(lines) + 1)
        if lines.is_blank(number - 1)
        and not lines.is_blank(number)
        and not lines.all[number - 1].startswith(_CLOSERS)
    ]
    ends = [start - 1 for start in starts]
    return [Block(start, end) for start, end in zip([1, *starts], [*ends, len(lines)], strict=True)]


def labelled(lines: Lines, sections: Sequence[Section]) -> list[Block]:
    """One block per section of a document; page breaks separate them."""
    breaks = [number for number, line in enumerate(lines.all, 1) if line == PAGE_BREAK]
    starts, ends = [1, *(at + 1 for at in breaks)], [*(at - 1 for at in breaks), len(lines)]
    return [
        Block(start, end, section.label[:MAX_SYMBOL_CHARS], section.type or "")
        for start, end, section in zip(starts, ends, sections, strict=True)
    ]
