"""`UpstreamEmbedder`: a model of a server that has ``/v1/embeddings``.

Vectors are asked for in base64, which is decoded fifty times faster than a list of numbers. Servers that
answer with numbers nevertheless are sent fewer inputs at a time, so that no answer holds the event loop.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from antiphon.embeddings.base import Embedded, Input, Vector
from antiphon.embeddings.vectors import from_base64, from_floats, is_finite
from antiphon.errors import BackendBroken, BackendRefused
from antiphon.http.client import HttpClient
from antiphon.http.exchange import fetch

PATH = "embeddings"
MAX_BASE64_INPUTS = 128
"""Inputs of one request to a server that is known to answer in base64."""
MAX_FLOAT_INPUTS = 32
"""The same for all others."""
MAX_PARALLEL_REQUESTS = 4
"""Of one call."""
_FORMAT_STATUSES = frozenset({400, 422})
"""With these, a server may refuse the parameter `encoding_format`."""


class _Request(Struct, frozen=True):
    model: str
    input: Sequence[Input]
    encoding_format: str | UnsetType = UNSET
    dimensions: int | UnsetType = UNSET


class _Row(Struct, frozen=True):
    embedding: str | list[float]
    index: int = -1


class _Usage(Struct, frozen=True):
    prompt_tokens: int = 0


class _Answer(Struct, frozen=True):
    data: list[_Row]
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class UpstreamEmbedder:
    """The model that clients call `model`, and the server of this client calls `upstream`."""

    def __init__(self, client: HttpClient, model: str, upstream: str = "") -> None:
        self._client = client
        self._model = model
        self._upstream = upstream or model
        self._asks_base64 = True
        """False after the server has refused it."""
        self._gets_base64 = False
        """Whether its last answer was in base64."""

    @property
    def model(self) -> str:
        return self._model

    async def embed(
        self, inputs: Sequence[Input], *, dimensions: int | None = None, tenant: str = ""
    ) -> Embedded:
        vectors: list[Vector] = [b""] * len(inputs)
        tokens, begun = 0, 0

        async def work() -> None:
            nonlocal tokens, begun
            while begun < len(inputs):
                start = begun
                begun += MAX_BASE64_INPUTS if self._gets_base64 else MAX_FLOAT_INPUTS
                found = await self._ask(inputs[start:begun], dimensions)
                vectors[start : start + len(found.vectors)] = found.vectors
                tokens += found.tokens

        workers = [asyncio.ensure_future(work()) for _ in range(MAX_PARALLEL_REQUESTS)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
        if len(set(map(len, vectors))) > 1:
            raise self._broken("the vectors differ in their length")
        return Embedded(vectors, tokens)

    async def aclose(self) -> None:
        self._client.close()

    async def _ask(self, inputs: Sequence[Input], dimensions: int | None) -> Embedded:
        asked = _Request(
            self._upstream,
            inputs,
            "base64" if self._asks_base64 else UNSET,
            UNSET if dimensions is None else dimensions,
        )
        try:
            return await self._request(asked)
        except BackendRefused as error:
            about_format = "encoding_format" in error.message or "base64" in error.message
            if not (asked.encoding_format and about_format and error.status in _FORMAT_STATUSES):
                raise
            self._asks_base64 = False
        return await self._request(replace(asked, encoding_format=UNSET))

    async def _request(self, asked: _Request) -> Embedded:
        client = self._client
        request = client.request("POST", PATH, msgspec.json.encode(asked))
        body = await fetch(client, request, client.target.deadlines.answer, retries=client.target.retries)
        try:
            answer = _decode(body)
            rows = answer.data
            if all(row.index >= 0 for row in rows):
                rows = sorted(rows, key=lambda row: row.index)
            vectors = [_vector(row) for row in rows]
        except (msgspec.DecodeError, ValueError) as error:
            raise self._broken(str(error)) from None
        if len(vectors) != len(asked.input):
            raise self._broken(f"{len(vectors)} vectors for {len(asked.input)} inputs")
        self._gets_base64 = all(isinstance(row.embedding, str) for row in rows)
        return Embedded(vectors, answer.usage.prompt_tokens if answer.usage else 0)

    def _broken(self, why: str) -> BackendBroken:
        name = self._client.target.name
        return BackendBroken(f"The upstream '{name}' did not answer with embeddings: {why}.")


def _vector(row: _Row) -> Vector:
    vector = from_base64(row.embedding) if isinstance(row.embedding, str) else from_floats(row.embedding)
    if not vector:
        raise ValueError("a vector is empty")
    if not is_finite(vector):
        raise ValueError("a component is not a number")
    return vector
