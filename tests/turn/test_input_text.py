"""The text of a custom call, read while its arguments stream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.turn.function_forms.input_text import REPLACEMENT, InputText

texts = st.text(alphabet='ab"\\/\n\t\u2028é😀\x01{}:, u', max_size=12)


def read(pieces: list[str]) -> str:
    """The complete text after these pieces."""
    text = InputText()
    emitted = [text.feed(piece) for piece in pieces]
    emitted.append(text.end("".join(pieces)))
    assert "".join(emitted) == text.text
    return text.text


def cut(raw: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    return [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


@given(texts, st.booleans(), st.sampled_from([None, 1]), st.sampled_from(["", " ", "\n\t"]), st.data())
def test_any_split_yields_the_same_text(
    text: str, ascii_only: bool, indent: int | None, space: str, data: st.DataObject
) -> None:
    raw = space + json.dumps({"input": text}, ensure_ascii=ascii_only, indent=indent) + space
    assert read(cut(raw, data)) == text


@given(st.text(alphabet='{"input:\\ud83 nx}', max_size=24), st.data())
def test_any_split_of_any_arguments_yields_the_same_text(raw: str, data: st.DataObject) -> None:
    unsplit = read([raw])
    assert read(cut(raw, data)) == unsplit
    unsplit.encode()


def test_text_is_emitted_as_soon_as_it_is_certain() -> None:
    text = InputText()
    assert [text.feed(piece) for piece in ['{"in', 'put": "*** Be', 'gin\\', 'n\\u00', "e9\\ud83d", "\\ude00", '"}']] == [
        "", "*** Be", "gin", "\n", "é", "😀", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain words", "plain words"),
        ('{"cmd": "ls"}', '{"cmd": "ls"}'),
        ('{"input": 5}', '{"input": 5}'),
        ('{"x": 1, "input": "y"}', '{"x": 1, "input": "y"}'),
        ('{"\\u0069nput": "x"}', "x"),
        ("{}", "{}"),
        ("", ""),
        ('{"inp', ""),
        ('{"input": "cut o', "cut o"),
        ('{"input": "cut \\', "cut "),
        ('{"input": "cut \\u00', "cut "),
        ('{"input": "half \\ud83d', f"half {REPLACEMENT}"),
        ('{"input": "half \\ud83d and more"}', f"half {REPLACEMENT} and more"),
        ('{"input": "low \\ude00"}', f"low {REPLACEMENT}"),
        ('{"input": "wrong \\q \\uzz"}', "wrong \\q \\uzz"),
        ('{"input": "real\nline"}', "real\nline"),
        ('{"input": "x", "more": 1}', "x"),
        ('{"input": "x"} and words', "x"),
    ],
)
def test_invalid_arguments_are_read_as_far_as_possible(raw: str, text: str) -> None:
    assert read([raw]) == text
    assert read(list(raw)) == text
