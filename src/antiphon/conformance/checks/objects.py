"""The response object: its members, its ids, and that the stream, the JSON and the stored response agree."""

from antiphon.conformance.checks.streams import all_streams, expect_none, last_response
from antiphon.conformance.order import RESEALED
from antiphon.conformance.probe import REFUSED, Probe, check, items_of
from antiphon.conformance.reading import list_at, member, number_at, text_at
from antiphon.conformance.results import Failed, Skipped, expect, provoked
from antiphon.conformance.scenarios import SCENARIOS
from antiphon.protocol.content import JsonObject

REQUIRED = (
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model",
    "previous_response_id", "instructions", "output", "error", "tools", "tool_choice", "truncation",
    "parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs",
    "temperature", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "store", "background",
    "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
)  # fmt: skip
"""The members that Open Responses requires of a response."""
ESSENTIAL = ("id", "object", "created_at", "status", "model", "output")


@check("object.essential", "A response has the members that every client reads", rule="object-essential")
async def essential(probe: Probe) -> None:
    response = last_response(await probe.stream("text"))
    for name in ESSENTIAL:
        expect(response.get(name) is not None, f"the response has no `{name}`")
    expect(response["object"] == "response", f"`object` is {response['object']!r}")
    expect(isinstance(response["created_at"], int | float), "`created_at` is not a number")
    expect(isinstance(response["output"], list), "`output` is not a list")


@check("object.members", "A response has every member of the specification", rule="object-members")
async def members(probe: Probe) -> None:
    response = last_response(await probe.stream("text"))
    missing = [name for name in REQUIRED if name not in response]
    expect(not missing, f"the response lacks {', '.join(missing)}")


@check("object.echo", "Parameters of the request are echoed", rule="object-echo")
async def echo(probe: Probe) -> None:
    asked = {
        "metadata": {"purpose": "conformance"},
        "instructions": "Be brief.",
        "temperature": 0.5,
        "max_output_tokens": 64,
    }
    answer = await probe.ask(input="Say hello.", **asked)
    if answer.status in REFUSED and "temperature" in str(answer.json.get("error")):
        raise Skipped("not offered: this model accepts no temperature")
    expect(answer.status == 200, f"the status is {answer.status}")
    for name, value in asked.items():
        expect(
            answer.json.get(name) == value, f"`{name}` was {value!r}, the echo is {answer.json.get(name)!r}"
        )


@check("object.usage", "Usage adds up", rule="object-usage")
async def usage(probe: Probe) -> None:
    response = last_response(await probe.stream("text"))
    if response.get("usage") is None:
        raise Skipped("the server reports no usage")
    numbers = [number_at(response, f"usage.{name}_tokens") for name in ("input", "output", "total")]
    expect(None not in numbers, f"usage is {response['usage']!r}")
    expect(sum(filter(None, numbers[:2])) == numbers[2], f"{numbers[0]} + {numbers[1]} is not {numbers[2]}")
    for name in ("input_tokens_details", "output_tokens_details"):
        expect(isinstance(member(response, f"usage.{name}"), dict), f"usage has no `{name}`")


@check("object.unknown_members", "client_metadata is accepted", rule="create-client-metadata")
async def unknown(probe: Probe) -> None:
    await probe.create(input="Say hello.", client_metadata={"a": "b"})


@check("ids.stable", "The id of an item does not change", rule="stream-stable-ids")
async def stable(probe: Probe) -> None:
    for answer in await all_streams(probe):
        expect_none(answer.events, "id")


@check("ids.present", "Responses and items have ids", rule="object-ids")
async def present(probe: Probe) -> None:
    response = last_response(await probe.stream("text"))
    expect(text_at(response, "id"), "the response has no id")
    for item in list_at(response, "output"):
        expect(text_at(item, "id"), f"a {item.get('type')} has no id")


@check("ids.unique", "Two responses have different ids", rule="object-ids-unique")
async def unique(probe: Probe) -> None:
    streamed = last_response(await probe.stream("text"))
    asked = await probe.create(input="Say hello in one short sentence.")
    first, second = (
        {text_at(response, "id"), *(text_at(item, "id") for item in list_at(response, "output"))}
        for response in (streamed, asked)
    )
    expect(first.isdisjoint(second), f"both responses have {', '.join(sorted(first & second))}")


@check("ids.calls", "Every call has its own call_id", rule="items-call-id")
async def calls(probe: Probe) -> None:
    response = last_response(await probe.stream("call"))
    found = [text_at(item, "call_id") for item in items_of(response, "function_call")]
    provoked(found, "the model did not call the tool")
    expect(all(found), "a function_call has no call_id")
    expect(len(set(found)) == len(found), "two calls have the same call_id")


@check("fold.stream", "Deltas add up to done, and items to the output", rule="stream-fold")
async def stream(probe: Probe) -> None:
    for answer in await all_streams(probe):
        expect_none(answer.events, "fold")


@check("fold.retrieved", "The retrieved response equals the streamed one", rule="state-retrieve-same")
async def retrieved(probe: Probe) -> None:
    streamed = last_response(await probe.stream("text"))
    answer = await probe.send("GET", f"responses/{streamed.get('id')}")
    if answer.status != 200 and streamed.get("store") is False:
        raise Skipped("not offered: the server says `store: false`")
    expect(answer.status == 200, f"GET of the response was answered with status {answer.status}")
    expect_same(streamed, answer.json)


@check("fold.json", "Without a stream, the response has the same members", rule="stream-json-same")
async def without_stream(probe: Probe) -> None:
    streamed = last_response(await probe.stream("text"))
    asked = await probe.create(**SCENARIOS["text"].body)
    missing = sorted(streamed.keys() ^ asked.keys())
    expect(not missing, f"only one of stream and JSON has {', '.join(missing)}")
    for response in (streamed, asked):
        types = [text_at(item, "type") for item in list_at(response, "output")]
        expect("message" in types, f"the output is {', '.join(types) or 'empty'}: there is no message")


def expect_same(streamed: JsonObject, stored: JsonObject) -> None:
    """Fail for the first member that differs. Members that are encrypted again each time may differ."""
    for name in sorted(streamed.keys() | stored.keys()):
        first, second = streamed.get(name), stored.get(name)
        if name == "output":
            first, second = _unsealed(streamed), _unsealed(stored)
        if first != second:
            evidence = [f"streamed: {first}", f"retrieved: {second}"]
            raise Failed(f"`{name}` differs in the retrieved response", evidence)


def _unsealed(response: JsonObject) -> list[JsonObject]:
    return [
        {name: value for name, value in item.items() if name not in RESEALED}
        for item in list_at(response, "output")
    ]


CHECKS = (
    present, stable, unique, calls,
    stream, retrieved, without_stream,
    essential, members, echo, usage, unknown,
)  # fmt: skip
