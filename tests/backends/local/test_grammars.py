"""The input of a custom tool, constrained by its grammar, and complete answers constrained by one."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.backends.local.backend import LocalBackend
from antiphon.grammars.grammar import compile_grammar
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.chunks import CallDelta, CallStarted, Chunk
from tests.backends.local.fake_llama import FakeLlama, answering_with, ending, piece, sending
from tests.backends.local.turns import ADD, arguments_of, finish_of, run, text_of, turn

LAMP = 'start: "turn " ("on" | "off") " the lamp in the " ("kitchen" | "hall") "."'
LARK = TextFormatGrammar("grammar", "lark", LAMP)
SENT = '%llguidance {}\nstart : "turn " ( "on" | "off" ) " the lamp in the " ( "kitchen" | "hall" ) "."'
TOOL: dict[str, Any] = {
    "type": "custom",
    "name": "switch",
    "description": "Switches lamps.",
    "format": {"type": "grammar", "syntax": "lark", "definition": LAMP},
}
FORCED = {"type": "custom", "name": "switch"}


async def test_the_input_is_requested_with_the_grammar(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = answering_with('turn on "x"\n', "\té\\")
    chunks = await run(backend, input="Light!", tools=[TOOL, ADD], tool_choice=FORCED)
    (body,) = llama.bodies
    assert body["grammar"] == SENT
    assert "response_format" not in body
    assert "Switches lamps." in body["messages"][0]["content"]
    assert chunks[0] == CallStarted(0, "", "switch")
    assert [chunk.arguments for chunk in chunks if isinstance(chunk, CallDelta)] == [
        '{"input":"turn on \\"x\\"\\n', "\\té\\\\", '"}',
    ]  # fmt: skip
    assert finish_of(chunks) == "tool_calls"
    assert msgspec.json.decode(arguments_of(chunks)) == {"input": 'turn on "x"\n\té\\'}


async def test_an_empty_input_is_one(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = sending(ending())
    chunks = await run(backend, input="Light!", tools=[TOOL], tool_choice=FORCED)
    assert arguments_of(chunks) == '{"input":""}'


async def test_truncated_input_is_closed(backend: LocalBackend, llama: FakeLlama) -> None:
    llama.answer = sending([piece("turn o"), *ending("length")])
    chunks = await run(backend, input="Light!", tools=[TOOL], tool_choice=FORCED)
    assert arguments_of(chunks) == '{"input":"turn o"}'
    assert finish_of(chunks) == "length"


async def test_the_input_of_a_custom_tool_without_a_grammar_is_requested_with_a_schema(
    backend: LocalBackend, llama: FakeLlama
) -> None:
    llama.answer = answering_with('{"input":"x"}')
    chunks = await run(
        backend, input="Light!", tools=[{"type": "custom", "name": "say"}], tool_choice="required"
    )
    assert "grammar" not in llama.bodies[0]
    assert "response_format" in llama.bodies[0]
    assert arguments_of(chunks) == '{"input":"x"}'


async def test_a_complete_answer_constrained_by_a_grammar(backend: LocalBackend, llama: FakeLlama) -> None:
    prepared = backend.prepare(replace(turn(input="Light!"), grammar=LARK))
    chunks = [chunk async for batch in prepared.chunks() for chunk in batch]
    assert llama.bodies[0]["grammar"] == SENT
    assert text_of(chunks) == "Hello there"
    assert prepared.unenforced == frozenset()


def test_grammars_are_native_and_checked_too(backend: LocalBackend) -> None:
    prepared = backend.prepare(turn(input="Light!", tools=[TOOL], tool_choice=FORCED))
    assert backend.features("m")["grammars"].level == "native"
    assert prepared.unenforced == {"grammar"}
    assert not any("grammar" in note for note in rendered(prepared.downgrades))


async def answer(model: LocalBackend, grammar: TextFormatGrammar, **params: Any) -> list[Chunk]:
    request = turn(input="Turn the lamp on in the kitchen.", **params)
    return [
        chunk
        async for batch in model.prepare(replace(request, grammar=grammar)).chunks()
        for chunk in batch
    ]  # fmt: skip


PATCH = TextFormatGrammar(
    "grammar",
    "lark",
    r"""
start: "*** Begin" LF change{1,2} "*** End" LF?
change: "File: " NAME LF ("+" /[a-z ]{1,12}/ LF){1,2}
NAME: /[a-z]{1,8}/ ".py"
%import common.LF
""",
)
REAL = {
    "lamp": LARK,
    "patch": PATCH,
    "sum": TextFormatGrammar(
        "grammar", "lark", 'start: sum\n?sum: n | sum "+" n\nn: /[0-9]{1,2}/\n%ignore " "'
    ),
    "plate": TextFormatGrammar("grammar", "regex", r"[A-Z]{1,3}-[0-9]{2,4}(?:/[a-c])?"),
    "name": TextFormatGrammar("grammar", "regex", r"(?i)dr\. \w{2,10}[^\w\s]"),
    "nothing or more": TextFormatGrammar("grammar", "lark", 'start: (x y)~1..3\nx: "a"?\ny: "b"? "é"?'),
}


@pytest.mark.slow
class TestTheRealModel:
    pytestmark = pytest.mark.asyncio(loop_scope="module")

    @pytest.mark.parametrize("temperature", [0, 1, 2])
    async def test_the_input_of_a_forced_tool_follows_its_grammar(
        self, model: LocalBackend, temperature: float
    ) -> None:
        chunks = await run(
            model,
            input="Turn the lamp on in the kitchen.",
            tools=[TOOL, ADD],
            tool_choice=FORCED,
            temperature=temperature,
        )
        written = msgspec.json.decode(arguments_of(chunks))["input"]
        assert compile_grammar(LARK).check(written) is None
        assert finish_of(chunks) == "tool_calls"

    @pytest.mark.parametrize("name", REAL)
    async def test_an_answer_follows_its_grammar(self, model: LocalBackend, name: str) -> None:
        chunks = await answer(model, REAL[name], temperature=1, max_output_tokens=60)
        if finish_of(chunks) == "stop":
            assert compile_grammar(REAL[name]).check(text_of(chunks)) is None
        else:
            assert name == "sum"  # the others have an end
