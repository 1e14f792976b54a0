"""`python -m bench.agent`: the cost of the orchestrator, in one process, compared with the Agents SDK.

The model is a script that answers at once, so what is left is the loop itself: a turn's price is the time of
a whole run, less the time of the same responses asked for one by one. Writes `AGENT.md`.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from statistics import median

import msgspec
from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai.types.responses import ResponseInputItemParam

from antiphon import Antiphon, Route, ScriptedBackend, load_settings
from antiphon.backends.scripted import Step
from antiphon.orchestrator import (
    AgentExecuteRequest,
    ConversationContext,
    InProcessResponsesClient,
    RagChunk,
    ServerTool,
    ToolRegistry,
    build_rag_context_block,
    build_responses_request,
    execute,
    map_response,
)
from antiphon.orchestrator.reasoner import Limits
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import FunctionCallOutput
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Finished, TextDelta
from antiphon.turn.context import TurnRequest
from bench.rig import HERE

TURNS = 10
ROUNDS = 15
BYTES = 50_000
ITEMS = 20
CONTEXT = ConversationContext(model_name="m", system="You are a careful agent.", temperature=0.2)
REQUEST = AgentExecuteRequest(mode="general", instruction="Look up ten things.", conversation_id="c")

HEAD = """# The orchestrator

Written by `python -m bench.agent`: medians, one process, ten turns with a tool call each, a model that
answers at once, a store in memory.

| | | target |
|---|---|---|
"""


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    what: str
    value_ms: float
    below_ms: float | None = None

    def row(self) -> str:
        """As Markdown."""
        target = ""
        if self.below_ms is not None:
            verdict = "passed" if self.value_ms < self.below_ms else "MISSED"
            target = f"below {self.below_ms:g} ms: {verdict}"
        return f"| {self.what} | {self.value_ms:.3f} ms | {target} |"


def script(turn: TurnRequest) -> Iterable[Step]:
    """Calls a tool in every turn but the last one."""
    done = sum(isinstance(item, FunctionCallOutput) for item in turn.items)
    if done == TURNS - 1:
        yield [TextDelta("Done."), Finished("stop")]
    else:
        yield [
            CallStarted(0, f"call_{done}", "look_up"),
            CallDelta(0, f'{{"number": {done}}}'),
            CallFinished(0),
            Finished("tool_calls"),
        ]


def called(call_id: str) -> list[ResponseInputItemParam]:
    """A call and its output, as the Agents SDK sends them again with every turn."""
    return [
        {"type": "function_call", "call_id": call_id, "name": "look_up", "arguments": "{}"},
        {"type": "function_call_output", "call_id": call_id, "output": "thing"},
    ]


def look_up(number: int) -> str:
    """Look a thing up."""
    return f"thing {number}"


def timed(work: Callable[[], object], times: int = 400) -> float:
    """Milliseconds of one call, the median of all."""
    spans: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        spans.append(time.perf_counter() - begin)
    return median(spans) * 1000


async def timed_turns(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds per turn of a complete run."""
    spans: list[float] = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        await work()
        spans.append(time.perf_counter() - begin)
    return median(spans) * 1000 / TURNS


