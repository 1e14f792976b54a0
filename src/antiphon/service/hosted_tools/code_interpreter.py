"""`code_interpreter`: the model runs Python in a container, and is shown the output."""

import base64
import mimetypes
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from antiphon.errors import InvalidRequest
from antiphon.protocol.containers import CODE_INTERPRETER, parse_code_interpreter
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import (
    CodeInterpreterCallCodeDelta,
    CodeInterpreterCallCodeDone,
    CodeInterpreterCallInterpreting,
)
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import CodeInterpreterCall
from antiphon.protocol.tools import HostedTool
from antiphon.sandbox.port import DATA_FOLDER, RunResult, SandboxFile, SandboxFileError
from antiphon.service.containers.containers import Container, Containers
from antiphon.service.hosted_tools.base import OpenedTool, ToolScope
from antiphon.service.hosted_tools.container_use import ContainerUse, is_image, open_container
from antiphon.turn.chunks import Chunk, HostedItemBegun, HostedItemDone, HostedItemStep
from antiphon.turn.function_forms.code_runs import PYTHON
from antiphon.turn.function_forms.reading import read_object
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.tools import HostedForm

INCLUDE_OUTPUTS = "code_interpreter_call.outputs"
MAX_CODE_CHARACTERS = 500_000
MAX_IMAGE_BYTES = 4 * 1024 * 1024
"""Of all images of one run that the client is sent."""

_DESCRIPTION = (
    "Run Python in a container without network. Variables and files stay until the next call. The answer has "
    f"what the code prints, and the value of a last expression. Files are in {DATA_FOLDER}: read the user's "
    "files from there, and save files for the user there; link them in the answer as "
    f"[name](sandbox:{DATA_FOLDER}/name). Use it to compute, to analyse data, and to check results, rather "
    "than to compute in your head."
)
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "The Python code to run."}},
    "required": ["code"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class CodeInterpreter:
    """Serves `code_interpreter`."""

    containers: Containers
    types: frozenset[str] = frozenset({CODE_INTERPRETER})

    def owns(self, declared: HostedTool) -> bool:
        """Its container has to be looked for."""
        return True

    async def open(self, declared: HostedTool, key: str, scope: ToolScope, path: str) -> OpenedTool:
        """Check the container, or the files of one that may have to be made."""
        wanted = parse_code_interpreter(declared.body, path).container
        use = await open_container(self.containers, scope, wanted, f"{path}.container", f"{path}.container")
        form = HostedForm(
            key=key, declared=declared, name=PYTHON, description=self._description, parameters=_PARAMETERS
        )
        return OpenedTool([CodeInterpreterFunction(form, use)])

    @property
    def _description(self) -> str:
        return f"{_DESCRIPTION} {self.containers.sandbox.notes}".rstrip()


@dataclass(slots=True)
class CodeInterpreterFunction:
    """The runs of one response in one container."""

    form: HostedForm
    use: ContainerUse
    repeatable: bool = False
    """Code changes the variables and the files of its container."""

    def approval_request(self, call: HostedCall) -> None:
        """Code needs no approval: its container is isolated."""

    async def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run the code: it is sent before, its output after."""
        index, code = call.index, read_code(call.arguments)
        container = await self.use.get()
        begun = CodeInterpreterCall(code="", container_id=container.id, outputs=None)
        yield [
            HostedItemBegun(index, begun),
            *([HostedItemStep(index, CodeInterpreterCallCodeDelta, (code,))] if code else []),
            HostedItemStep(index, CodeInterpreterCallCodeDone, (code,)),
            HostedItemStep(index, CodeInterpreterCallInterpreting),
        ]
        if not code.strip():
            raise InvalidRequest("'code' must be a text with Python code.")
        result = await self.use.containers.run(container, code)
        self.use.pictures |= {file.name: None for file in result.changed if is_image(file.name)}
        outputs: list[JsonObject] | None = None
        if INCLUDE_OUTPUTS in self.use.scope.include:
            outputs = [{"type": "logs", "logs": result.logs}] if result.logs else []
            outputs += await self._images(container, result.changed)
        item = CodeInterpreterCall(status="completed", code=code, container_id=container.id, outputs=outputs)
        shown = "\n".join(filter(None, (self.use.take_note(), text_for_model(result))))
        yield [HostedItemDone(item, _private(shown), index)]

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """A run that failed; the model is shown the reason."""
        container = self.use.container
        container_id = "" if container is None else container.id
        item = CodeInterpreterCall(
            status="failed", code=read_code(call.arguments), container_id=container_id, outputs=None
        )
        return HostedItemDone(item, _private(f"The code could not be run: {reason}"), call.index)

    def without_model(self, items: Sequence[Item]) -> str | None:
        """Only a model can write code."""
        return None

    async def _images(self, container: Container, changed: Sequence[SandboxFile]) -> list[JsonObject]:
        """The images that a run has made, as data URLs, as far as they fit."""
        room = MAX_IMAGE_BYTES
        found: list[JsonObject] = []
        for file in changed:
            kind = mimetypes.guess_type(file.name)[0]
            if is_image(file.name) and file.size_bytes <= room:
                content = await self._content(container, file)
                room -= len(content)
                url = f"data:{kind};base64,{base64.b64encode(content).decode()}"
                found.append({"type": "image", "url": url})
        return found

    async def _content(self, container: Container, file: SandboxFile) -> bytes:
        content = b""
        async with self.use.containers.session(container) as session:
            try:
                while len(content) < file.size_bytes and (
                    piece := await session.read(file.name, len(content))
                ):
                    content += piece
            except SandboxFileError:
                return b""
        return content[: file.size_bytes]


def read_code(arguments: str) -> str:
    """The code of a call; near misses of the schema are accepted: some models write the code alone."""
    body, _ = read_object(arguments)
    given = body.get("code", body.get("input", body.get("python")))
    if given is None and not body and arguments.strip()[:1] != "{":
        given = arguments
    return given[:MAX_CODE_CHARACTERS] if isinstance(given, str) else ""


def text_for_model(result: RunResult) -> str:
    """What the model is shown of a run."""
    parts = [result.logs.rstrip("\n")] if result.logs else []
    if result.dropped_bytes:
        parts.append(f"[{result.dropped_bytes:,} more bytes of output are left out]")
    if result.outcome == "timeout":
        parts.append("[The code took too long and was ended. Variables are lost, files are not.]")
    elif result.outcome == "died":
        parts.append("[The Python process has ended. Variables are lost, files are not.]")
    if result.changed:
        names = ", ".join(f"{DATA_FOLDER}/{file.name}" for file in result.changed)
        parts.append(f"[Files that were written: {names}]")
    return "\n".join(parts)


def _private(text: str) -> JsonObject:
    return {"outputs": [{"type": "logs", "logs": text}]}
