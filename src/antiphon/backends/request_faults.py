"""Faults of a request that servers report as their own: with a 500, and a message that tells what it is.

Such a failure does not count against the server: otherwise the requests of one client would pause a model for
all. A 500 with any other message is a fault of the server.
"""

import re
from typing import NamedTuple


class RequestFault(NamedTuple):
    """How the error is reported to the client."""

    code: str
    param: str | None


_MEDIA = r"\b(?:images?|audio|videos?|vision|multi-?modal)\b"
_UNSUPPORTED_INPUT = (
    rf"{_MEDIA}.{{0,60}}?(?:not supported|unsupported|missing data)"
    rf"|(?:not support|unsupported|no support for|cannot process|missing data).{{0,40}}?{_MEDIA}"
    r"|\bis not a multi-?modal model"  # vLLM, SGLang
    r"|at most 0 images?"  # vLLM
)
_BROKEN_MEDIA = (
    r"failed to (?:load|decode|process|parse) (?:the )?(?:image|audio)"  # llama.cpp
    r"|image: unknown format|invalid image input|illegal base64 data|invalid base64"  # Ollama
)
_CONSTRAINTS = (
    r"failed to (?:parse|compile|initialize) (?:the )?(?:grammar|json schema|regex)"  # llama.cpp
    r"|json schema conversion failed|unrecognized schema:"  # llama.cpp
    r"|invalid (?:json schema|grammar)|invalid schema for"  # vLLM, Ollama
    r"|(?:schema|grammar)\b.{0,60}?\b(?:not supported|unsupported)"  # xgrammar
)
_ROLES = (  # raised by the chat template of a model
    r"roles must alternate|system role (?:is )?not supported|only user and assistant roles are supported"
    r"|unexpected message role"
)

_FAULTS = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), fault)
    for pattern, fault in (
        (_UNSUPPORTED_INPUT, RequestFault("unsupported_value", "input")),
        (_BROKEN_MEDIA, RequestFault("invalid_value", "input")),
        (_CONSTRAINTS, RequestFault("unsupported_value", None)),
        (_ROLES, RequestFault("unsupported_value", "input")),
    )
)

_REFUSED_IMAGES = re.compile(
    r"\bimages?(?: inputs?)? (?:is|are) not supported|missing data required for image input"
    r"|\b(?:does not|doesn't) support (?:images?|vision|multi-?modal)\b(?! (?:format|type|url|size))"
    r"|\bis not a multi-?modal model|at most 0 images?|support image input",
    re.IGNORECASE,
)


def find_fault(message: str) -> RequestFault | None:
    """The fault of the request that this message of a failed server tells; None: it is the server's own."""
    return next((fault for pattern, fault in _FAULTS if pattern.search(message)), None)


def refuses_images(message: str) -> bool:
    """Whether this message says that the model takes no images at all, not that one image is wrong."""
    return _REFUSED_IMAGES.search(message) is not None
