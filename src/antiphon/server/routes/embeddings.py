"""``POST /v1/embeddings``."""

import asyncio
from collections.abc import AsyncGenerator
from typing import ClassVar

import msgspec

from antiphon.caller import WRITE
from antiphon.embeddings.base import Embedded, Vector
from antiphon.embeddings.vectors import to_base64, to_floats
from antiphon.protocol.embeddings import EncodingFormat, parse_embeddings
from antiphon.server.exchange import BodyReader, Exchange
from antiphon.server.lifetime import Lifetimes
from antiphon.server.routing import Route
from antiphon.service.embeddings import Embeddings

PIECE_COMPONENTS = 16 * 1024
"""Components of vectors that are written at a time: about a millisecond as numbers."""
SMALL_ANSWER_BYTES = 256 * 1024
"""Vectors of a smaller answer are sent at once, with their length."""


class EmbeddingsRoutes:
    """Answers with vectors, piece by piece, so that a large answer does not hold the event loop."""

    def __init__(self, embeddings: Embeddings, lifetimes: Lifetimes, bodies: BodyReader) -> None:
        self._embeddings = embeddings
        self._lifetimes = lifetimes
        self._bodies = bodies

    async def create(self, exchange: Exchange) -> None:
        """Embed one or more inputs."""
        with self._lifetimes.lease(exchange.receive) as lease:
            body = await self._bodies.read_decodable(exchange, lease)
            lease.expect_disconnect()
            request = parse_embeddings(body)
            del body  # it is not held while the model works
            model, found = await self._embeddings.create(request, exchange.caller)
        answer = _render(model, found, request.encoding_format)
        if len(found.vectors) * len(found.vectors[0]) > SMALL_ANSWER_BYTES:
            return await exchange.send_media(answer, "application/json")
        await exchange.send_json(b"".join([piece async for piece in answer]))

    ROUTES: ClassVar = (Route("POST /v1/embeddings", create, WRITE),)


async def _render(model: str, found: Embedded, form: EncodingFormat) -> AsyncGenerator[bytes, None]:
    yield b'{"object":"list","data":['
    size = len(found.vectors[0]) // 4
    step = max(1, PIECE_COMPONENTS // max(size, 1))
    for start in range(0, len(found.vectors), step):
        rows = [
            b'%b{"object":"embedding","index":%d,"embedding":%b}'
            % (b"," if place else b"", place, _render_vector(vector, form))
            for place, vector in enumerate(found.vectors[start : start + step], start)
        ]
        yield b"".join(rows)
        await asyncio.sleep(0)
    usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
    yield b'],"model":%b,"usage":%b}' % (msgspec.json.encode(model), msgspec.json.encode(usage))


def _render_vector(vector: Vector, form: EncodingFormat) -> bytes:
    return b'"%b"' % to_base64(vector) if form == "base64" else msgspec.json.encode(to_floats(vector))
