"""The body of ``POST /v1/embeddings``: from bytes to checked inputs."""

from collections.abc import Sequence
from typing import Any, Literal, cast

from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.protocol.bounds import check_length
from antiphon.protocol.large_body import Body
from antiphon.protocol.parse import decode, kind_of

MAX_INPUTS = 2048
MAX_INPUT_TOKENS = 8192
"""Of one array of token ids."""
MAX_TOKEN_ID = 2**31 - 1

EncodingFormat = Literal["float", "base64"]


class EmbeddingsRequest(Struct, frozen=True):
    """A checked request. An input is a text, or the ids of its tokens."""

    model: str
    inputs: Sequence[str | Sequence[int]]
    encoding_format: EncodingFormat = "float"
    dimensions: int | None = None


class _Raw(Struct, frozen=True):
    model: str
    input: Any
    encoding_format: EncodingFormat | None = None
    dimensions: int | None = None
    user: str | None = None
    """Taken and not used, like every other member."""


def parse_embeddings(body: Body) -> EmbeddingsRequest:
    """Parse the body. Raises `InvalidRequest`, which names the parameter."""
    raw = decode(body, _Raw)
    if raw.dimensions is not None and raw.dimensions < 1:
        raise InvalidRequest("'dimensions' must be 1 or more.", param="dimensions")
    return EmbeddingsRequest(raw.model, _inputs(raw.input), raw.encoding_format or "float", raw.dimensions)


def _inputs(value: object) -> list[str | Sequence[int]]:
    """A text, an array of texts, an array of token ids, or an array of such arrays."""
    if not isinstance(value, list):
        return [_text(value, "input")]
    values = cast("list[object]", value)
    if not values:
        raise InvalidRequest("'input' is empty; send at least one text.", param="input", code="empty_array")
    if isinstance(values[0], int):
        return [_token_ids(values, "input")]
    check_length(values, MAX_INPUTS, "input", "inputs")
    if isinstance(values[0], list):
        return [_token_ids(ids, f"input[{place}]") for place, ids in enumerate(values)]
    return [_text(text, f"input[{place}]") for place, text in enumerate(values)]


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(value, path, "a string")
    if not value:
        message = f"'{path}' is an empty string; a text must have at least one character."
        raise InvalidRequest(message, param=path, code="empty_string")
    return value


def _token_ids(value: object, path: str) -> list[int]:
    if not isinstance(value, list):
        raise _wrong_type(value, path, "an array of token ids")
    ids = cast("list[object]", value)
    if not ids:
        raise InvalidRequest(f"'{path}' is an empty array of token ids.", param=path, code="empty_array")
    if len(ids) > MAX_INPUT_TOKENS:
        message = f"'{path}' has {len(ids)} tokens; at most {MAX_INPUT_TOKENS} are accepted. Split the text."
        raise InvalidRequest(message, param=path, code="context_length_exceeded")
    for place, token in enumerate(ids):
        if type(token) is not int:
            raise _wrong_type(token, f"{path}[{place}]", "a token id")
        if not 0 <= token <= MAX_TOKEN_ID:
            raise InvalidRequest(f"'{path}[{place}]' is not a token id.", param=f"{path}[{place}]")
    return cast("list[int]", ids)


def _wrong_type(value: object, path: str, wanted: str) -> InvalidRequest:
    message = f"Invalid type for '{path}': expected {wanted}, but got {kind_of(value)} instead."
    return InvalidRequest(message, param=path, code="invalid_type")
