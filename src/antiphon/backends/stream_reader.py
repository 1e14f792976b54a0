"""Shared by the readers of all dialects: the end of an answer, and invalid payloads."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec

from antiphon.backends.registry import Endpoint
from antiphon.errors import BackendBroken, BackendError
from antiphon.http.redact import excerpt
from antiphon.protocol.response import Usage
from antiphon.turn.chunks import Chunk, Failed, UsageReported

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of decoding a payload that is not of the dialect."""
DONE = b"[DONE]"
"""The end marker of OpenAI's streams. Some servers send it in other dialects too."""


class PayloadReader(ABC):
    """Reads one answer: payloads in, chunks out. Sans-IO. A dialect adds how its payloads are read."""

    decode: ClassVar[Callable[[bytes], Any]]
    """Decodes one payload; raises `DECODE_ERRORS`."""
    noun: ClassVar[str]
    """The dialect's name of an answer, in errors."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.over = False
        """Whether the last chunk was returned."""
        self.complete = False
        """Whether the answer ended without an error."""

    @property
    @abstractmethod
    def finishing(self) -> bool:
        """Whether the content is complete, though the stream has not ended."""

    @abstractmethod
    def feed(self, payloads: Iterable[bytes]) -> list[Chunk]:
        """The chunks in these payloads."""

    @abstractmethod
    def finish(self, chunks: list[Chunk]) -> None:
        """Append the last chunks of an answer whose content is complete."""

    @abstractmethod
    def usage(self) -> Usage | None:
        """The usage reported so far."""

    def end(self, rest: Iterable[bytes] = ()) -> list[Chunk]:
        """The last chunks, when the stream has ended. `rest` came without a blank line: it may be cut off."""
        chunks = self.feed(filter(self._is_payload, rest))
        broken = BackendBroken(f"The upstream '{self._endpoint.name}' broke off its answer.")
        return chunks + self.lost(broken)

    def lost(self, error: BackendError) -> list[Chunk]:
        """The last chunks, when no more can be received: a failure unless the content is complete."""
        chunks: list[Chunk] = []
        if self.finishing:
            self.finish(chunks)
        elif not self.over:
            self.fail(error, chunks)
        return chunks

    def unreadable(self, body: bytes, chunks: list[Chunk]) -> None:
        """End the answer because of a payload that is not of the dialect."""
        text = excerpt(body, self._endpoint.secrets)
        message = f"The upstream '{self._endpoint.name}' sent something that is no {self.noun}: {text}"
        self.fail(BackendBroken(message), chunks)

    def undecodable(self, payload: bytes, chunks: list[Chunk]) -> None:
        """A payload that cannot be decoded: the end marker, or a fault unless the content is complete."""
        if self.finishing or (payload.strip() == DONE and not self.over):
            self.finish(chunks)
        elif not self.over:
            self.unreadable(payload, chunks)

    def fail(self, error: BackendError, chunks: list[Chunk]) -> None:
        """End the answer with an error."""
        self.report_usage(chunks)
        chunks.append(Failed(error))
        self.over = True

    def report_usage(self, chunks: list[Chunk]) -> None:
        usage = self.usage()
        if usage is not None:
            chunks.append(UsageReported(usage))

    def _is_payload(self, payload: bytes) -> bool:
        try:
            type(self).decode(payload)
        except DECODE_ERRORS:
            return payload.strip() == DONE
        return True
