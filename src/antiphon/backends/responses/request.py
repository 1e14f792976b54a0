"""Translate a turn into the body of ``POST /responses``. Pure: a turn and an endpoint in, a body out.

Parameters are passed on if the row of the endpoint lists them. Antiphon itself handles state, truncation,
compaction and metadata, and does not send these parameters. `downgrades` reports all omissions.
"""

from collections.abc import Mapping
from typing import get_args

from msgspec import to_builtins

from antiphon.backends.features import FUNCTIONS
from antiphon.backends.payload import Payload
from antiphon.backends.registry import ALL_EFFORTS, Endpoint, Hint
from antiphon.backends.responses.messages import input_items
from antiphon.backends.responses.tools import declared_tools, tool_choice
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.requests import CreateBody, Effort
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import TurnRequest

_SEALED = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
_SERVED_BY: Mapping[str, str] = {
    "file_search_call.results": "file_search",
    "web_search_call.results": "web_search",
    "web_search_call.action.sources": "web_search",
    "code_interpreter_call.outputs": "code_interpreter",
}
"""The values of `include` for each hosted tool. Antiphon handles all others itself."""
_AS_THEY_CAME = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "max_output_tokens")
_FULL = ("image", "access_programs")
"""Parameters that only complete Responses APIs take."""


def build_payload(turn: TurnRequest, endpoint: Endpoint) -> Payload:
    """Translate a turn."""
    downgrades, params = Downgrades(), turn.params
    body: JsonObject = {"model": turn.model, "input": input_items(turn, endpoint, downgrades), "store": False}
    if params.instructions:
        body["instructions"] = params.instructions
    _put_tools(body, turn, endpoint, downgrades)
    body |= _given(params, _AS_THEY_CAME)
    _put_text(body, params, endpoint, downgrades)
    _put_reasoning(body, params, endpoint, downgrades)
    _put_included(body, params, endpoint, downgrades)
    _put_hints(body, params, endpoint, downgrades)
    if turn.streamed:
        body["stream"] = True
        if endpoint.quirks.obfuscates:
            body["stream_options"] = {"include_obfuscation": False}
    return Payload(body, tuple(downgrades), _unenforced(turn, endpoint))


def _unenforced(turn: TurnRequest, endpoint: Endpoint) -> frozenset[Constraint]:
    """The constraints that the upstream does not enforce: the grammar of a tool in function form."""
    described = "custom" not in endpoint.natives and any(
        tool.grammar is not None and tool.grammar.type == "grammar" for tool in turn.tools
    )
    return frozenset({"grammar"}) if described else frozenset()


def _given(params: CreateBody, names: tuple[str, ...]) -> JsonObject:
    return {name: value for name in names if (value := getattr(params, name)) is not None}


def _put_tools(body: JsonObject, turn: TurnRequest, endpoint: Endpoint, downgrades: Downgrades) -> None:
    tools = declared_tools(turn, endpoint, downgrades)
    if not tools:
        return
    body["tools"] = tools
    choice = tool_choice(turn, endpoint)
    if choice is not None:
        body["tool_choice"] = choice
    if turn.params.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = turn.params.parallel_tool_calls


def _put_text(body: JsonObject, params: CreateBody, endpoint: Endpoint, downgrades: Downgrades) -> None:
    if params.text is None:
        return
    text = to_builtins(params.text)
    if not endpoint.quirks.verbosity and text.pop("verbosity", None) in ("low", "high"):
        downgrades.add("not_sent", "not sent to this model's server: {param}", "text.verbosity")
    if text:
        body["text"] = text


def _put_reasoning(body: JsonObject, params: CreateBody, endpoint: Endpoint, downgrades: Downgrades) -> None:
    if params.reasoning is None:
        return
    given = to_builtins(params.reasoning)
    reasoning = {name: value for name, value in given.items() if value is not None}
    if params.reasoning.effort is not None:
        reasoning["effort"] = _nearest(params.reasoning.effort, endpoint.quirks.efforts)
        if reasoning["effort"] != params.reasoning.effort:
            downgrades.add(
                "value_changed",
                f"reasoning effort '{params.reasoning.effort}' is sent as '{reasoning['effort']}'",
                "reasoning.effort",
            )
    if not endpoint.quirks.sealed_reasoning:
        reasoning.pop("context", None)
        if reasoning.pop("mode", None) == "pro":
            downgrades.add("not_sent", "not sent to this model's server: {param}", "reasoning.mode")
    if reasoning:
        body["reasoning"] = reasoning


def _nearest(wanted: Effort, offered: tuple[Effort, ...]) -> Effort:
    """The offered effort with the least difference; of two, the greater."""
    place = ALL_EFFORTS.index
    return min(offered, key=lambda effort: (abs(place(effort) - place(wanted)), -place(effort)))


def _put_included(body: JsonObject, params: CreateBody, endpoint: Endpoint, downgrades: Downgrades) -> None:
    asked = params.include or ()
    include = [name for name in asked if _SERVED_BY.get(name) in endpoint.natives]
    if params.top_logprobs or _LOGPROBS in asked:
        if endpoint.quirks.logprobs:
            include.append(_LOGPROBS)
            body |= _given(params, ("top_logprobs",))
        else:
            downgrades.add(
                "output_omitted",
                "logprobs are left out: this model's server does not send them",
                "top_logprobs",
            )
    if endpoint.quirks.sealed_reasoning:
        include.append(_SEALED)
    if include:
        body["include"] = include


def _put_hints(body: JsonObject, params: CreateBody, endpoint: Endpoint, downgrades: Downgrades) -> None:
    """Send the parameters that do not change the answer; one downgrade names those that cannot be sent."""
    quirks = endpoint.quirks
    hints = _given(params, get_args(Hint))
    left = [name for name in hints if name not in quirks.hints]
    if params.service_tier in ("auto", "default"):
        left = [name for name in left if name != "service_tier"]
    body |= {name: value for name, value in hints.items() if name in quirks.hints}
    if quirks.prompt_cache:
        body |= _given(params, ("prompt_cache_options",))
    elif params.prompt_cache_options:
        left.append("prompt_cache_options")
    full = _given(params, _FULL)
    if endpoint.natives != FUNCTIONS:
        body |= {**full, **_given(params, ("max_tool_calls",))}  # others have no tools of their own
    else:
        left += full
    if left:
        downgrades.add("not_sent", "not sent to this model's server: {param}", *left)
