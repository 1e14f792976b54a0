"""Ids: their format, and that they are unique."""

import re
import secrets

import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.ids import IdSource
from antiphon.protocol.parse_create import create_from


def source(now: float = 1_700_000_000.123) -> IdSource:
    return IdSource(clock=lambda: now, entropy=secrets.token_bytes)


def test_ids_sort_by_time() -> None:
    assert source(1.0).new("resp") < source(1.5).new("resp") < source(2.0).new("resp")


def test_random_bytes_are_read_in_blocks_and_never_reused() -> None:
    calls: list[int] = []

    def entropy(size: int) -> bytes:
        calls.append(size)
        return bytes(range(len(calls) * 100, len(calls) * 100 + size))

    ids = IdSource(lambda: 1.0, entropy, block=3)
    made = [ids.new("msg") for _ in range(6)]
    assert calls == [48, 48]
    digits = {new_id.removeprefix("msg_0000000003e8") for new_id in made}
    assert digits == {bytes(range(start, start + 16)).hex() for start in (100, 116, 132, 200, 216, 232)}


def test_an_id_has_the_time_at_which_it_was_made() -> None:
    times = iter([1.0, 1.0, 1.25, 1.0])
    ids = IdSource(lambda: next(times), secrets.token_bytes)
    assert [ids.new("msg")[4:16] for _ in range(4)] == [f"{at:012x}" for at in (1000, 1000, 1250, 1000)]


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


@pytest.mark.requirement("PROTOCOL/errors-id-form")
@pytest.mark.parametrize(
    ("param", "sent", "prefix"),
    [
        ("previous_response_id", "msg_1", "resp"),
        ("previous_response_id", "", "resp"),
        ("conversation", "resp_1", "conv"),
        ("conversation", {"id": "c1"}, "conv"),
    ],
)
def test_an_id_of_another_form_is_rejected(param: str, sent: object, prefix: str) -> None:
    with pytest.raises(InvalidRequest, match=f"begins with '{prefix}'") as caught:
        create_from(model="m", input="x", **{param: sent})
    assert (caught.value.param, caught.value.code, caught.value.status) == (param, "invalid_value", 400)
