"""Files that code has written are cited by the message that links them (turn/container_links.py)."""

from collections.abc import Sequence

from antiphon.protocol.content import JsonObject
from antiphon.service.hosted_tools.base import OpenedTools
from antiphon.service.hosted_tools.code_interpreter import CodeInterpreterFunction
from antiphon.service.hosted_tools.container_shell import ContainerShellFunction
from antiphon.service.hosted_tools.container_use import ContainerUse
from antiphon.service.responses.stages.base import PassingStage
from antiphon.turn.chunks import (
    AnnotationAdded,
    Chunk,
    DowngradesAdded,
    Heartbeat,
    TextDelta,
    TurnStarted,
    UsageReported,
    UsageSpent,
)
from antiphon.turn.container_links import ContainerLinks
from antiphon.turn.context import TurnRequest

_ELSEWHERE = (UsageReported, UsageSpent, DowngradesAdded, Heartbeat, TurnStarted, AnnotationAdded)
"""Chunks that do not end a message."""


class ContainerFileStage(PassingStage):
    """Cites the files that a message links, and at its end the images that no message has linked."""

    def __init__(self, uses: Sequence[ContainerUse]) -> None:
        self._uses = uses
        self._message: ContainerLinks | None = None

    def feed(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """A chunk of another item ends the message."""
        passed: list[Chunk] = []
        for chunk in chunks:
            if isinstance(chunk, TextDelta):
                if self._message is None:
                    self._message = ContainerLinks(self._cite)
                passed += self._message.feed(chunk)
                continue
            if self._message is not None and not isinstance(chunk, _ELSEWHERE):
                passed += self._message.end()
                passed += self._cite_pictures()
                self._message = None
            passed.append(chunk)
        return passed

    def _cite(self, name: str) -> JsonObject | None:
        for use in self._uses:
            if (citation := self._cite_once(use, name)) is not None:
                return citation
        return None

    def _cite_pictures(self) -> list[Chunk]:
        """Citations of the images that were written and not cited; a message has them without a place."""
        cited = [self._cite_once(use, name) for use in self._uses for name in list(use.pictures)]
        return [
            AnnotationAdded({**citation, "start_index": 0, "end_index": 0})
            for citation in cited
            if citation is not None
        ]

    def _cite_once(self, use: ContainerUse, name: str) -> JsonObject | None:
        """The citation of a file of this use. Other tools that use its container need not cite it."""
        citation = use.cite(name)
        if citation is not None:
            for each in self._uses:
                if each.container is use.container:
                    each.pictures.pop(name, None)
        return citation


def container_file_stage(turn: TurnRequest, opened: OpenedTools) -> ContainerFileStage | None:
    """None if no code can be run, or the answer is JSON."""
    text = turn.params.text
    if text is not None and text.format is not None and text.format.type != "text":
        return None
    uses = [
        one.use
        for one in opened.functions.values()
        if isinstance(one, CodeInterpreterFunction | ContainerShellFunction)
    ]
    return ContainerFileStage(uses) if uses else None
