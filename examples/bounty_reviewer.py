"""An agent that decides: it reads a submission with one tool and ends with `submit_decision`.

The model is a script, so that this runs anywhere. For a real one take `HttpResponsesClient(base_url)`, or
`Antiphon()` without routes.
"""

import asyncio
import json
from collections.abc import Iterable

from antiphon import Antiphon, Route, ScriptedBackend, load_settings
from antiphon.backends.scripted import Step
from antiphon.orchestrator import InProcessResponsesClient, Provider, Tool, run_orchestrator
from antiphon.protocol.items import FunctionCallOutput
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Finished
from antiphon.turn.context import TurnRequest

SUBMISSIONS = {"post-17": "I fixed the leaking tap. Photos attached.", "post-18": "hello"}


def pull_content(content_id: str) -> dict[str, str]:
    """Read a submission."""
    return {"content": SUBMISSIONS[content_id]}


SUBMIT_DECISION = Tool(
    "submit_decision",
    "Approve or reject the submission. This ends the review.",
    {
        "type": "object",
        "properties": {"is_approved": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["is_approved", "reason"],
        "additionalProperties": False,
    },
)


def reviewer(turn: TurnRequest) -> Iterable[Step]:
    """Reads the submission, then decides."""
    read = [item.output for item in turn.items if isinstance(item, FunctionCallOutput)]
    if not read:
        post = "post-17" if "post-17" in str(turn.items) else "post-18"
        yield call("pull_content", {"content_id": post})
    else:
        good = "fixed" in str(read[-1])
        reason = "The work is described." if good else "Nothing was done."
        yield call("submit_decision", {"is_approved": good, "reason": reason})


def call(name: str, arguments: dict[str, object]) -> Step:
    """A turn that calls one tool."""
    chunks = [CallStarted(0, f"call_{name}", name), CallDelta(0, json.dumps(arguments)), CallFinished(0)]
    return [*chunks, Finished("tool_calls")]


async def main() -> None:
    """Review two submissions. The tools are sent once; every further turn sends only their outputs."""
    settings = load_settings(overrides={"store": {"url": "memory:"}})
    backend = ScriptedBackend(reviewer)
    async with Antiphon(settings, routes=[Route("m", backend)]) as antiphon:
        provider = Provider(InProcessResponsesClient(antiphon), model="m")
        tools = [Tool.from_function(pull_content), SUBMIT_DECISION]
        for post in SUBMISSIONS:
            decision = await run_orchestrator(provider, tools, f"Review the submission {post}.")
            print(post, "approved:" if decision["is_approved"] else "rejected:", decision["reason"])


asyncio.run(main())
