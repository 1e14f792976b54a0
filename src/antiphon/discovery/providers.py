"""Providers whose key is in the environment.

A key alone sends nothing: a provider is used when a request names one of its models, and it is listed as a
pattern, without asking it for its models.
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from antiphon.backends.registry import endpoint_kind
from antiphon.service.routing.names import is_served
from antiphon.settings import ModelRow, UpstreamSettings

logger = logging.getLogger(__name__)

MIN_KEY_CHARACTERS = 16
"""Shorter values are placeholders: clients of a local server are configured with `none`, for example."""


class Provider(NamedTuple):
    """`names`: its own names of models that need no prefix."""

    prefix: str
    kind: str
    names: tuple[str, ...] = ()


# Not `gpt-*`: gpt-oss runs on this machine, and its requests must not go elsewhere while its server is down.
# A `*` matches one character at least, so `gpt-5` and `gpt-5*` are two rows.
_GPT = tuple(f"gpt-{digit}{rest}" for digit in range(3, 10) for rest in ("", "*"))
_O = tuple(f"o{digit}{rest}" for digit in range(1, 10) for rest in ("", "-*"))

PROVIDERS = (
    Provider("openai", "openai-responses", (*_GPT, *_O, "chatgpt-*")),
    Provider("anthropic", "anthropic", ("claude-*",)),
    Provider("gemini", "gemini", ("gemini-*",)),
    Provider("openrouter", "openrouter"),
    Provider("groq", "groq"),
    Provider("mistral", "mistral"),
    Provider("deepseek", "deepseek"),
    Provider("together", "together"),
)


def find_providers(environment: Mapping[str, str]) -> tuple[UpstreamSettings, ...]:
    """The providers whose key is in the environment, as upstreams."""
    return tuple(
        _upstream(provider, variable)
        for provider in PROVIDERS
        if _is_key(variable := endpoint_kind(provider.kind).api_key_env, environment.get(variable, ""))
    )


def key_variable_of(model: str) -> str:
    """The variable with the key of the provider that has a model of this name; empty: none is known."""
    for provider in PROVIDERS:
        if is_served(model, (f"{provider.prefix}/*", *provider.names)):
            return endpoint_kind(provider.kind).api_key_env
    return ""


def _upstream(provider: Provider, variable: str) -> UpstreamSettings:
    return UpstreamSettings(
        name=provider.prefix,
        kind=provider.kind,
        api_key_env=variable,
        models=(
            ModelRow(f"{provider.prefix}/*", upstream="*", listed="pattern"),
            *(ModelRow(name, listed="hidden") for name in provider.names),
        ),
    )


def _is_key(variable: str, value: str) -> bool:
    if len(value) < MIN_KEY_CHARACTERS:
        return False
    if not value.isascii() or not value.isprintable() or " " in value:
        logger.warning("%s is not used: it contains characters that no key has", variable)
        return False
    return True
