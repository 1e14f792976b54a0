"""Mutations of valid JSON: members dropped, retyped, doubled, moved; odd text, numbers and depth; ids of others."""

import copy
import random
from collections.abc import Callable
from typing import Any, cast

from tests.fuzz.pool import Pool

Json = Any
Holder = tuple[Any, str | int]
"""A container and the key of a value in it."""

ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "\u2028\u2029\x85\x0b",
    "\ufeff",
    "\U0001f916" * 3,
    "e\u0301" * 40,
    "\u202eabc",
    "\uffff\U0010ffff",
    "../../etc/passwd",
    "%00%2e%2e",
    "a" * 300,
    "x" * 70_000,
    "null",
    "-0",
    "{}",
    "*",
    "<tool_call>{",
    "data: [DONE]\n\n",
    "'; DROP TABLE responses; --",
    "\r\nset-cookie: a=b",
)
ODD_NUMBERS = (0, -1, -0.0, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 1e308, 5e-324, 0.5, 1e15)
ODD_VALUES: tuple[Json, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": ""},
    {"type": None},
    {"type": "unknown"},
    *ODD_NUMBERS[:4],
)


class Mutator:
    """Changes a body in one to four places."""

    def __init__(self, rng: random.Random, pool: Pool) -> None:
        self._rng = rng
        self._pool = pool
        self._kinds: tuple[Callable[[list[Holder]], None], ...] = (
            self._drop,
            self._retype,
            self._retype,
            self._odd_text,
            self._odd_number,
            self._swap_id,
            self._double,
            self._exchange,
            self._deepen,
            self._foreign_member,
        )

    def mutated(self, body: Json, places: int) -> Json:
        """A changed copy."""
        changed = copy.deepcopy(body)
        for _ in range(places):
            holders = list(_holders(changed))
            if not holders:
                return self._rng.choice(ODD_VALUES)
            self._rng.choice(self._kinds)(holders)
        return changed

    def spoiled(self, data: bytes) -> bytes:
        """The bytes of a body, damaged."""
        rng = self._rng
        at = rng.randrange(len(data)) if data else 0
        return rng.choice(
            (
                data[:at],
                data[:at] + bytes((rng.randrange(256),)) + data[at + 1 :],
                data[:at] + b"\xff\xfe" + data[at:],
                b"\xef\xbb\xbf" + data,
                data + data,
                data.replace(b'"', b"'", 2),
                data.replace(b":", b":\xed\xa0\x80", 1),
                data.decode().encode("utf-16"),
                b"",
                b"[" * rng.randrange(1, 3000),
                b"NaN",
                data.replace(b"}", b', "a": NaN}', 1),
                data.replace(b"}", b', "a": 1e999}', 1),
                data.replace(b"}", b', "a": "\\ud800"}', 1),
            )
        )

    def odd_text(self) -> str:
        """A text that is valid JSON and unusual."""
        return self._rng.choice(ODD_TEXTS)

    def _drop(self, holders: list[Holder]) -> None:
        holder, key = self._rng.choice(holders)
        del holder[key]

    def _retype(self, holders: list[Holder]) -> None:
        self._put(holders, copy.deepcopy(self._rng.choice(ODD_VALUES)))

    def _odd_text(self, holders: list[Holder]) -> None:
        texts = [holder for holder in holders if isinstance(_value(holder), str)]
        self._put(texts or holders, self.odd_text())

    def _odd_number(self, holders: list[Holder]) -> None:
        numbers = [holder for holder in holders if isinstance(_value(holder), int | float)]
        self._put(numbers or holders, self._rng.choice(ODD_NUMBERS))

    def _swap_id(self, holders: list[Holder]) -> None:
        ids = [holder for holder in holders if str(holder[1]).endswith("id")]
        self._put(ids or holders, self._pool.any_id())

    def _double(self, holders: list[Holder]) -> None:
        lists = [holder for holder in holders if isinstance(_value(holder), list) and _value(holder)]
        if lists:
            found = cast("list[Json]", _value(self._rng.choice(lists)))
            found.extend(copy.deepcopy(found[:20]) * self._rng.choice((1, 1, 3, 20)))

    def _exchange(self, holders: list[Holder]) -> None:
        source = _value(self._rng.choice(holders))
        self._put(holders, copy.deepcopy(source))

    def _deepen(self, holders: list[Holder]) -> None:
        holder, key = self._rng.choice(holders)
        value = _value((holder, key))
        for _ in range(self._rng.choice((1, 3, 40, 120))):
            value = self._rng.choice(([value], {"items": value}))
        self._put([(holder, key)], value)

    def _foreign_member(self, holders: list[Holder]) -> None:
        objects = [_value(holder) for holder in holders if isinstance(_value(holder), dict)]
        name = self._rng.choice(
            ("type", "id", "role", "content", "name", "arguments", "tools", "$ref", "strict")
        )
        if objects:
            self._rng.choice(objects)[name] = copy.deepcopy(self._rng.choice((*ODD_VALUES, "a", "function")))

    def _put(self, holders: list[Holder], value: Json) -> None:
        holder, key = self._rng.choice(holders)
        holder[key] = value


def _value(holder: Holder) -> Json:
    container, key = holder
    return container[key]


def _holders(value: Json) -> list[Holder]:
    """Every place of a value in the body."""
    found: list[Holder] = []
    waiting: list[Json] = [value]
    while waiting:
        container: Any = waiting.pop()
        if isinstance(container, dict):
            keys: list[str | int] = list(cast("dict[str, Json]", container))
        elif isinstance(container, list):
            keys = list(range(len(cast("list[Json]", container))))
        else:
            continue
        places: list[Holder] = [(container, key) for key in keys]
        found += places
        waiting += map(_value, places)
    return found
