"""Tools for models whose template shows none: described in the system message, in the convention of Hermes.

`turn/text_calls` parses the calls in the model's text. Earlier calls and their outputs are shown in the same
convention, because a model imitates its own earlier turns.
"""

import msgspec
from msgspec.structs import replace

from antiphon.protocol.content import InputText, JsonObject, MessagePart
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message
from antiphon.turn.calls_as_json import tool_lines
from antiphon.turn.context import TurnRequest

_TEACHING = """\
You can use tools. Here they are, one in each line, with a JSON schema of their parameters:
<tools>
{}
</tools>
To use a tool, write a call of it, and wait for what comes of it. This is a call:
<tool_call>
{{"name": "the name of the tool", "arguments": {{"a parameter": "its value"}}}}
</tool_call>
What comes of it is told to you between <tool_response> and </tool_response>."""
_MUST = "You must answer with such a call now, and not with text, of one of these tools: {}."
_ONE = "Write one call at most."


def described(turn: TurnRequest, downgrades: Downgrades, asks: list[str]) -> TurnRequest:
    """The turn as plain text. The description of the tools is appended to `asks`."""
    if turn.tools:
        asks.append(_TEACHING.format(tool_lines(turn.tools)))
        downgrades.add(
            "emulated", "tools are described in the prompt, and calls are read from the text", "tools"
        )
        if turn.choice not in ("auto", "none"):
            asks.append(_MUST.format(", ".join(tool.name for tool in turn.tools)))
            downgrades.add(
                "not_enforced",
                "{param} is asked for in the prompt: this model's server does not enforce it",
                "tool_choice",
            )
        if turn.params.parallel_tool_calls is False:
            asks.append(_ONE)
    return replace(turn, items=tuple(map(_told, turn.items)), tools=(), choice="none")


def merge_roles(messages: list[JsonObject]) -> list[JsonObject]:
    """Messages of one role become one: many templates want the roles to take turns."""
    merged: list[JsonObject] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is None or last["role"] != message["role"] or message["role"] == "system":
            merged.append(message)
        else:
            merged[-1] = {
                name: _joined(last.get(name), message.get(name)) if name != "role" else message["role"]
                for name in (last | message)  # the content, and the reasoning that led to it
            }
    return merged


def _joined(one: str | list[JsonObject] | None, other: str | list[JsonObject] | None) -> object:
    if isinstance(one, list) or isinstance(other, list):
        return [*_parts(one), *_parts(other)]
    return "\n".join(filter(None, (one, other)))


def _parts(content: str | list[JsonObject] | None) -> list[JsonObject]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _told(item: Item) -> Item:
    match item:
        case FunctionCall():
            return Message(role="assistant", content=_call(item))
        case FunctionCallOutput():
            return Message(role="user", content=_output(item))
        case _:
            return item


def _call(item: FunctionCall) -> str:
    try:
        arguments: object = msgspec.json.decode(item.arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        arguments = item.arguments
    call = msgspec.json.encode({"name": item.name, "arguments": arguments}).decode()
    return f"<tool_call>\n{call}\n</tool_call>"


def _output(item: FunctionCallOutput) -> str | list[MessagePart]:
    if isinstance(item.output, str):
        return f"<tool_response>\n{item.output}\n</tool_response>"
    return [InputText(text="<tool_response>"), *item.output, InputText(text="</tool_response>")]