def measure_functions() -> list[Measured]:
    """Building a request and mapping a result of 50 kB each."""
    chunks, request = context_of(BYTES * 2 // 5), big_request(BYTES * 3 // 10)
    raw = result_of(BYTES)

    def build() -> JsonObject:
        block = build_rag_context_block(chunks)
        return build_responses_request(CONTEXT, request, rag_context_block=block)

    assert BYTES * 0.9 < len(msgspec.json.encode(build())) < BYTES * 1.4
    assert BYTES * 0.9 < len(raw) < BYTES * 1.1
    assert len(map_response(raw, REQUEST, CONTEXT).tool_calls) == ITEMS
    return [
        Measured("build a request: 20 kB of context, 15 kB of tools, 30 results of 15 kB", timed(build), 0.3),
        Measured(
            f"map a result of 50 kB: {ITEMS} messages, reasoning items and calls each",
            timed(lambda: map_response(raw, REQUEST, CONTEXT)),
            0.3,
        ),
    ]


def context_of(size: int) -> list[RagChunk]:
    """Retrieved chunks with that total size."""
    text = "def function(argument: int) -> str: return str(argument)  # ünïcödé\n" * 30
    count = size // len(text)
    return [RagChunk(f"c{number}", "src/a.py", 1, 30, "python", text) for number in range(count)]


def big_request(size: int) -> AgentExecuteRequest:
    """A request with tools and tool results, each of that size as JSON."""
    described = {"type": "string", "description": "What this is about, in a sentence or so."}
    names = ["title", "summary", "author", "place", "language", "comment"]
    schema = {"type": "object", "properties": dict.fromkeys(names, described), "required": names}
    tool = {"type": "function", "name": "look_up", "description": "Look a thing up.", "parameters": schema}
    line = "A line of what the tool has found out about it.\n"
    result = {
        "callId": "call_1",
        "name": "look_up",
        "isServerTool": False,
        "wasExecuted": True,
        "argumentsJson": '{"number": 1}',
        "resultJson": line * ((size // 30 - 130) // len(line)),
    }
    count = size // len(msgspec.json.encode(tool))
    return AgentExecuteRequest(
        mode="general",
        instruction="Look up ten things.",
        tools_json=msgspec.json.encode([tool] * count).decode(),
        tool_results_json=msgspec.json.encode([result] * 30).decode(),
    )


def result_of(size: int) -> bytes:
    """A response with messages, reasoning and calls, as Antiphon's server writes it."""
    sentence = 'A sentence that a model could have written, with "quotes" in it. '
    part: JsonObject = {"type": "output_text", "annotations": [], "logprobs": [], "text": sentence * 26}
    message = {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    thought = {"type": "summary_text", "text": sentence * 5}
    reasoning: JsonObject = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [thought],
        "encrypted_content": None,
    }
    call: JsonObject = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look_up",
        "arguments": '{"number": 1}',
        "status": "completed",
    }
    response = {
        "id": "resp_1",
        "object": "response",
        "model": "m",
        "status": "completed",
        "output": [message, reasoning, call] * ITEMS,
        "usage": {"input_tokens": 10, "output_tokens": 20, "total_tokens": 30},
    }
    return msgspec.json.encode(response)


async def measure_loops() -> list[Measured]:
    """Ten turns with a tool call each, by Antiphon and by the Agents SDK, and the same turns one by one."""
    settings = load_settings(overrides={"store": {"url": "memory:"}})
    routes = [Route("m", ScriptedBackend(script))]
    async with Antiphon(settings, routes=routes) as antiphon, antiphon.openai_client() as sdk:
        client = InProcessResponsesClient(antiphon)
        tool = ServerTool.from_function(look_up, side_effects=False)
        tools = ToolRegistry([tool])
        limits = Limits(max_turns=TURNS)
        agent = Agent(
            name="bench",
            instructions="You are a careful agent.",
            tools=[function_tool(look_up)],
            model=OpenAIResponsesModel("m", sdk),
            model_settings=ModelSettings(store=True),
        )

        async def one_by_one() -> None:
            declared = [{"type": "function", "name": "look_up", "parameters": tool.parameters}]
            response = await antiphon.create(model="m", input="Look up ten things.", tools=declared)
            for number in range(TURNS - 1):
                output = {"type": "function_call_output", "call_id": f"call_{number}", "output": "thing"}
                response = await antiphon.create(model="m", input=[output], previous_response_id=response.id)

        async def sdk_one_by_one() -> None:
            history: list[ResponseInputItemParam] = [{"role": "user", "content": "Look up ten things."}]
            for number in range(TURNS):
                await sdk.responses.create(model="m", input=history)
                history += called(f"call_{number}")

        async def ours() -> None:
            answer = await execute(REQUEST, client=client, context=CONTEXT, tools=tools, limits=limits)
            assert answer.text == "Done.", answer

        async def theirs() -> None:
            answer = await Runner.run(agent, "Look up ten things.", max_turns=TURNS)
            assert answer.final_output == "Done.", answer

        base, sdk_base = await timed_turns(one_by_one), await timed_turns(sdk_one_by_one)
        loop, sdk_loop = await timed_turns(ours), await timed_turns(theirs)
    return [
        Measured("a turn of the service itself", base),
        Measured("a turn of `execute`, in-process client", loop),
        Measured("so the loop adds, per turn", loop - base, 1.0),
        Measured("a turn of the service through the official SDK, in memory", sdk_base),
        Measured("a turn of the Agents SDK's Runner over that", sdk_loop),
        Measured("so that loop adds, per turn", sdk_loop - sdk_base),
    ]


def main() -> int:
    """Measure, print and write the results. Returns 1 if a target is missed."""
    set_tracing_disabled(True)
    measured = [*measure_functions(), *asyncio.run(measure_loops())]
    table = HEAD + "\n".join(line.row() for line in measured) + "\n"
    print(table)
    (HERE / "AGENT.md").write_text(table)
    return int(any(line.below_ms is not None and line.value_ms >= line.below_ms for line in measured))


if __name__ == "__main__":
    sys.exit(main())
