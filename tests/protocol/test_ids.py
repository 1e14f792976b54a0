"""Ids: their format, and that they are unique."""

import re
import secrets

import pytest

from antiphon.protocol.ids import IdSource


def source(now: float = 1_700_000_000.123) -> IdSource:
    return IdSource(clock=lambda: now, entropy=secrets.token_bytes)


def test_ids_sort_by_time() -> None:
    assert source(1.0).new("resp") < source(1.5).new("resp") < source(2.0).new("resp")


@pytest.mark.parametrize("prefix", ["msg", "fc", "call", "ctc", "fco"])
def test_a_marked_id_has_twelve_random_letters(prefix: str) -> None:
    assert re.fullmatch(rf"{prefix}_AM-[a-z0-9]{{12}}", source().new_marked(prefix))


def test_a_marked_response_id_contains_its_creation_time() -> None:
    assert re.fullmatch(r"resp_AM-1700000000123-[a-z0-9]{8}", source().new_marked("resp"))


def test_marked_ids_use_every_letter_and_do_not_repeat() -> None:
    new_ids = [source().new_marked("msg") for _ in range(500)]
    assert len(set(new_ids)) == len(new_ids)
    assert len(set("".join(new_ids).removeprefix("msg_AM-"))) >= 36


def test_a_maker_makes_ids_of_its_style() -> None:
    assert "_AM-" in source().maker("marked")("msg")
    assert "_AM-" not in source().maker("timed")("msg")
