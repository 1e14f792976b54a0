"""``GET /v1/models`` and ``GET /v1/models/{model}``."""

import msgspec

from antiphon.backends.base import ModelInfo
from antiphon.errors import ModelNotFound
from antiphon.server.exchange import Exchange
from antiphon.service.router import Router


class ModelsRoutes:
    """The routes of `/v1/models`."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list(self, exchange: Exchange) -> None:
        """Every model."""
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


def _to_wire(model: ModelInfo) -> dict[str, object]:
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": model.owned_by}
