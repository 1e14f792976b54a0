"""Writes docs/reference/compatibility.md from the manifests and the requirement marks of the tests: `make docs`.

A test compares the page with this output, so it cannot claim what no test shows.
"""

import sys
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from tests.docs.markers import ROOT, Mark, all_marks

JsonObject = dict[str, Any]

PAGE = ROOT / "docs" / "reference" / "compatibility.md"
REQUIREMENTS = ROOT / "docs" / "requirements"
MARKS = {"works": "✓", "partly": "◐", "no": "–"}
MOST = 3
"""The number of tests that a row lists; the marks in the tests list all of them."""
HEAD = """# Compatibility

<!-- Made by `make docs` from docs/requirements/ and the tests. Do not edit. -->

This page lists the clients that Antiphon is tested with, its differences from the Responses protocol, and every rule of the protocol that it follows. You need it if you want to know whether your client works, or exactly how a case is handled.

Each entry links to the tests that verify it. To check another server by the same rules, run [`antiphon conformance`](conformance.md):

```sh
antiphon conformance --base-url http://127.0.0.1:8080/v1
```

Terms: *Open Responses* is the public specification of the protocol. *Sealed* means encrypted with the key of the server. [`downgrades`](http-api.md#downgrades) is the member of a response that reports what was emulated, changed or omitted.
"""

LEGEND = """✓ works, ◐ works partly, – not possible with this client; an empty cell is not tested. A mark links to the file of its test; [clients.toml](../requirements/clients.toml) names the test.
"""
SOURCES = """The source of a rule is OpenAI (its reference, SDK types and recorded streams), Open Responses, or the requirements of real clients. The wording is ours.
"""


def render() -> str:
    """The complete page."""
    manifest = _read("protocol.toml")
    cells: list[JsonObject] = _read("clients.toml").get("cell", [])
    lines = [HEAD, *_clients(cells), *_divergences(manifest["divergence"]), *_rules(manifest["rule"])]
    return "\n".join(lines).rstrip() + "\n"


def _read(name: str) -> JsonObject:
    path = REQUIREMENTS / name
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _clients(cells: Sequence[JsonObject]) -> Iterator[str]:
    if not cells:
        return
    clients = list(dict.fromkeys((cell["client"], cell["version"]) for cell in cells))
    features = list(dict.fromkeys(cell["feature"] for cell in cells))
    found = {(cell["client"], cell["feature"]): cell for cell in cells}
    notes = list(dict.fromkeys(cell["note"] for cell in cells if cell.get("note")))
    yield "## Clients\n"
    yield LEGEND
    yield _row("", *(f"{client} ({version})" for client, version in clients))
    yield _row(*("---" for _ in range(len(clients) + 1)))
    for feature in features:
        yield _row(feature, *(_cell(found.get((client, feature)), notes) for client, _ in clients))
    yield ""
    for number, note in enumerate(notes, 1):
        yield f"{number}. {note}"
    yield ""


def _cell(cell: JsonObject | None, notes: Sequence[str]) -> str:
    if cell is None:
        return ""
    mark = MARKS[cell["status"]]
    path = str(cell.get("test", "")).partition("::")[0]
    note = f" ({notes.index(cell['note']) + 1})" if cell.get("note") else ""
    return f"{f'[{mark}](../../{path})' if path else mark}{note}"


def _divergences(entries: Sequence[JsonObject]) -> Iterator[str]:
    yield "## Divergences\n"
    yield _row("protocol", "Antiphon", "reason", "tests")
    yield _row("---", "---", "---", "---")
    for entry in entries:
        why = f"{entry['why']} ([more](../{entry['page']}))"
        yield _row(entry["protocol"], entry["antiphon"], why, _shown(entry["id"]))
    yield ""


def _rules(rules: Sequence[JsonObject]) -> Iterator[str]:
    yield f"## The {len(rules)} rules\n"
    yield SOURCES
    for section in dict.fromkeys(rule["section"] for rule in rules):
        yield f"### {section}\n"
        yield _row("rule", "source", "tests")
        yield _row("---", "---", "---")
        for rule in rules:
            if rule["section"] == section:
                yield _row(rule["says"], rule["source"], _shown(rule["id"]))
        yield ""


def _shown(rule: str) -> str:
    marks = dict.fromkeys(mark for mark in all_marks() if mark.rule == rule)
    links = [f"[{_sentence(mark)}](../../{mark.path})" for mark in marks]
    more = f" and {len(links) - MOST} more" if len(links) > MOST else ""
    return ", ".join(links[:MOST]) + more


def _sentence(mark: Mark) -> str:
    """The name of a test is a sentence already."""
    name = mark.test.removeprefix("test_").replace("_", " ")
    if mark.case:
        return f"{name}: `{mark.case}`"
    return name or mark.path


def _row(*cells: str) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is made.\n")


if __name__ == "__main__":
    main()
