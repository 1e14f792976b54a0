"""Grammars of an answer: sent to engines with llguidance, reported as unenforced elsewhere."""

from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.backends.chat_completions.request import Payload, build_payload
from antiphon.backends.registry import ENDPOINTS, Quirks
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.context import build_turn

LAMP = TextFormatGrammar("grammar", "lark", 'start: "lamp " ("on" | "off")')
CAPITALS = TextFormatGrammar("grammar", "regex", r"\p{Lu}+")
LARK = '%llguidance {}\nstart : "lamp " ( "on" | "off" )'


def build(quirks: Quirks, grammar: TextFormatGrammar, **params: Any) -> Payload:
    turn = build_turn(create_from(**{"model": "m", "input": "hi", **params}), model="m")
    return build_payload(replace(turn, grammar=grammar), quirks)


@pytest.mark.parametrize(
    ("grammar", "sent"),
    [
        (LAMP, LARK),
        (
            TextFormatGrammar(
                "grammar", "lark", 'start: x~2 "b" ~ 1..3 // two\nx: "\\x41\\\\x42" | /~\\x41/'
            ),
            '%llguidance {}\nstart : x {2} "b" {1,3} \n x : "\\u0041\\\\x42" | /~\\x41/',
        ),
        (CAPITALS, "%llguidance {}\nstart: /\\p{Lu}+/"),
        (TextFormatGrammar("grammar", "regex", r"a/b\/c\\/"), "%llguidance {}\nstart: /a\\/b\\/c\\\\\\//"),
        (TextFormatGrammar("grammar", "regex", ""), '%llguidance {}\nstart: ""'),
    ],
)
def test_an_engine_with_llguidance_is_sent_lark(grammar: TextFormatGrammar, sent: str) -> None:
    payload = build(Quirks(grammars=True), grammar)
    assert payload.body["grammar"] == sent
    assert (payload.downgrades, payload.unenforced) == ((), frozenset())


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp", "openai", "plain"])
@pytest.mark.parametrize("grammar", [LAMP, CAPITALS])
def test_other_servers_are_sent_no_grammar(kind: str, grammar: TextFormatGrammar) -> None:
    payload = build(ENDPOINTS[kind].quirks, grammar)
    assert not {"grammar", "structured_outputs"} & payload.body.keys()
    assert payload.unenforced == {"grammar"}
    assert rendered(payload.downgrades) == [
        "the grammar of the answer is not enforced: this model's server cannot"
    ]


def test_a_grammar_replaces_a_format() -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}
    body = build(Quirks(grammars=True), LAMP, text=form).body
    assert "response_format" not in body
    assert body["grammar"] == LARK
