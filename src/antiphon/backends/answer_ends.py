"""How an answer ends, whatever the dialect: well, broken off, or with something that cannot be read."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendBroken, BackendError
from antiphon.http.redact import excerpt
from antiphon.protocol.response import Usage
from antiphon.turn.chunks import Chunk, Failed, UsageReported


class AnswerEnds(ABC):
    """The ends of one answer; a dialect reads what comes before. `noun` is what it calls an answer."""

    def __init__(self, endpoint: Endpoint, noun: str) -> None:
        self._endpoint = endpoint
        self._noun = noun
        self.over = False
        """Whether the last chunk was said."""
        self.complete = False
        """Whether that was a good end."""

    @property
    @abstractmethod
    def finishing(self) -> bool:
        """Whether the answer is complete, though the stream has not ended."""

    @abstractmethod
    def feed(self, payloads: Iterable[bytes]) -> list[Chunk]:
        """The chunks in these payloads."""

    @abstractmethod
    def is_whole(self, payload: bytes) -> bool:
        """Whether a payload that came last, without its end, is whole all the same."""

    @abstractmethod
    def finish(self, chunks: list[Chunk]) -> None:
        """Say the last chunks of an answer that is complete."""

    @abstractmethod
    def usage(self) -> Usage | None:
        """What was reported so far."""

    def end(self, rest: Iterable[bytes] = ()) -> list[Chunk]:
        """The last chunks, when the stream has ended. `rest` came without a blank line, and may be half."""
        chunks = self.feed(filter(self.is_whole, rest))
        broken = BackendBroken(f"The upstream '{self._endpoint.name}' broke off its answer.")
        return chunks + self.lost(broken)

    def lost(self, error: BackendError) -> list[Chunk]:
        """The last chunks, when no more can be read. That is a failure unless the answer was complete."""
        chunks: list[Chunk] = []
        if self.finishing:
            self.finish(chunks)
        elif not self.over:
            self.fail(error, chunks)
        return chunks

    def unreadable(self, body: bytes, chunks: list[Chunk]) -> None:
        """What came is no answer."""
        said = excerpt(body, self._endpoint.secrets)
        message = f"The upstream '{self._endpoint.name}' sent something that is no {self._noun}: {said}"
        self.fail(BackendBroken(message), chunks)

    def fail(self, error: BackendError, chunks: list[Chunk]) -> None:
        """The answer ends here, and not well."""
        self.report(chunks)
        chunks.append(Failed(error))
        self.over = True

    def report(self, chunks: list[Chunk]) -> None:
        """Say what it cost, if that is known."""
        usage = self.usage()
        if usage is not None:
            chunks.append(UsageReported(usage))
