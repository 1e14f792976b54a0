"""How long a PDF file takes until it is text, by the function that the child process of a server runs.

    python -m bench.documents [--repeat 5] [--check]

The pages have 400 words of this project's documentation each. Starting the child and passing the file to it
are not measured. The median of the repetitions is shown.
"""

import argparse
import re
import sys
import time
from statistics import median

import msgspec
from tests.documents.pdf_file import pdf_file

from antiphon.documents.reading import ReadFault, ReadJob, ReadResult, read_encoded
from bench.bounds import Row, add_check, print_table
from bench.processes import ROOT

WORDS_PER_PAGE = 400
WORDS_PER_LINE = 10
SHORT_PAGES = 100
MAX_SECONDS = 0.5
"""For the short file."""
LONG_PAGES = 300
_RESULTS = msgspec.msgpack.Decoder(ReadResult | ReadFault)


def pdf_of(pages: int) -> bytes:
    """A PDF file with so many pages of prose."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))]
    prose = re.findall(r"[A-Za-z]+[.,]?", " ".join(texts))

    def lines(page: int) -> str:
        first = page * WORDS_PER_PAGE % (len(prose) - WORDS_PER_PAGE)
        words = prose[first : first + WORDS_PER_PAGE]
        starts = range(0, len(words), WORDS_PER_LINE)
        return ") Tj 0 -14 Td (".join(" ".join(words[start : start + WORDS_PER_LINE]) for start in starts)

    return pdf_file(*map(lines, range(pages)))


def seconds_to_text(pages: int, repetitions: int) -> float:
    """The median time; every page must have text."""
    job = msgspec.msgpack.encode(ReadJob(pdf_of(pages), "pages.pdf"))
    seconds: list[float] = []
    for _ in range(repetitions):
        began = time.perf_counter()
        encoded = read_encoded(job)
        seconds.append(time.perf_counter() - began)
        result = _RESULTS.decode(encoded)
        if isinstance(result, ReadFault) or len(result.document.sections) != pages:
            raise RuntimeError(f"the file of {pages} pages was not read: {result!r:.500}")
    return median(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.documents")
    parser.add_argument("--repeat", type=int, default=5, help="how often each file is read (5)")
    add_check(parser)
    options = parser.parse_args()
    seconds_to_text(1, 1)  # imports the parser
    short = seconds_to_text(SHORT_PAGES, options.repeat)
    long = seconds_to_text(LONG_PAGES, options.repeat)
    rows = [
        Row(f"a PDF file of {SHORT_PAGES} pages is text after", short, "s", bound=MAX_SECONDS, digits=2),
        Row(f"a PDF file of {LONG_PAGES} pages is read at", LONG_PAGES / long, "pages/s", digits=0),
    ]
    return print_table(rows, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
