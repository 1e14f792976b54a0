"""A file that code has written, from the run to the download, with the openai SDK and a real sandbox."""

from dataclasses import replace

import openai
import pytest
from openai.types.responses import Response
from openai.types.responses.response_output_text import AnnotationContainerFileCitation

from antiphon.backends.scripted import ScriptedBackend
from antiphon.server.app import App
from antiphon.server.memory import memory_client
from antiphon.service.containers.api import ContainersApi
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.service.hosted_tools.code_interpreter import CodeInterpreter
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from tests.sandbox.sandboxes import SMALL, bubblewrap
from tests.server.conftest import never_opened, options
from tests.service.conftest import MakeCreator, services_of

TEXT = "Here is [your report](sandbox:/mnt/data/report.csv)."
RUN: list[Chunk] = [
    CallStarted(0, "call_1", "python"),
    CallDelta(0, "{\"code\": \"open('report.csv', 'w').write(open('in.txt').read() * 2)\"}"),
    CallFinished(0),
    Finished("tool_calls"),
]
ANSWER: list[Chunk] = [TextDelta(TEXT), Finished("stop")]


@pytest.mark.requirement("HOSTED/containers-citations", "HOSTED/containers-api")
async def test_the_openai_sdk_downloads_what_a_streamed_answer_cites(make_creator: MakeCreator) -> None:
    base = services_of(make_creator(ScriptedBackend([ANSWER])))
    containers = Containers(
        bubblewrap(), base.files, base.creator.ids, lambda: 1000.0, ContainerLimits(sandbox=SMALL)
    )
    creator = make_creator(ScriptedBackend([RUN], [ANSWER]), served_tools=(CodeInterpreter(containers),))
    services = replace(services_of(creator), containers=ContainersApi(containers))
    app = App(never_opened, lambda: "req_1", options())
    app.mount(services)
    async with memory_client(app) as http:
        sdk = openai.AsyncOpenAI(base_url="http://antiphon/v1", api_key="-", http_client=http)
        container = await sdk.containers.create(name="mine")
        await sdk.containers.files.create(container.id, file=("in.txt", b"ab"))
        response: Response | None = None
        async for event in await sdk.responses.create(
            model="m",
            input="hi",
            stream=True,
            tools=[{"type": "code_interpreter", "container": container.id}],
        ):
            if event.type == "response.completed":
                response = event.response
        assert response is not None
        message = response.output[-1]
        assert message.type == "message"
        assert message.content[0].type == "output_text"
        [citation] = message.content[0].annotations
        assert isinstance(citation, AnnotationContainerFileCitation)
        assert TEXT[citation.start_index : citation.end_index] == "sandbox:/mnt/data/report.csv"
        assert citation.container_id == container.id
        content = await sdk.containers.files.content.retrieve(citation.file_id, container_id=container.id)
        assert content.content == b"abab"
    await containers.aclose()
