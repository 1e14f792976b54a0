"""Answers from documents with citations, from an empty folder to the end, on an embedded model.

    python -m bench.cited_answers [--model qwen2.5-coder-1.5b] [--threshold 0]

Writes a PDF, a DOCX and a Markdown file about a company that does not exist, adds them with `antiphon
vector-stores add`, starts a server, and asks one question for each fact, with the tool `file_search` and the
official SDK. An answer is right if it contains the fact and cites the file that has it. Requests that need no
search are sent as well. Prints a transcript, and a table of the shares.

`--threshold` is the `score_threshold` of the tool: with 0 the model sees every passage of these small files.
An embedded model answers from passages without sampling, so these answers change little between runs.
"""

import argparse
import io
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import docx
from openai import OpenAI
from tests.documents.pdf_file import pdf_file
from tests.serving import run_server

STORE = "handbook"
TIMEOUT_SECONDS = 600.0
SHORT_WORDS = 30
"""An answer with more of them repeats a passage: each fact fits into one sentence."""

TRAVEL_PAGES = (
    "Travel policy of Brightwater Ltd. Trains are booked in second class. Flights are allowed for journeys "
    "of more than 700 kilometres.",
    "Meals. The daily allowance for meals on a journey is 34 euros. Receipts for meals are not needed.",
    "Hotels. A hotel room may cost at most 120 euros per night. Bills are sent to travel@bright.example.",
)
ONBOARDING = (
    ("Laptops", "New colleagues receive their laptop on their second day. It is replaced after four years."),
    ("Mentors", "Every new colleague has a mentor for six months. Mentors are chosen by Priya Raman."),
    ("Probation", "The probation period lasts five months."),
)
HOLIDAYS = """\
# Holidays

Everybody has 28 days of leave per year. Days that are left over expire on 31 March.

# Birthdays

Nobody works on their own birthday. The company gives a cake from the bakery Kowalski.

# Illness

A doctor's certificate is needed from the fourth day of illness.
"""


@dataclass(frozen=True)
class Question:
    """A question, the fact that its answer must contain (in one of these forms), and the file that has it."""

    text: str
    facts: tuple[str, ...]
    file: str


QUESTIONS = (
    Question("How much is the daily allowance for meals on a journey?", ("34",), "travel.pdf"),
    Question("What may a hotel room cost per night?", ("120",), "travel.pdf"),
    Question("In which class are trains booked?", ("second",), "travel.pdf"),
    Question("From how many kilometres are flights allowed?", ("700",), "travel.pdf"),
    Question("When do new colleagues receive their laptop?", ("second day",), "onboarding.docx"),
    Question("Who chooses the mentors?", ("Priya Raman",), "onboarding.docx"),
    Question("How long does the probation period last?", ("five months", "5 months"), "onboarding.docx"),
    Question("After how many years is a laptop replaced?", ("four", "4"), "onboarding.docx"),
    Question("How many days of leave does everybody have per year?", ("28",), "holidays.md"),
    Question("When do days of leave that are left over expire?", ("31 March", "March 31"), "holidays.md"),
    Question("Which bakery is the birthday cake from?", ("Kowalski",), "holidays.md"),
    Question("From which day of illness is a doctor's certificate needed?", ("fourth", "4th"), "holidays.md"),
)
OTHER_REQUESTS = (
    "Hello!",
    "Thank you, that is all.",
    "What is 17 plus 5?",
    "Translate 'good morning' into French.",
    "Write a haiku about rain.",
    "Reverse the word 'stone'.",
)


@dataclass(frozen=True)
class Answer:
    """The text, the number of searches, the cited places, and the seconds it took."""

    text: str
    searches: int
    cited: tuple[str, ...]
    seconds: float

    @property
    def files(self) -> set[str]:
        """The names of the cited files."""
        return {place.partition(",")[0] for place in self.cited}

    def has_fact(self, question: Question) -> bool:
        forms = "|".join(map(re.escape, question.facts))
        return re.search(rf"\b({forms})\b", self.text, re.IGNORECASE) is not None


