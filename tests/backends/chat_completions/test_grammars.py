"""An answer that is held to a grammar, where the server can."""

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
NOT_IN_GBNF = TextFormatGrammar("grammar", "regex", r"\p{Lu}+")
GBNF = 'root ::= r0-start\nr0-start ::= "lamp " ("on" | "off")\n'


def build(quirks: Quirks, grammar: TextFormatGrammar, **params: Any) -> Payload:
    turn = build_turn(create_from(**{"model": "m", "input": "hi", **params}), model="m")
    return build_payload(replace(turn, grammar=grammar), quirks)


def test_vllm_is_sent_structured_outputs() -> None:
    payload = build(ENDPOINTS["vllm"].quirks, LAMP)
    assert payload.body["structured_outputs"] == {"grammar": GBNF}
    assert (payload.downgrades, payload.unenforced) == ((), frozenset())


def test_llama_cpp_is_sent_gbnf() -> None:
    payload = build(ENDPOINTS["llama.cpp"].quirks, LAMP)
    assert payload.body["grammar"] == GBNF
    assert (payload.downgrades, payload.unenforced) == ((), frozenset())


@pytest.mark.parametrize(
    ("grammar", "sent"),
    [
        (LAMP, '%llguidance {}\nstart : "lamp " ( "on" | "off" )'),
        (
            TextFormatGrammar(
                "grammar", "lark", 'start: x~2 "b" ~ 1..3 // two\nx: "\\x41\\\\x42" | /~\\x41/'
            ),
            '%llguidance {}\nstart : x {2} "b" {1,3} \n x : "\\u0041\\\\x42" | /~\\x41/',
        ),
        (NOT_IN_GBNF, "%llguidance {}\nstart: /\\p{Lu}+/"),
        (TextFormatGrammar("grammar", "regex", r"a/b\/c\\/"), "%llguidance {}\nstart: /a\\/b\\/c\\\\\\//"),
        (TextFormatGrammar("grammar", "regex", ""), '%llguidance {}\nstart: ""'),
    ],
)
def test_an_engine_with_llguidance_is_sent_lark(grammar: TextFormatGrammar, sent: str) -> None:
    payload = build(Quirks(grammars="llguidance"), grammar)
    assert payload.body["grammar"] == sent
    assert payload.unenforced == frozenset()


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp", "openai", "plain"])
def test_what_cannot_be_enforced_is_said_to_be_unenforced(kind: str) -> None:
    payload = build(ENDPOINTS[kind].quirks, NOT_IN_GBNF)
    assert not {"grammar", "structured_outputs"} & payload.body.keys()
    assert payload.unenforced == {"grammar"}
    assert rendered(payload.downgrades) == [
        "the grammar of the answer is not enforced: this model's server cannot"
    ]


def test_a_server_without_grammars_is_sent_none() -> None:
    payload = build(ENDPOINTS["openai"].quirks, LAMP)
    assert not {"grammar", "structured_outputs"} & payload.body.keys()
    assert payload.unenforced == {"grammar"}


def test_a_grammar_takes_the_place_of_a_format() -> None:
    form = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}
    body = build(ENDPOINTS["llama.cpp"].quirks, LAMP, text=form).body
    assert "response_format" not in body
    assert body["grammar"] == GBNF
