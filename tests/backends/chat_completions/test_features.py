"""The features that a row claims in the manifest match its requests, row by row."""

import base64
import json
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from antiphon.backends.chat_completions.client import chat_features
from antiphon.backends.chat_completions.request import Payload, build_payload
from antiphon.backends.features import FUNCTIONS, Feature
from antiphon.backends.registry import ENDPOINTS, Quirks
from antiphon.errors import InvalidRequest
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.tools import TextFormatGrammar
from antiphon.turn.context import build_turn

ROWS = {kind: row.quirks for kind, row in ENDPOINTS.items() if row.dialect == "chat_completions"}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("look", "jump")
]
SCHEMA = {"type": "object", "properties": {"unmistakable": {"type": "integer"}}}
FORMAT = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}
DATA = base64.b64encode(b"x").decode()
THINKING = [
    {"role": "user", "content": "hi"},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "unmistakable"}]},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "seen"},
]
GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "[ab]+"}
CACHED = {"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}

every_row = pytest.mark.parametrize("quirks", ROWS.values(), ids=ROWS)


def build(quirks: Quirks, **params: Any) -> Payload:
    request = create_from(**{"model": "m", "input": "hi", **params})
    return build_payload(build_turn(request, model="m", native=FUNCTIONS), quirks)


def messages_json(payload: Payload) -> str:
    return json.dumps(payload.body["messages"])


def taken(quirks: Quirks, part: dict[str, Any]) -> bool:
    try:
        build(quirks, input=[{"role": "user", "content": [part]}])
    except InvalidRequest:
        return False
    return True


def level(quirks: Quirks, feature: Feature) -> str:
    return chat_features(quirks)[feature].level


@every_row
def test_every_feature_has_an_entry_and_a_reason(quirks: Quirks) -> None:
    features = chat_features(quirks)
    assert set(features) == set(get_args(Feature))
    assert all(support.why or support.level == "native" for support in features.values())


@every_row
def test_streaming_and_usage(quirks: Quirks) -> None:
    body = build(quirks, stream=True).body
    assert (body["stream"], level(quirks, "streaming"), level(quirks, "usage")) == (True, "native", "native")
    assert ("stream_options" in body) == quirks.usage_on_request


@every_row
def test_tools(quirks: Quirks) -> None:
    custom = {"type": "custom", "name": "write"}
    shown = build(quirks, tools=[*TOOLS, custom]).body["tools"]
    assert [tool["type"] for tool in shown] == ["function"] * 3
    assert (level(quirks, "function_tools"), level(quirks, "custom_tools")) == ("native", "emulated")
    native = "parallel_tool_calls" in build(quirks, tools=TOOLS, parallel_tool_calls=False).body
    assert native == (level(quirks, "single_tool_calls") == "native")
    assert level(quirks, "parallel_tool_calls") == "native"


@every_row
def test_grammars(quirks: Quirks) -> None:
    called = build(quirks, tools=[{"type": "custom", "name": "write", "format": GRAMMAR}])
    assert (
        "grammar" in called.unenforced
    )  # calls that the model makes by itself are not constrained by a grammar
    turn = build_turn(create_from(model="m", input="hi"), model="m", native=FUNCTIONS)
    without_tools = build_payload(
        replace(turn, grammar=TextFormatGrammar("grammar", "regex", "[ab]+")), quirks
    )
    assert ("grammar" in without_tools.unenforced) == (level(quirks, "constrained_text") == "unsupported")
    assert level(quirks, "grammars") == "emulated"


@every_row
def test_forced_tools(quirks: Quirks) -> None:
    required = build(quirks, tools=TOOLS, tool_choice="required")
    named = build(quirks, tools=TOOLS, tool_choice={"type": "function", "name": "jump"})
    assert (required.body.get("tool_choice") == "required") == (
        level(quirks, "tool_choice_required") == "native"
    )
    assert isinstance(named.body.get("tool_choice"), dict) == (level(quirks, "tool_choice_named") == "native")
    if level(quirks, "tool_choice_required") == "emulated":
        assert "tool_choice" in required.unenforced
    if level(quirks, "tool_choice_named") == "emulated":
        only = [tool["function"]["name"] for tool in named.body["tools"]] == ["jump"]
        assert (only and named.body.get("tool_choice") == "required") or "tool_choice" in named.unenforced


@every_row
def test_structured_output(quirks: Quirks) -> None:
    payload = build(quirks, text=FORMAT)
    enforced = payload.body.get("response_format", {}).get("type") == "json_schema"
    assert enforced == (level(quirks, "structured_output") == "native")
    assert enforced != ("format" in payload.unenforced)
    assert enforced != ("unmistakable" in messages_json(payload))
    free = build(quirks, text={"format": {"type": "json_object"}})
    assert ("response_format" in free.body) == (level(quirks, "json_mode") == "native")
    assert ("response_format" in free.body) != ("format" in free.unenforced)


@every_row
def test_reasoning(quirks: Quirks) -> None:
    body = build(quirks, reasoning={"effort": "high"}).body
    sent = bool({"reasoning_effort", "reasoning", "thinking"} & set(body))
    assert sent == (level(quirks, "reasoning_effort") == "native")
    replayed = "unmistakable" in messages_json(build(quirks, input=THINKING, tools=TOOLS))
    assert replayed == (level(quirks, "reasoning_replay") == "native")


@every_row
def test_supported_attachments(quirks: Quirks) -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"}
    file = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"}
    audio = {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}
    parts: dict[Feature, dict[str, Any]] = {"images": image, "files": file, "audio": audio}
    for feature, part in parts.items():
        assert taken(quirks, part) == (level(quirks, feature) == "native"), feature


@every_row
def test_logprobs_and_caching(quirks: Quirks) -> None:
    logprobs = build(quirks, include=["message.output_text.logprobs"]).body.get("logprobs")
    assert bool(logprobs) == (level(quirks, "logprobs") == "native")
    cached = build(quirks, input=[{"role": "user", "content": [CACHED]}])
    assert ("prompt_cache_breakpoint" in messages_json(cached)) == (
        level(quirks, "prompt_caching") == "native"
    )
