"""Inputs from which the search for bytes that break an oracle begins."""

import json
import random

from tests.fuzz.bodies import Bodies
from tests.fuzz.pool import Pool
from tests.turn.text_calls.samples import CALLS

SSE = (
    b"\x00\x02\x05data: a\n\ndata: b\ndata: c\n\n",
    b"\x07\x01\x00event: x\r\ndata: {}\r\n\r\n: comment\r\n\r\ndata:[DONE]\r\n\r\n",
    b"\x01\x01\x01event: a\ndata: \n\nevent: b\ndata: 2\nid: 7\n\n\n\ndata: 3",
    b"\x02\x00\x09data: a\rdata: b\r\rretry: 5\n\n",
)
GRAMMARS = (
    b'\x00start: (word " "?)~2..5\nword: /[a-z]+/i\n%ignore / /\x00ab cd',
    b'\x00start: A | b{1,3} // comment\nA: "\\x41"\nb: "b" -> c\x00bb',
    b"\xff[0-9]{1,4}(a|b)*\x00123ab",
    b"\xff\\p{L}+/x\\/\x00a/x/",
)


def seeds_of(name: str) -> list[bytes]:
    """The first inputs for an oracle."""
    if name == "sse":
        return list(SSE)
    if name == "gate":
        rng = random.Random(1)
        bodies = Bodies(rng, Pool(rng))
        return [json.dumps(bodies.create()).encode() for _ in range(60)]
    if name == "text_calls":
        return [
            bytes((number % 256, number % 16)) + text.encode() for number, (_, text, _) in enumerate(CALLS)
        ]
    return list(GRAMMARS)
