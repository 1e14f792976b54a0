"""Tools for models that cannot call any: choose a tool, then write its arguments, under JSON schemas. Pure.

The choice is constrained to the names of tools; the arguments are then written under the tool's own schema,
so that a call is always valid. The choice has examples, without which small models choose nearly at random:
requests that a tool names, or else its description.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle

import msgspec

from antiphon.protocol.content import JsonObject

_SMALL_TALK = ("Hello!", "Explain what a noun is.", "Write a story about a cat.")
_CHAT = ("Hello!", "Write a story about a cat.", "Thanks!")
"""The same beside a tool that answers questions."""
_MAX_EXAMPLES = 12
_MAX_EXCERPT_CHARACTERS = 300
_COMPOSED = frozenset({"anyOf", "oneOf", "allOf", "$ref", "required", "minProperties", "patternProperties"})


def choice_body(
    functions: Sequence[JsonObject],
    messages: Sequence[JsonObject],
    answer: str,
    requests: Mapping[str, Sequence[str]],
) -> JsonObject:
    """Ask which function the conversation needs now. `answer` is the choice of no function; if it is empty,
    one must be chosen. `requests` are examples for functions, by name."""
    names = [function["name"] for function in functions]
    lines = [f"- {signature(function)}" for function in functions]
    if answer:
        names.append(answer)
        lines.append(f"- {answer}: for everything else, such as small talk, general knowledge and writing")
    rules = "\n".join(["You choose the tool that a request needs.", "", "Tools:", *lines])
    prompt = [
        _message("system", f"{messages[0]['content']}\n\n{rules}"),
        *_examples(functions, answer, requests),
    ]
    return {
        "messages": [*prompt, _message("user", _request(messages))],
        "response_format": constrained({"enum": names}),
        "temperature": 0,
    }


def arguments_body(function: JsonObject, messages: Sequence[JsonObject]) -> JsonObject:
    """Ask for the arguments of one function, given the conversation with its system message first."""
    name = function["name"]
    ask = [f"You have the tool {signature(function)}", *_parameter_notes(function)]
    system = "\n".join([*ask, f"Reply with the arguments of {name} as JSON."])
    return {
        "messages": [_message("system", f"{messages[0]['content']}\n\n{system}"), *messages[1:]],
        "response_format": constrained(function["parameters"]),
    }


def input_body(function: JsonObject, messages: Sequence[JsonObject], grammar: str) -> JsonObject:
    """Ask for the input of a tool that takes text by a grammar. Its description contains the grammar and is
    not shortened."""
    name = function["name"]
    ask = [f"You have the tool {name}: {function.get('description') or name}"]
    system = "\n".join([*ask, f"Reply with the input of {name}, and nothing else."])
    return {
        "messages": [_message("system", f"{messages[0]['content']}\n\n{system}"), *messages[1:]],
        "grammar": grammar,
    }


def takes_nothing(function: JsonObject) -> bool:
    """Whether the empty object is the only possible arguments, so that the model need not write them."""
    parameters: JsonObject = function["parameters"]
    return not parameters.get("properties") and not _COMPOSED & parameters.keys()


def read_choice(text: str, functions: Sequence[JsonObject]) -> JsonObject | None:
    """The function that was chosen, or None for an answer."""
    try:
        name = msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        name = ""
    return next((function for function in functions if function["name"] == name), None)


def answer_label(functions: Sequence[JsonObject]) -> str:
    """A name for "none of them" that no function has."""
    label = "answer"
    while any(function["name"] == label for function in functions):
        label += "_directly"
    return label


def signature(function: JsonObject) -> str:
    """One line: ``get_weather(city: string, unit?: "c" | "f"): Get the weather``."""
    parameters: JsonObject = function["parameters"]
    head = f"{function['name']}{_members(parameters, '()')}"
    description = _short(function.get("description") or "")
    return f"{head}: {description}" if description else head


def constrained(schema: JsonObject) -> JsonObject:
    """The response format that holds the model to a schema."""
    return {"type": "json_schema", "json_schema": {"name": "json", "schema": schema}}


def _members(schema: JsonObject, brackets: str) -> str:
    properties: dict[str, JsonObject | bool] = schema.get("properties") or {}
    required: list[str] = schema.get("required") or []
    inner = (
        f"{name}{'' if name in required else '?'}: {_kind(member)}" for name, member in properties.items()
    )
    return f"{brackets[0]}{', '.join(inner)}{brackets[1]}"


def _kind(schema: JsonObject | bool) -> str:
    """A JSON Schema type, as short as possible."""
    if isinstance(schema, bool):
        return "any"
    options: list[JsonObject] = schema.get("anyOf") or schema.get("oneOf") or []
    if options:
        return " | ".join(map(_kind, options))
    values: list[object] = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if values:
        return " | ".join(map(_json, values))
    kind: list[str] | str = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"{_kind(schema['items'])}[]"
    if kind == "object" and schema.get("properties"):
        return _members(schema, "{}")
    return kind if isinstance(kind, str) else " | ".join(kind)


def _parameter_notes(function: JsonObject) -> list[str]:
    properties: dict[str, JsonObject | bool] = function["parameters"].get("properties") or {}
    described = {
        name: member.get("description") for name, member in properties.items() if isinstance(member, dict)
    }
    return [f"- {name}: {_short(text)}" for name, text in described.items() if text]


def _examples(
    functions: Sequence[JsonObject], answer: str, requests: Mapping[str, Sequence[str]]
) -> list[JsonObject]:
    """Requests for each tool, in turn with some for none: the order that was measured to be the fairest."""
    wishes = [(function["name"], wish) for function in functions for wish in _wishes(function, requests)]
    talk = cycle(_CHAT if any(function["name"] in requests for function in functions) else _SMALL_TALK)
    messages_shown: list[JsonObject] = []
    for name, wish in wishes[:_MAX_EXAMPLES]:
        if answer:
            messages_shown += [_message("user", next(talk)), _message("assistant", _json(answer))]
        messages_shown += [_message("user", wish), _message("assistant", _json(name))]
    return messages_shown


def _wishes(function: JsonObject, requests: Mapping[str, Sequence[str]]) -> Sequence[str]:
    name: str = function["name"]
    return requests.get(name) or [_short(function.get("description") or f"Use {name}")]


def _request(messages: Sequence[JsonObject]) -> str:
    """The user's last message; in a conversation with the ones before it, which "And in Rome?" needs."""
    messages_shown = [
        message for message in messages if message["role"] in ("user", "assistant") and message["content"]
    ]
    while messages_shown and messages_shown[-1]["role"] != "user":
        messages_shown.pop()
    if len(messages_shown) < 2:
        return messages_shown[0]["content"] if messages_shown else ""
    earlier = [
        f"{message['role']}: {message['content'][:_MAX_EXCERPT_CHARACTERS]}"
        for message in messages_shown[-3:-1]
    ]
    return "\n".join([*earlier, f"user: {messages_shown[-1]['content']}"])


def _message(role: str, content: str) -> JsonObject:
    return {"role": role, "content": content}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _short(text: str) -> str:
    """On one line, and not a page of it: the prompt is read at a few hundred tokens a second."""
    return " ".join(text.split())[:_MAX_EXCERPT_CHARACTERS]
