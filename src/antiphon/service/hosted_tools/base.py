"""The port of hosted tools that this server runs.

A `ServedTool` is made once. For each request that declares it, `open` checks the declaration before the
first event, and returns the functions that the model is shown. A `HostedFunction` runs the model's calls and
emits the chunks of their items while it works. To add a tool: one file with these two classes, one line in
`wiring/hosted_tools.py`.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import NotFound, RequestError
from antiphon.protocol.items import Item
from antiphon.protocol.tools import HostedTool, Tool
from antiphon.turn.chunks import Chunk, HostedItemDone
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.toolbox import NO_HOSTED_TOOLS, HostedToolset, declared_in
from antiphon.turn.tools import HostedForm


class ToolScope(Struct, frozen=True):
    """Whose response the tool runs for, and what of its results the client is shown (`include`)."""

    tenant: str
    include: frozenset[str] = frozenset()


class HostedFunction(Protocol):
    """A function of a hosted tool, for one response."""

    @property
    def form(self) -> HostedForm:
        """The function as the model is shown it."""
        ...

    def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run a call: emit the chunks of its item, with `call.index`; the last one is `HostedItemDone`.
        Errors are raised. Closing the generator, or cancelling its task, ends the work."""
        ...

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """The item of a call that failed; its private side tells the model the reason."""
        ...

    def without_model(self, items: Sequence[Item]) -> str | None:
        """The arguments of a call that is made for a model that had to make one and did not; None if only a
        model can write them."""
        ...


class ServedTool(Protocol):
    """A hosted tool that this server runs."""

    @property
    def types(self) -> frozenset[str]:
        """The types of the declarations that it serves."""
        ...

    async def open(
        self, declared: HostedTool, key: str, scope: ToolScope, path: str
    ) -> Sequence[HostedFunction]:
        """The functions of a declaration, whose keys begin with `key`. `path` is the parameter.

        Raises `NotFound` if the declaration refers to objects that are not those of this server; another
        server may have them. Other errors end the request.
        """
        ...


class OpenedTools(Struct, frozen=True):
    """The hosted tools of one response: their functions by key, and how the model is shown them."""

    functions: Mapping[str, HostedFunction] = {}
    toolset: HostedToolset = NO_HOSTED_TOOLS


NONE_OPENED = OpenedTools()


class ServedTools:
    """The hosted tools that this server runs."""

    def __init__(self, tools: Sequence[ServedTool] = (), toolset: HostedToolset = NO_HOSTED_TOOLS) -> None:
        """`toolset` has what is the same for all requests."""
        self._by_type = {kind: tool for tool in tools for kind in tool.types}
        self.none = OpenedTools(toolset=replace(toolset, served=frozenset(self._by_type)))
        """The tools of a response that declares none."""

    @property
    def types(self) -> frozenset[str]:
        """The types of declarations that are served."""
        return self.none.toolset.served

    async def open(self, tools: Sequence[Tool], items: Sequence[Item], scope: ToolScope) -> OpenedTools:
        """Open the tools of a request, and those that items declare. Raises `RequestError` before anything
        was sent."""
        functions: dict[str, HostedFunction] = {}
        refused: dict[str, RequestError] = {}
        for key, (tool, path) in enumerate(_declared(tools, items)):
            if (served := self._by_type.get(tool.type)) is None:
                continue
            try:
                opened = await served.open(tool, f"{tool.type}/{key}", scope, path)
            except NotFound as error:
                refused[tool.type] = error  # the server of the model may have it
            else:
                functions |= {function.form.key: function for function in opened}
        if not functions and not refused:
            return self.none
        forms = tuple(function.form for function in functions.values())
        return OpenedTools(functions, replace(self.none.toolset, forms=forms, refused=refused))


NONE_SERVED = ServedTools()


def _declared(tools: Sequence[Tool], items: Sequence[Item]) -> Iterator[tuple[HostedTool, str]]:
    """The hosted tools, each with the parameter that declares it. A declaration that is repeated is the same
    tool."""
    known: list[HostedTool] = []
    paths = chain(
        ((tool, f"tools[{index}]") for index, tool in enumerate(tools)),
        ((tool, "input") for tool, _ in declared_in(items)),
    )
    for tool, path in paths:
        if isinstance(tool, HostedTool) and tool not in known:
            known.append(tool)
            yield tool, path