def write_files(folder: Path) -> None:
    (folder / "travel.pdf").write_bytes(
        pdf_file(*(") Tj 0 -16 Td (".join(page.split(". ")) for page in TRAVEL_PAGES))
    )
    (folder / "holidays.md").write_text(HOLIDAYS, encoding="utf-8")
    report: Any = docx.Document()
    report.add_heading("The first days", 0)
    for heading, text in ONBOARDING:
        report.add_heading(heading, 1)
        report.add_paragraph(text)
    content = io.BytesIO()
    report.save(content)
    (folder / "onboarding.docx").write_bytes(content.getvalue())


def ask(client: OpenAI, tool: Any, text: str) -> Answer:
    began = time.perf_counter()
    response = client.responses.create(model="local", input=text, tools=[tool], store=False)
    seconds = time.perf_counter() - began
    searches = sum(item.type == "file_search_call" for item in response.output)
    return Answer(response.output_text.strip(), searches, tuple(_citations(response)), seconds)


def _citations(response: Any) -> Iterator[str]:
    """The name of each cited file, and the place in it."""
    for item in response.output:
        for part in (item.content or ()) if item.type == "message" else ():
            for citation in part.annotations:
                extra: dict[str, Any] = citation.model_extra or {}
                label = extra["antiphon"]["label"]
                yield f"{citation.filename}, {label}" if label else citation.filename


def answers(model: str, threshold: float, texts: Sequence[str]) -> Iterator[Answer]:
    """Add the files to a new store, serve it, and send the requests one after another."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        files = folder / "files"
        files.mkdir()
        write_files(files)
        url = f"sqlite:{folder}/bench.db"
        add = ("vector-stores", "add", str(files), "--store", STORE, "--database", url)
        subprocess.run([sys.executable, "-m", "antiphon.cli", *add], cwd=folder, check=True)
        with run_server(folder, "--store", url, "--model", model, "--no-discovery") as server:
            client = OpenAI(base_url=server.base_url, api_key="none", timeout=TIMEOUT_SECONDS, max_retries=0)
            [store] = client.vector_stores.list().data
            ranking = {"score_threshold": threshold}
            tool = {"type": "file_search", "vector_store_ids": [store.id], "ranking_options": ranking}
            for text in texts:
                yield ask(client, tool, text)


def show(request: str, answer: Answer, verdict: str) -> None:
    print(f"Q: {request}\nA: {answer.text}")
    print(f"   cited: {'; '.join(answer.cited) or 'nothing'}; searches: {answer.searches}")
    print(f"   {verdict}; {answer.seconds:.1f} s\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cited_answers")
    parser.add_argument("--model", default="qwen2.5-coder-1.5b", help="an embedded model, or a GGUF file")
    parser.add_argument("--threshold", type=float, default=0.0, help="the least score of a passage (0)")
    options = parser.parse_args()
    texts = [question.text for question in QUESTIONS]
    given = answers(options.model, options.threshold, [*texts, *OTHER_REQUESTS])
    shares: Counter[str] = Counter()
    for question, answer in zip(QUESTIONS, given, strict=False):
        has_fact = answer.has_fact(question)
        is_right = has_fact and question.file in answer.files
        is_exact = has_fact and answer.files == {question.file}
        shares["searched"] += answer.searches > 0
        shares["fact"] += has_fact
        shares["right"] += is_right
        shares["exact"] += is_exact
        shares["short"] += is_exact and len(answer.text.split()) <= SHORT_WORDS
        show(
            question.text, answer, "right" if is_right else "no citation of its file" if has_fact else "wrong"
        )
    for request, answer in zip(OTHER_REQUESTS, given, strict=True):
        shares["needless"] += answer.searches > 0
        show(request, answer, "searched without need" if answer.searches else "not searched")
    total = len(QUESTIONS)
    print(f"| {options.model}, threshold {options.threshold:g} | share |\n|---|---|")
    print(f"| questions for which it searched | {shares['searched']} of {total} |")
    print(f"| answers with the fact | {shares['fact']} of {total} |")
    print(f"| answers with the fact that cite its file | {shares['right']} of {total} |")
    print(f"| answers with the fact that cite its file and no other | {shares['exact']} of {total} |")
    print(f"| the same in at most {SHORT_WORDS} words | {shares['short']} of {total} |")
    print(f"| other requests for which it searched | {shares['needless']} of {len(OTHER_REQUESTS)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
