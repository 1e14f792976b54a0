"""``GET /v1/models``, ``GET /v1/models/{model}`` and ``GET /v1/models/{model}/capabilities``."""

import hashlib
from dataclasses import replace

import msgspec

from antiphon.backends.base import ModelInfo
from antiphon.errors import ModelNotFound
from antiphon.server.exchange import Exchange
from antiphon.service.codex_catalogue import PARAMETER, catalogue, encode_catalogue, parse_client_version
from antiphon.service.routing.capabilities import ServerFeatures, describe
from antiphon.service.routing.router import Router


class ModelsRoutes:
    """The routes of `/v1/models`."""

    def __init__(self, router: Router, surroundings: ServerFeatures) -> None:
        self._router = router
        self._surroundings = surroundings

    async def list(self, exchange: Exchange) -> None:
        """Every model: as OpenAI lists them, or in the form of Codex for a client that tells its version."""
        client = exchange.query().text(PARAMETER)
        if client is not None:
            return await self._catalogue(exchange, client)
        models = await self._router.models()
        data = [_to_wire(model) for model in models]
        await exchange.send_json(msgspec.json.encode({"object": "list", "data": data}))

    async def retrieve(self, exchange: Exchange, model_id: str) -> None:
        """One model. Its id may hold slashes."""
        for model in await self._router.models():
            if model.id == model_id:
                await exchange.send_json(msgspec.json.encode(_to_wire(model)))
                return
        raise ModelNotFound(
            f"The model '{model_id}' does not exist here. GET /v1/models lists those that do."
        )

    async def capabilities(self, exchange: Exchange, model_id: str) -> None:
        """What can be asked of a model, and how it is served."""
        around = self._surroundings
        around = replace(around, keeps=around.keeps and exchange.profile.state)
        described = await describe(model_id, self._router.routes(model_id), around)
        await exchange.send_json(msgspec.json.encode(described))

    async def _catalogue(self, exchange: Exchange, client: str) -> None:
        parse_client_version(client)
        first = exchange.query().text("model") or ""
        body = encode_catalogue(await catalogue(self._router, first))
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = ((b"etag", etag.encode()),)
        if _matches(exchange.head.if_none_match, etag):
            return await exchange.send_json(b"", 304, headers)
        await exchange.send_json(body, headers=headers)


def _matches(known: bytes, etag: str) -> bool:
    """Whether the client has it already: `If-None-Match` is a list of tags, weak ones too, or `*`."""
    tags = [tag.strip().removeprefix("W/") for tag in known.decode("latin-1").split(",")]
    return etag in tags or "*" in tags


def _to_wire(model: ModelInfo) -> dict[str, object]:
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": model.owned_by}
