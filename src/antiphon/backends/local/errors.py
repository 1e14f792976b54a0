"""Translate errors of llama.cpp."""

import re
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.errors import BackendBroken, BackendError, BackendRefused

SCHEMA_REFUSED = "invalid_json_schema"

_SCHEMA = re.compile(r"JSON schema error at (.*)", re.DOTALL)
_ERROR = b'{"error":'


class _Detail(Struct):
    message: str = ""
    code: int = 500
    type: str = ""
    n_prompt_tokens: int = 0
    n_ctx: int = 0


class _Error(Struct):
    error: _Detail


def is_error(payload: bytes) -> bool:
    """Whether a payload is an error object. They come compact, and nothing else begins so."""
    return payload.startswith(_ERROR)


def from_payload(payload: bytes) -> BackendError:
    """The error that a payload holds."""
    try:
        detail = msgspec.json.decode(payload, type=_Error).error
    except msgspec.DecodeError:
        return BackendBroken("The embedded model answered with an error that cannot be read.")
    if detail.type == "exceed_context_size_error":
        return BackendRefused(
            f"The input is {detail.n_prompt_tokens} tokens long, but this model takes {detail.n_ctx}. "
            "Shorten it, or have the operator raise the setting 'local.context'.",
            status=400,
            code="context_length_exceeded",
            param="input",
        )
    return _refused(detail.message, 400 if detail.code < 500 else 502)


def broken_model(path: Path, reason: str) -> BackendError:
    """The error for a model that does not load."""
    return BackendError(
        f"The model {path} cannot be loaded ({reason}). It must be a complete GGUF file of a chat model, and "
        "fit into memory with local.context × local.parallel tokens.",
        code="model_unavailable",
    )


def _refused(message: str, status: int) -> BackendRefused:
    schema = _SCHEMA.search(message)
    if schema:
        text = f"The JSON schema cannot be enforced: at {schema[1]}."
        return BackendRefused(text, status=400, code=SCHEMA_REFUSED)
    what = "refused the request" if status == 400 else "failed"
    return BackendRefused(f"The embedded model {what}: {message}", status=status)
