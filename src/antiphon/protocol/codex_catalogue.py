"""The catalogue of models in the form in which Codex reads it: ``GET /v1/models?client_version=0.166.0``.

Codex asks providers with a login of their own for it, and reads the same from a file (`model_catalog_json`).
It decides by it which tools to offer, what to attach, and when to compact. Members that it does not know are
ignored there; every member that some version since `OLDEST` insists on is here.
"""

import re
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.errors import InvalidRequest

Version = tuple[int, int, int]

OLDEST: Version = (0, 140, 0)
"""Older versions read another form: they refuse a whole catalogue for one effort that they do not know."""
UNRELEASED: Version = (0, 0, 0)
"""What Codex calls itself when it was built from its sources."""
PARAMETER = "client_version"

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:[-+][0-9A-Za-z.+-]{1,64})?")


class Effort(Struct, frozen=True):
    """A reasoning effort that can be chosen."""

    effort: str
    description: str


class Truncation(Struct, frozen=True):
    """How much of a tool's output the model is shown."""

    limit: int
    mode: Literal["tokens", "bytes"] = "tokens"


class CodexModel(Struct, frozen=True, kw_only=True):
    """One model. What Codex calls it is its `slug`."""

    slug: str
    display_name: str
    description: str
    priority: int
    """The lowest is the default; the picker is sorted by it."""
    base_instructions: str
    context_window: int | None
    max_context_window: int | None
    auto_compact_token_limit: int | None
    truncation_policy: Truncation
    supported_reasoning_levels: tuple[Effort, ...]
    input_modalities: tuple[Literal["text", "image"], ...]
    supports_parallel_tool_calls: bool
    multi_agent_version: Literal["disabled"] | None
    default_reasoning_level: str | None = None
    """None: none is sent, and the model thinks as hard as it does by itself."""
    shell_type: Literal["unified_exec"] = "unified_exec"
    apply_patch_tool_type: Literal["freeform"] | None = "freeform"
    visibility: Literal["list"] = "list"
    supported_in_api: bool = True
    support_verbosity: bool = False
    default_verbosity: str | None = None
    supports_reasoning_summaries: bool = True
    supports_reasoning_summary_parameter: bool = True
    default_reasoning_summary: Literal["auto"] = "auto"
    supports_search_tool: bool = False
    supports_image_detail_original: bool = False
    effective_context_window_percent: int = 95
    experimental_supported_tools: tuple[str, ...] = ()
    availability_nux: None = None
    upgrade: None = None


class CodexCatalogue(Struct, frozen=True):
    """All of them."""

    models: tuple[CodexModel, ...]


def parse_client_version(text: str) -> Version:
    """The version that asks; an unknown client is refused, since it would not understand the answer."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise InvalidRequest(
            f"Invalid value for '{PARAMETER}': '{text[:100]}' is no version of Codex such as '0.166.0'. "
            "Without this parameter, the models are listed as OpenAI lists them.",
            param=PARAMETER,
            code="unknown_client",
        )
    version = (int(found[1]), int(found[2]), int(found[3]))
    if version != UNRELEASED and version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise InvalidRequest(
            f"Codex {text[:100]} cannot read this catalogue. Use version {oldest} or newer: "
            "npm install -g @openai/codex",
            param=PARAMETER,
            code="unknown_client",
        )
    return version


def encode_catalogue(catalogue: CodexCatalogue) -> bytes:
    """As JSON."""
    return msgspec.json.encode(catalogue)
