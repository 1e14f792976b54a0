"""An agent that writes a design document: in its mode it must call one tool, which creates the file.

The model is a script, so that this runs anywhere. `antiphon ddr new AGN TITLE --ask "…"` does the same with a
real one.
"""

import asyncio
import json
import tempfile
from pathlib import Path

from antiphon import Antiphon, Route, ScriptedBackend, load_settings
from antiphon.orchestrator import (
    AgentExecuteRequest,
    ConversationContext,
    InProcessResponsesClient,
    ToolRegistry,
    execute,
)
from antiphon.orchestrator.documents import Library, ddr_tools
from antiphon.turn.chunks import CallDelta, CallStarted, Finished, TextDelta

CONTEXT = ConversationContext(model_name="m", system="You write down what was decided, and nothing else.")
BODY = """## Objective
A request that fails before its first byte is sent again, at most twice.

## Risks/Open Questions
A server may have acted before it broke off.
"""
DOCUMENT = {"id": "NET", "title": "Retries", "status": "Proposed", "owner": "Ada", "markdownBody": BODY}

WRITE = [CallStarted(0, "call_1", "ddr_document"), CallDelta(0, json.dumps(DOCUMENT)), Finished("tool_calls")]
REPORT = [TextDelta("I have written the document."), Finished("stop")]


def show(path: Path) -> None:
    """The path, and the beginning of the file."""
    print(path)
    for line in path.read_text(encoding="utf-8").splitlines()[:10]:
        print(f"  {line}".rstrip())


async def main() -> None:
    """Request a document, and print the file."""
    settings = load_settings(overrides={"store": {"url": "memory:"}})
    routes = [Route("m", ScriptedBackend([WRITE], [REPORT]))]
    with tempfile.TemporaryDirectory() as folder:
        async with Antiphon(settings, routes=routes) as antiphon:
            answer = await execute(
                AgentExecuteRequest(mode="DDR_CREATION", instruction="We retry twice. Write that down."),
                client=InProcessResponsesClient(antiphon),
                context=CONTEXT,
                tools=ToolRegistry(ddr_tools(Library(Path(folder)))),
            )
        print(answer.text)
        [call] = answer.tool_calls
        show(Path(json.loads(call.result_json or "")["path"]))


asyncio.run(main())
