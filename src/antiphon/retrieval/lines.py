"""The lines of a text, and blocks of lines, merged and split to the size of a chunk."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

TARGET_LINES = 60
TARGET_CHARS = 2_500
SCRAP_LINES = 10
SCRAP_CHARS = 400
MAX_LINES = 120
MAX_CHARS = 5_000
"""Also for a single line: the rest is neither indexed nor shown."""


class Block(Struct, frozen=True):
    """A range of lines. They count from 1; the end is included."""

    start: int
    end: int
    symbol: str = ""
    symbol_type: str = ""


class Lines:
    """A text, line by line. `\\n`, `\\r\\n` and `\\r` end a line."""

    def __init__(self, text: str) -> None:
        self.all = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        lengths = (min(len(line), MAX_CHARS) + 1 for line in self.all)
        self._before = list(accumulate(lengths, initial=0))

    def __len__(self) -> int:
        return len(self.all)

    def is_blank(self, number: int) -> bool:
        return not self.all[number - 1].strip()

    def text(self, block: Block) -> str:
        """The lines of a block, each cut to the limit."""
        return "\n".join(line[:MAX_CHARS] for line in self.all[block.start - 1 : block.end])

    def is_small(self, start: int, end: int) -> bool:
        """Whether these lines fit the target size of a chunk."""
        return end - start < TARGET_LINES and self._characters(start, end) <= TARGET_CHARS

    def trimmed(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The blocks without surrounding blank lines; blank blocks are dropped."""
        for block in blocks:
            start, end = block.start, block.end
            while start <= end and self.is_blank(start):
                start += 1
            while end > start and self.is_blank(end):
                end -= 1
            if start <= end:
                yield replace(block, start=start, end=end)

    def packed(self, blocks: Iterable[Block]) -> list[Block]:
        """Merge neighbours of the same symbol while they are small together."""
        return _merged(blocks, lambda one, other: self.is_small(one.start, other.end))

    def split(self, block: Block) -> list[Block]:
        """Split a block to the right size: at blank lines, and within a paragraph only if necessary."""
        if self.is_small(block.start, block.end):
            return [block]
        return self.packed(
            piece for paragraph in self._paragraphs(block) for piece in self._pieces(paragraph)
        )

    def without_scraps(self, blocks: Iterable[Block]) -> list[Block]:
        """Merge scraps, such as the sentence before a long table, with a neighbour of the same symbol."""
        return _merged(blocks, self._one_is_a_scrap)

    def _one_is_a_scrap(self, one: Block, other: Block) -> bool:
        has_scrap = any(
            block.end - block.start < SCRAP_LINES and self._characters(block.start, block.end) <= SCRAP_CHARS
            for block in (one, other)
        )
        return has_scrap and self._is_possible(one.start, other.end)

    def _paragraphs(self, block: Block) -> Iterator[Block]:
        start = block.start
        for number in range(block.start, block.end + 1):
            if self.is_blank(number):
                yield from self.trimmed([replace(block, start=start, end=number)])
                start = number + 1
        yield from self.trimmed([replace(block, start=start)])

    def _pieces(self, paragraph: Block) -> Iterator[Block]:
        """The paragraph; a long one in groups of lines of the target size."""
        start, end = paragraph.start, paragraph.end
        if not self._is_possible(start, end):
            for number in range(start + 1, end + 1):
                if not self.is_small(start, number):
                    yield replace(paragraph, start=start, end=number - 1)
                    start = number
        yield replace(paragraph, start=start)

    def _is_possible(self, start: int, end: int) -> bool:
        return end - start < MAX_LINES and self._characters(start, end) <= MAX_CHARS

    def _characters(self, start: int, end: int) -> int:
        return self._before[end] - self._before[start - 1] - 1


def _merged(blocks: Iterable[Block], belong_together: Callable[[Block, Block], bool]) -> list[Block]:
    merged: list[Block] = []
    for block in blocks:
        last = merged[-1] if merged else None
        if last and _alike(last, block) and belong_together(last, block):
            merged[-1] = replace(last, end=block.end)
        else:
            merged.append(block)
    return merged


def _alike(one: Block, other: Block) -> bool:
    return (one.symbol, one.symbol_type) == (other.symbol, other.symbol_type)
