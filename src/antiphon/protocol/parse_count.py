"""``POST /v1/responses/input_tokens``: the parameters of a creation, but no model is needed."""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.parse import decode
from antiphon.protocol.parse_create import check_create
from antiphon.protocol.requests import CreateResponse, RawCreate


class RawCount(RawCreate, frozen=True, kw_only=True):
    """The body as it comes. Without a model, or with an empty one, none is asked."""

    model: Annotated[str, Meta(max_length=256)] | None = ""  # pyright: ignore[reportIncompatibleVariableOverride] -- liberal


def parse_count(body: bytes) -> CreateResponse:
    """Read and check the whole request, as `parse_create` does."""
    if not body:
        raise InvalidRequest("The request body is empty; send a JSON object.", code="invalid_json")
    raw = decode(body, RawCount)
    counted = raw.instructions is not None or bool(raw.tools)
    return check_create(replace(raw, model=raw.model or ""), input_optional=counted)
