"""Schemas, patterns and grammars whose check costs much more than their bytes."""

from itertools import count
from typing import Any

from bench.hostile.client import HostileClient
from bench.hostile.registry import attack

JsonObject = dict[str, Any]
NUMBERS = count()
"""A number in each body, so that no cache of compiled ones helps."""


def json_schema(schema: JsonObject) -> JsonObject:
    """The parameter `text` that demands this schema."""
    return {"format": {"type": "json_schema", "name": "s", "schema": schema, "strict": False}}


def nested_schema(depth: int = 24) -> JsonObject:
    """Every definition names the next one twice: 2**depth ways to fail, in 1.6 kB."""
    inner: dict[str, JsonObject] = {
        f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(depth)
    }
    inner[f"d{depth}"] = {"const": next(NUMBERS)}
    return {"$ref": "#/$defs/d0", "$defs": inner}


@attack("nested anyOf/$ref schema")
async def schema_of_nested_choices(client: HostileClient) -> None:
    """The answer violates a schema of 1.6 kB in 2**24 ways."""
    await client.create(model="json", text=json_schema(nested_schema()))


@attack("nested anyOf/$ref schema, background", parallel=2)
async def schema_in_the_background(client: HostileClient) -> None:
    """The same in a background response, where the check runs after the client has left."""
    await client.create(
        model="json", text=json_schema(nested_schema()), background=True, store=True, stream=False
    )


@attack("1,000 patterns \\p{L}{1,200}", parallel=2)
async def schema_of_patterns(client: HostileClient) -> None:
    """Each pattern is a large automaton."""
    number = next(NUMBERS)
    patterns = {f"p{n}": {"type": "string", "pattern": rf"\p{{L}}{{1,200}}{number}_{n}"} for n in range(1000)}
    await client.create(model="json", text=json_schema({"type": "object", "properties": patterns}))


@attack("3,000 oneOf constants", parallel=2)
async def schema_of_constants(client: HostileClient) -> None:
    """One error that quotes 3,000 alternatives."""
    constants: list[JsonObject] = [{"const": {"n": n, "salt": next(NUMBERS)}} for n in range(3000)]
    await client.create(model="json", text=json_schema({"oneOf": constants}))


def grammar_tool(definition: str) -> JsonObject:
    """A custom tool with a regular expression."""
    grammar = {"type": "grammar", "syntax": "regex", "definition": definition}
    return {"type": "custom", "name": "g", "format": grammar}


def large_grammars() -> list[str]:
    """Three regular expressions of 35 kB, each with large automata of another kind."""
    salt = next(NUMBERS)
    words = "|".join(rf"\p{{L}}{{1,60}}x{salt}_{n}" for n in range(1700))
    repeated = "".join(rf"[a-z{n % 10}]{{0,50}}y?" for n in range(2000))
    nested = "".join(f"((a{n}|b{salt})*c)" for n in range(2300))
    return [f"({words})", f"{repeated}{salt}", nested]


@attack("35 kB regex grammars, create", parallel=2)
async def grammars_in_requests(client: HostileClient) -> None:
    """Three different grammars, each compiled for a request."""
    for definition in large_grammars():
        await client.create(tools=[grammar_tool(definition)])


@attack("35 kB regex grammars, input_tokens", parallel=2)
async def grammars_in_counts(client: HostileClient) -> None:
    """The same where a key that may only read is enough."""
    for definition in large_grammars():
        body = {"model": "one", "input": "x", "tools": [grammar_tool(definition)]}
        await client.post("/v1/responses/input_tokens", body)
