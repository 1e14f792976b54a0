"""``GET /v1/models`` for clients of Anthropic's API, which send `anthropic-version`."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from antiphon.backends.base import ModelInfo
from antiphon.errors import InvalidRequest, ModelNotFound
from antiphon.protocol.content import JsonObject
from antiphon.server.exchange import Exchange
from antiphon.service.routing.router import Router

PAGE_LIMIT = 20
MAX_LIMIT = 1000


class AnthropicModels:
    """The list of models and one model, in the form of Anthropic's API."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list(self, exchange: Exchange) -> None:
        query = exchange.query()
        limit = query.number("limit", least=1, most=MAX_LIMIT) or PAGE_LIMIT
        models = [*await self._router.models()]
        page, more = _page(models, query.text("after_id"), query.text("before_id"), limit)
        answer = {
            "data": [_wire(model) for model in page],
            "has_more": more,
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }
        headers = exchange.errors.headers(exchange.request_id)
        await exchange.send_json(msgspec.json.encode(answer), headers=headers)

    async def retrieve(self, exchange: Exchange, model_id: str) -> None:
        model = await self._router.model(model_id)
        if model is None:
            raise ModelNotFound(
                f"The model '{model_id[:200]}' does not exist here. GET /v1/models lists those that do."
            )
        headers = exchange.errors.headers(exchange.request_id)
        await exchange.send_json(msgspec.json.encode(_wire(model)), headers=headers)


def _page(
    models: Sequence[ModelInfo], after: str | None, before: str | None, limit: int
) -> tuple[Sequence[ModelInfo], bool]:
    """The models after one, or before another; and whether there are more in that direction."""
    if after is not None and before is not None:
        message = "'after_id' and 'before_id' exclude each other. Send one of them."
        raise InvalidRequest(message, param="after_id", code="mutually_exclusive_parameters")
    ids = [model.id for model in models]
    for name, given in (("after_id", after), ("before_id", before)):
        if given is not None and given not in ids:
            raise InvalidRequest(f"'{name}' is no model of this list.", param=name, code="invalid_value")
    if before is not None:
        left = models[: ids.index(before)]
        return left[-limit:], len(left) > limit
    right = models if after is None else models[ids.index(after) + 1 :]
    return right[:limit], len(right) > limit


def _wire(model: ModelInfo) -> JsonObject:
    created = datetime.fromtimestamp(model.created, UTC)
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
    }
