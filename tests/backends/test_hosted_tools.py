"""A hosted tool of this server, its choice and its items, in the requests of every dialect."""

from typing import Any

import pytest

from antiphon.backends.anthropic_messages.request import build_payload as anthropic_payload
from antiphon.backends.chat_completions.request import build_payload as chat_payload
from antiphon.backends.gemini.request import build_payload as gemini_payload
from antiphon.backends.registry import default_endpoint
from antiphon.backends.responses.request import build_payload as responses_payload
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tools import HostedTool
from antiphon.turn.context import TurnRequest, build_turn
from antiphon.turn.toolbox import HostedToolset
from antiphon.turn.tools import HostedForm

TOOL = {"type": "file_search", "vector_store_ids": ["vs_1"]}
PLACE = {"vector_store_id": "vs_1", "chunk": 0, "label": "page 3", "score": 0.5}
FOUND = {
    "type": "file_search_call",
    "id": "fs_1",
    "status": "completed",
    "queries": ["why blue"],
    "results": [{"file_id": "file_1", "filename": "sky.pdf", "text": "It is blue.", "antiphon": PLACE}],
}
KINDS = ("plain", "anthropic", "gemini", "openai-responses")


def turn(kind: str, **params: Any) -> TurnRequest:
    request = create_from(model="m", tools=[TOOL], **params)
    (declared,) = request.tools
    assert isinstance(declared, HostedTool)
    form = HostedForm(
        key="file_search/0",
        declared=declared,
        name="file_search",
        description="Search.",
        parameters={"type": "object", "properties": {"queries": {"type": "array"}}},
    )
    toolset = HostedToolset(served=frozenset({"file_search"}), forms=(form,), opened=(declared,))
    return build_turn(request, model="m", native=default_endpoint(kind).natives, hosted=toolset)


def sent(kind: str, turn: TurnRequest) -> str:
    endpoint = default_endpoint(kind)
    match kind:
        case "plain":
            return str(chat_payload(turn, endpoint.quirks).body)
        case "anthropic":
            return str(anthropic_payload(turn, endpoint).body)
        case "gemini":
            return str(gemini_payload(turn, endpoint).body)
        case _:
            return str(responses_payload(turn, endpoint).body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_shown_a_function_and_the_passages(kind: str) -> None:
    history = [{"role": "user", "content": "Why?"}, FOUND, {"role": "user", "content": "Sure?"}]
    body = sent(kind, turn(kind, input=history))
    assert "'name': 'file_search'" in body
    assert "vector_store_ids" not in body
    assert "[1] sky.pdf, page 3" in body
    assert "It is blue." in body
    assert "file_search_call" not in body


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_without_results_is_shown_as_a_call_too(kind: str) -> None:
    history = [{"role": "user", "content": "Why?"}, {**FOUND, "results": []}]
    body = sent(kind, turn(kind, input=history))
    assert "The search found nothing." in body
    assert "file_search_call" not in body


@pytest.mark.parametrize("kind", KINDS)
def test_the_choice_of_the_tool_is_that_of_its_function(kind: str) -> None:
    chosen = turn(kind, input="Why?", tool_choice={"type": "file_search"})
    assert not isinstance(chosen.choice, str)
    assert chosen.choice.hosted_type == "file_search"
    assert "'type': 'file_search'" not in sent(kind, chosen)


def test_passages_of_this_server_are_never_sent_as_those_of_the_upstream() -> None:
    native = default_endpoint("openai-responses").natives
    items = [{"role": "user", "content": "Why?"}, FOUND, {"role": "user", "content": "Sure?"}]
    shown = build_turn(create_from(model="m", input=items), model="m", native=native)
    assert "file_search_call" not in sent("openai-responses", shown)
    theirs = {**FOUND, "results": None}
    shown = build_turn(
        create_from(model="m", input=[*items[:1], theirs, *items[2:]]), model="m", native=native
    )
    assert "file_search_call" in sent("openai-responses", shown)
