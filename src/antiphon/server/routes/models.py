"""``GET /v1/models``, ``GET /v1/models/{model}`` and ``GET /v1/models/{model}/capabilities``."""

import hashlib
from dataclasses import replace
from typing import ClassVar

import msgspec

from antiphon.backends.base import ModelInfo
from antiphon.errors import ModelNotFound
from antiphon.server.compat.messages.models import AnthropicModels
from antiphon.server.error_shapes import ANTHROPIC_ERRORS
from antiphon.server.exchange import Exchange
from antiphon.server.routing import Route
from antiphon.service.codex_catalogue import PARAMETER, catalogue, encode_catalogue, parse_client_version
from antiphon.service.embeddings import Embeddings
from antiphon.service.routing.capabilities import ServerFeatures, describe
from antiphon.service.routing.router import Router


class ModelsRoutes:
    """Lists models. Requests with an `anthropic-version` header get them in the form of Anthropic's API."""

    def __init__(self, router: Router, embeddings: Embeddings, features: ServerFeatures) -> None:
        self._router = router
        self._embeddings = embeddings
        self._features = features
        self._anthropic = AnthropicModels(router)

    async def list(self, exchange: Exchange) -> None:
        """Every model, as OpenAI lists them; in the form of Codex for a client that sends its version."""
        if exchange.head.anthropic_version:
            return await self._anthropic.list(exchange)
        client = exchange.query().text(PARAMETER)
        if client is not None:
            return await self._catalogue(exchange, client)
        models = await self._router.models()
        data = [_to_wire(model) for model in models]
        data += [_embedding_to_wire(model) for model in self._embeddings.models()]
        await exchange.send_json(msgspec.json.encode({"object": "list", "data": data}))

    async def retrieve(self, exchange: Exchange, model_id: str) -> None:
        """One model. Its id may contain slashes."""
        if exchange.head.anthropic_version:
            return await self._anthropic.retrieve(exchange, model_id)
        embedding = self._embeddings.model(model_id)
        if embedding is not None:
            return await exchange.send_json(msgspec.json.encode(_embedding_to_wire(embedding)))
        model = await self._router.model(model_id)
        if model is None:
            raise ModelNotFound(
                f"The model '{model_id}' does not exist here. GET /v1/models lists those that do."
            )
        await exchange.send_json(msgspec.json.encode(_to_wire(model)))

    async def capabilities(self, exchange: Exchange, model_id: str) -> None:
        """The features of a model, and how each is served."""
        features = self._features
        features = replace(features, keeps=features.keeps and exchange.profile.state)
        described = await describe(model_id, self._router.routes(model_id), features)
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

    ROUTES: ClassVar = (
        Route("GET /v1/models", list, versioned_errors=ANTHROPIC_ERRORS),
        Route("GET /v1/models/{model}/capabilities", capabilities),
        Route("GET /v1/models/{model}", retrieve, versioned_errors=ANTHROPIC_ERRORS),
    )


def _matches(known: bytes, etag: str) -> bool:
    """Whether `If-None-Match`, a list of tags or `*`, contains this one. Weak tags count."""
    tags = [tag.strip().removeprefix("W/") for tag in known.decode("latin-1").split(",")]
    return etag in tags or "*" in tags


def _to_wire(model: ModelInfo) -> dict[str, object]:
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": model.owned_by}


def _embedding_to_wire(model: ModelInfo) -> dict[str, object]:
    """With its kind, so that clients do not take it for a model to talk to."""
    return {**_to_wire(model), "kind": "embedding"}
