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


# The texts are those of the servers' sources, read in August 2026; a comment names the project and the file.
_MEDIA = r"\b(?:images?|audio|videos?|vision|multi-?modal)\b"
_UNSUPPORTED_INPUT = (
    # llama.cpp tools/server/server-common.cpp: "image input is not supported - hint: …", "… but model does
    # not support multimodal requests". Ollama server/images.go: "does not support" with a name. LM Studio
    # (lmstudio-bug-tracker#362): "Model does not support images". SGLang srt/managers/tokenizer_manager.py:
    # "Multimodal inputs are not supported when …".
    rf"{_MEDIA}.{{0,60}}?(?:not supported|unsupported)"
    rf"|(?:not support|unsupported|no support for|cannot process).{{0,40}}?{_MEDIA}"
    r"|missing data required for image"  # Ollama model/model.go, until 2026
    r"|\bis not a multi-?modal model"  # vLLM vllm/multimodal/registry.py
    r"|at most \d+ (?:image|audio|video)\(s\)"  # vLLM vllm/multimodal/processing/context.py
    r"|\b(?:image|audio|video) count \d+ exceeds limit"  # SGLang srt/managers/tokenizer_manager.py
)
_BROKEN_MEDIA = (
    r"failed to load image or audio file|failed to download image"  # llama.cpp tools/server/server-common.cpp
    r"|invalid (?:uri-encoded )?base64 value|uri must be base64 encoded|invalid uri format"  # the same
    r"|failed to load image:"  # vLLM vllm/multimodal/media/image.py
    r"|failed to decode audio:"  # SGLang srt/entrypoints/openai/streaming_asr.py
    r"|invalid image input|invalid (?:\w+ )?base64 (?:image )?data"  # Ollama openai/openai.go, anthropic.go
    r"|image: unknown format|illegal base64 data|decode webp image"  # Ollama, and Go's library that it uses
)
_CONSTRAINTS = (
    r"failed to parse grammar"  # llama.cpp common/sampling.cpp
    r"|json schema conversion failed|unrecognized schema:"  # llama.cpp common/json-schema-to-grammar.cpp
    r"|cannot use both json_schema and grammar"  # llama.cpp tools/server/server-common.cpp
    r"|invalid format: .{0,200}expected \"json\""  # Ollama llm/llama_server.go
    r"|invalid json schema"  # Ollama llm/server.go, until 2026
    # vLLM vllm/v1/structured_output/: backend_xgrammar.py and others
    r"|failed to (?:transform|convert) (?:the )?(?:regex|choices|json schema|grammar)"
    r"|invalid (?:json )?grammar specification|features not supported by xgrammar"
    r"|failed to compile regex for|regex uses unsupported feature"
    r"|failed to compile \w+ grammar"  # SGLang srt/constrained/grammar_manager.py
    r"|invalid schema for"  # OpenAI, and servers that repeat its texts
)
_ROLES = (  # raised by the chat template of a model: llama.cpp models/templates/
    r"roles must alternate|system role (?:is )?not supported|unexpected message role"
    r"|only [\w, ]{1,60} roles are supported|only [\w, ]{1,60} (?:chunks|blocks) are supported in"
    r"|system message must be at the beginning|no user query found in messages"
    r"|tool call ids should be alphanumeric|only supports single tool-calls"
    r"|requires --jinja flag"  # llama.cpp tools/server/server-common.cpp: tools without a template for them
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
    r"\b(?:images?|multi-?modal)(?: inputs?)? (?:is|are) not supported|missing data required for image input"
    r"|\b(?:does not|doesn't) support (?:images?|vision|multi-?modal)\b"
    r"(?! (?:formats?|types?|urls?|sizes?|generation))"  # Ollama: "does not support image generation"
    r"|\bis not a multi-?modal model|at most 0 image|image count \d+ exceeds limit 0\b"
    r"|no endpoints found that support image input",  # OpenRouter (goose#5396)
    re.IGNORECASE,
)


def find_fault(message: str) -> RequestFault | None:
    """The fault of the request that this message of a failed server tells; None: it is the server's own."""
    return next((fault for pattern, fault in _FAULTS if pattern.search(message)), None)


def refuses_images(message: str) -> bool:
    """Whether this message says that the model takes no images at all, not that one image is wrong."""
    return _REFUSED_IMAGES.search(message) is not None
