"""The port to whoever speaks the Responses API: this process, our server, or anybody else's."""

from collections.abc import AsyncGenerator
from typing import Protocol

from antiphon.protocol.content import JsonObject


class ResponsesClient(Protocol):
    """Calls `/responses`. It takes bodies as the seeds spell them; `antiphon.orchestrator.wire` makes them
    strict.

    A refusal, or an answer that is none, is raised as `ResponsesCallFailed` with its status and body; so is
    a server that cannot be reached (status 502) or is late (504).
    """

    async def create(self, body: JsonObject) -> bytes:
        """One response, whole: its JSON as it came. A response that failed is an answer, not a refusal."""
        ...

    def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """The events of one response, the last one being terminal; who leaves early cancels it."""
        ...

    async def retrieve(self, response_id: str) -> bytes:
        """A stored response: its JSON as it came."""
        ...

    async def default_model(self) -> str:
        """The model to ask when none was named."""
        ...
