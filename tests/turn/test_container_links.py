"""Links to files of a container become citations, wherever the text is split."""

import pytest

from antiphon.protocol.content import JsonObject
from antiphon.turn.chunks import AnnotationAdded, TextDelta
from antiphon.turn.container_links import MAX_TARGET_CHARACTERS, ContainerLinks

FILES = ("a.csv", "my file.csv", "sub/b.txt", "v1.")


def cite(name: str) -> JsonObject | None:
    return {"name": name} if name in FILES else None


def cited(*pieces: str) -> tuple[str, list[tuple[str, str]]]:
    """The text, and each name with the text that its citation covers."""
    links = ContainerLinks(cite)
    chunks = [chunk for piece in pieces for chunk in links.feed(TextDelta(piece))] + links.end()
    text, found = "", list[tuple[str, str]]()
    for chunk in chunks:
        if isinstance(chunk, TextDelta):
            text += chunk.text
        elif isinstance(chunk, AnnotationAdded):
            found.append((str(chunk.annotation["name"]), text[len(text) - chunk.covers :]))
    return text, found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See [it](sandbox:/mnt/data/a.csv).", [("a.csv", "sandbox:/mnt/data/a.csv")]),
        ("[x](sandbox:/mnt/data/my file.csv)", [("my file.csv", "sandbox:/mnt/data/my file.csv")]),
        ("[x](sandbox:/mnt/data/my%20file.csv)", [("my file.csv", "sandbox:/mnt/data/my%20file.csv")]),
        ("At sandbox:/mnt/data/sub/b.txt, there.", [("sub/b.txt", "sandbox:/mnt/data/sub/b.txt")]),
        ("At sandbox:/mnt/data/v1.", [("v1.", "sandbox:/mnt/data/v1.")]),
        ("`sandbox:/mnt/data/a.csv` end", [("a.csv", "sandbox:/mnt/data/a.csv")]),
        ("[x](sandbox:/mnt/data/other.csv)", []),
        ("[x](sandbox:/mnt/data/../../etc/passwd)", []),
        ("sandbox:/mnt/data/", []),
        ("sandbox:/mnt", []),
        ("sandbox:/mnt/data/" + "a" * 3000, []),
        (
            "(sandbox:/mnt/data/a.csv)(sandbox:/mnt/data/a.csv)",
            [("a.csv", "sandbox:/mnt/data/a.csv")] * 2,
        ),
    ],
)
def test_a_link_is_cited_by_its_target(text: str, found: list[tuple[str, str]]) -> None:
    assert cited(text) == (text, found)
    assert cited(*text) == (text, found)
    for at in range(len(text)):
        assert cited(text[:at], text[at:]) == (text, found)


def test_text_without_a_link_is_not_held() -> None:
    links = ContainerLinks(cite)
    assert links.feed(TextDelta("Plain text")) == [TextDelta("Plain text")]


def test_a_target_without_end_is_held_only_so_long() -> None:
    links = ContainerLinks(cite)
    passed = [chunk for _ in range(3 * MAX_TARGET_CHARACTERS) for chunk in links.feed(TextDelta("("))]
    assert links.feed(TextDelta("sandbox:/mnt/data/")) == []
    held = 0
    while not links.feed(TextDelta("a")):
        held += 1
    assert passed
    assert held <= MAX_TARGET_CHARACTERS
