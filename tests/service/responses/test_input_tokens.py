"""Counting of requests: by the model's tokenizer, or by an estimate for every kind of item."""

from typing import Any

import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import Caller
from antiphon.errors import BackendBroken, NotFound
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.items import Reasoning
from antiphon.protocol.parse_create import create_from, parse_count
from antiphon.protocol.parse_items import parse_item
from antiphon.protocol.parse_tools import parse_tools
from antiphon.service.responses.create import Creator
from antiphon.service.responses.input_tokens import Count, TokenCount
from antiphon.turn.token_estimate import estimate_tokens
from tests.service.conftest import MakeCreator

FUNCTION: dict[str, Any] = {
    "type": "function",
    "name": "f",
    "parameters": {"type": "object", "properties": {}},
}

CALLER = Caller.of("t")


class Counting(ScriptedBackend):
    """A backend with a tokenizer: every word is a token."""

    async def count_tokens(self, text: str) -> int:
        if text == "broken":
            raise BackendBroken
        return len(text.split())


def counter(creator: Creator) -> TokenCount:
    return TokenCount(router=creator.router, contexts=creator.parts.contexts, sent=creator.parts.files.sent)


async def count(creator: Creator, **params: Any) -> Count:
    return await counter(creator).count(create_from(**{"model": "m", **params}), CALLER)


@pytest.mark.parametrize(
    ("item", "tokens"),
    [
        ({"role": "user", "content": "x" * 8}, 2),
        ({"role": "user", "content": "x" * 9}, 3),
        ({"role": "user", "content": ""}, 0),
        ({"role": "user", "content": "語語語語"}, 3),
        ({"role": "user", "content": [{"type": "input_text", "text": "x" * 4}] * 2}, 2),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "x" * 4}]}, 1),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "data:" + "x" * 999}]}, 765),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "u", "detail": "low"}]}, 85),
        ({"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}, 1000),
        ({"type": "function_call", "call_id": "c", "name": "name", "arguments": "{}{}"}, 2),
        ({"type": "custom_tool_call", "call_id": "c", "name": "name", "input": "text"}, 2),
        ({"type": "function_call_output", "call_id": "c", "output": "x" * 4}, 1),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "x" * 4}]}, 1),
        (
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "x" * 99}],
                "content": [{"type": "reasoning_text", "text": "x" * 4}],
            },
            1,
        ),
    ],
)
def test_the_estimate_of_an_item(item: dict[str, Any], tokens: int) -> None:
    assert estimate_tokens([parse_item(item, Definitions(), "input[0]")], None, ()) == tokens + 4


def test_instructions_count_as_an_item_and_tools_by_their_text() -> None:
    assert estimate_tokens((), "x" * 8, ()) == 2 + 4
    assert estimate_tokens((), None, ()) == 0
    small = estimate_tokens((), None, parse_tools([FUNCTION], Definitions()))
    large = estimate_tokens((), None, parse_tools([{**FUNCTION, "description": "x" * 400}], Definitions()))
    assert 10 < small < 40
    assert 95 < large - small < 105


async def test_the_complete_context_of_the_request_counts(make_creator: MakeCreator) -> None:
    creator = make_creator(ScriptedBackend.saying("x" * 40))
    first = await creator.start(create_from(model="m", input="y" * 40, tools=[FUNCTION]), CALLER).result()
    input_only = await count(creator, input="z" * 40)
    after = await count(creator, input="z" * 40, previous_response_id=first.id)
    inherited = estimate_tokens((), None, parse_tools([FUNCTION], Definitions()))
    assert input_only == Count(14, "estimate")
    assert after.tokens - 3 * input_only.tokens - inherited in (0, 1)
    referred = await count(creator, input=[{"type": "item_reference", "id": first.output[0].id}])
    assert referred == input_only
    with pytest.raises(NotFound):
        await count(creator, input="z", previous_response_id="resp_none")


async def test_a_tokenizer_counts_texts_and_only_message_overhead_is_added(make_creator: MakeCreator) -> None:
    creator = make_creator(Counting([]))
    assert await count(creator, input="a b c", instructions="d e") == Count(5 + 8, "exact")
    with pytest.raises(BackendBroken):
        await count(creator, input="broken")


async def test_non_text_content_makes_it_an_estimate(make_creator: MakeCreator) -> None:
    image = [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x.test/i.png"}]}]
    assert (await count(make_creator(Counting([])), input=image)).by == "estimate"


async def test_without_a_model_it_is_an_estimate(make_creator: MakeCreator) -> None:
    request = parse_count(b'{"input": "one two"}')
    assert (await counter(make_creator(Counting([]))).count(request, CALLER)).by == "estimate"


async def test_sealed_reasoning_is_counted_by_its_content(make_creator: MakeCreator) -> None:
    creator = make_creator(Counting([]))
    sealed = Reasoning(
        id="rs_1",
        summary=[],
        encrypted_content=creator.parts.seal_key.sealer("t").seal("one two three") or "",
    )
    body: dict[str, Any] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": sealed.encrypted_content,
    }
    assert await count(creator, input=[body]) == Count(3 + 4, "exact")
