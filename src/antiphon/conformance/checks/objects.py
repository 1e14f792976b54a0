"""The response object: its members, the echo of the request, the usage."""

from antiphon.conformance.checking import check
from antiphon.conformance.checks.streams import last_response
from antiphon.conformance.members import member, number_at
from antiphon.conformance.probe import REFUSED, Probe
from antiphon.conformance.verdict import Skipped, expect

REQUIRED = (
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model",
    "previous_response_id", "instructions", "output", "error", "tools", "tool_choice", "truncation",
    "parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs",
    "temperature", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "store", "background",
    "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
)  # fmt: skip
"""What Open Responses requires of a response."""
ESSENTIAL = ("id", "object", "created_at", "status", "model", "output")


@check("object.essential", "A response has what every client reads", rule="object-essential")
async def essential(probe: Probe) -> None:
    """Id, object, times, status, model, output."""
    response = last_response(await probe.stream("text"))
    for name in ESSENTIAL:
        expect(response.get(name) is not None, f"the response has no `{name}`")
    expect(response["object"] == "response", f"`object` is {response['object']!r}")
    expect(isinstance(response["created_at"], int | float), "`created_at` is not a number")
    expect(isinstance(response["output"], list), "`output` is not a list")


@check("object.members", "A response has every member of the specification", rule="object-members")
async def members(probe: Probe) -> None:
    """Present, if only as null."""
    response = last_response(await probe.stream("text"))
    missing = [name for name in REQUIRED if name not in response]
    expect(not missing, f"the response lacks {', '.join(missing)}")


@check("object.echo", "What was asked for is normal_arguments", rule="object-echo")
async def echo(probe: Probe) -> None:
    """Metadata, instructions and sampling."""
    asked = {
        "metadata": {"purpose": "conformance"},
        "instructions": "Be brief.",
        "temperature": 0.5,
        "max_output_tokens": 64,
    }
    answer = await probe.ask(input="Say hello.", **asked)
    if answer.status in REFUSED and "temperature" in str(answer.json.get("error")):
        raise Skipped("not offered: this model takes no temperature")
    expect(answer.status == 200, f"the status is {answer.status}")
    for name, value in asked.items():
        expect(
            answer.json.get(name) == value, f"`{name}` was {value!r}, the echo is {answer.json.get(name)!r}"
        )


@check("object.usage", "Usage adds up", rule="object-usage")
async def usage(probe: Probe) -> None:
    """If it is known."""
    response = last_response(await probe.stream("text"))
    if response.get("usage") is None:
        raise Skipped("the server reported no usage")
    numbers = [number_at(response, f"usage.{name}_tokens") for name in ("input", "output", "total")]
    expect(None not in numbers, f"usage is {response['usage']!r}")
    expect(sum(filter(None, numbers[:2])) == numbers[2], f"{numbers[0]} + {numbers[1]} is not {numbers[2]}")
    for name in ("input_tokens_details", "output_tokens_details"):
        expect(isinstance(member(response, f"usage.{name}"), dict), f"usage has no `{name}`")


@check("object.unknown_members", "client_metadata is taken", rule="create-client-metadata")
async def unknown(probe: Probe) -> None:
    """Codex sends it, and the documents do not tell of it. Other members that nobody knows may be refused."""
    await probe.create(input="Say hello.", client_metadata={"a": "b"})


CHECKS = (essential, members, echo, usage, unknown)
