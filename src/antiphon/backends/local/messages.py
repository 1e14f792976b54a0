"""Translate a turn into requests to the embedded model. Pure.

The chat-completions dialect does the translation. A small model needs more: always a system prompt, always a
stream, default sampling, and no tools in the request, because the templates of these models ignore them.
"""

from typing import Literal, NamedTuple

import msgspec

from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.tools import chat_tools
from antiphon.backends.local.tools import answer_label, arguments_body, choice_body, input_body
from antiphon.backends.local.weights import Sampling
from antiphon.backends.placeholders import GO_ON
from antiphon.backends.registry import Quirks
from antiphon.grammars.llguidance import render_llguidance
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrade, Downgrades
from antiphon.protocol.items import FunctionCallOutput
from antiphon.turn.context import TurnRequest, TurnTool
from antiphon.turn.function_forms.file_searches import has_passages

SYSTEM_PROMPT = "You are a helpful assistant."
"""Never none: the templates' own default makes the small model talk nonsense."""
CITING = "Answer the question in sentences, and end each sentence with the number of its passage: [1]."
"""Behind passages: small models forget what is before them."""
_COPYING = Sampling(temperature=0.0)
"""For answers from passages. A penalty of repetitions would change the facts, and leave out the numbers."""
EMULATED = Downgrade("emulated", "tools are emulated by constrained decoding", ("tools",))
QUIRKS = Quirks(json_object=False, images=None, efforts=(), strict_tools=True, grammars=True)
MOST_ARGUMENT_TOKENS = 1024
_Mode = Literal["answer", "choose", "call"]
_CHOICE_TOKENS = 128
_FIXED: JsonObject = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_progress": True,  # a sign of life after each batch of the prompt: a chance to cancel
}
_WISHES = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


class Prompt(NamedTuple):
    """A turn, ready to ask. `functions`: among which to choose; none, a certain one, or more."""

    body: JsonObject
    functions: tuple[JsonObject, ...]
    answer: str
    """The label of the choice to answer with text; empty: it must call."""
    sampling: JsonObject
    downgrades: tuple[Downgrade, ...]
    grammars: dict[str, str]
    """The grammars of the functions whose input is text by one, by name."""
    requests: dict[str, tuple[str, ...]]
    """Examples of requests that need a function, by name."""
    max_output: int
    """Tokens of an answer whose request sets no limit."""

    @property
    def constrained(self) -> bool:
        """Whether the answer is written by a schema or a grammar."""
        return "response_format" in self.body or "grammar" in self.body

    def answering(self, spent: int) -> bytes:
        """Request the answer as text, within its limit minus `spent` tokens."""
        limit = self.body.get("max_tokens", self.max_output)
        return _encode({**self.sampling, **self.body, "max_tokens": max(1, limit - spent)})

    def choosing(self) -> bytes:
        """Ask which function to call."""
        body = choice_body(self.functions, self.body["messages"], self.answer, self.requests)
        return _encode({**body, "max_tokens": _CHOICE_TOKENS})

    def calling(self, function: JsonObject) -> bytes:
        """Ask for the arguments of a function."""
        limit = min(self.body.get("max_tokens", MOST_ARGUMENT_TOKENS), MOST_ARGUMENT_TOKENS)
        wishes = {name: self.body[name] for name in _WISHES if name in self.body}
        grammar = self.grammars.get(function["name"])
        if grammar is None:
            body = arguments_body(function, self.body["messages"])
        else:
            body = input_body(function, self.body["messages"], grammar)
        return _encode({**self.sampling, "temperature": 0, **wishes, **body, "max_tokens": limit})


def build_prompt(turn: TurnRequest, sampling: Sampling, max_output: int) -> Prompt:
    """Translate a turn. Raises `Unsupported` or `InvalidRequest`."""
    downgrades = Downgrades()
    mode = _mode(turn)
    # Its downgrades of grammars do not apply: grammars are enforced here.
    functions = (
        [tool["function"] for tool in chat_tools(turn, QUIRKS, Downgrades())] if mode != "answer" else []
    )
    if turn.tools:
        downgrades.append(EMULATED)
    payload = build_payload(msgspec.structs.replace(turn, tools=(), choice="none"), QUIRKS)
    body = payload.body
    if not body["messages"] or body["messages"][0]["role"] != "system":
        body["messages"].insert(0, {"role": "system", "content": SYSTEM_PROMPT})
    if _answers_from_passages(turn, body, mode):
        sampling = _COPYING
        body["messages"][-1]["content"] += f"\n\n{CITING}"
    if body["messages"][-1]["role"] == "assistant":
        body["messages"].append({"role": "user", "content": GO_ON})
        downgrades.add(
            "input_rewritten", "a user message is added after the model's own last message", "input"
        )
    return Prompt(
        body=body,
        functions=tuple(functions),
        answer=answer_label(functions) if mode == "choose" else "",
        sampling=msgspec.to_builtins(sampling),
        downgrades=(*payload.downgrades, *downgrades),
        grammars=_grammars(turn),
        requests={tool.name: tool.requests for tool in turn.tools if tool.requests},
        max_output=max_output,
    )


def _grammars(turn: TurnRequest) -> dict[str, str]:
    found = {tool.name: render_llguidance(tool.grammar) for tool in turn.tools if tool.grammar is not None}
    return {name: grammar for name, grammar in found.items() if grammar is not None}


def _answers_from_passages(turn: TurnRequest, body: JsonObject, mode: _Mode) -> bool:
    """Whether the model now writes text from passages that it was just shown."""
    return (
        mode == "answer"
        and "response_format" not in body
        and bool(turn.items)
        and has_passages(turn.items[-1])
        and body["messages"][-1]["role"] == "tool"
    )


def _mode(turn: TurnRequest) -> _Mode:
    if not turn.tools or turn.choice == "none":
        return "answer"
    if turn.choice == "required" or isinstance(turn.choice, TurnTool):
        return "call"
    # After a tool's output small models only call the tool again if they still see it.
    return "answer" if _is_output(turn) else "choose"


def _is_output(turn: TurnRequest) -> bool:
    """Whether the last item is the output of a tool."""
    return bool(turn.items) and isinstance(turn.items[-1], FunctionCallOutput)


def _encode(body: JsonObject) -> bytes:
    return msgspec.json.encode({**body, **_FIXED})
