"""The check of an upstream: `antiphon doctor` shows it, a server logs it at its start."""

import os
import time
from collections.abc import Sequence
from typing import NamedTuple

from antiphon.backends.registry import endpoint_kind
from antiphon.cli.models import offered_models
from antiphon.cli.startup.check import Check, failed, passed, warning
from antiphon.errors import AntiphonError, BackendRefused, BackendTimeout, BackendUnreachable
from antiphon.http.client import AUTH_ERROR
from antiphon.http.redact import redact
from antiphon.service.routing.names import is_pattern
from antiphon.settings import UpstreamSettings
from antiphon.wiring.backends import key_source, key_variable

UPSTREAM_TIMEOUT_SECONDS = 10.0
_BASE_URL = "Check its base_url; it usually ends in /v1."


class UpstreamAnswer(NamedTuple):
    """Whether an upstream can be used, and the models that it lists."""

    check: Check
    models: Sequence[str] = ()


async def ask_upstream(upstream: UpstreamSettings) -> UpstreamAnswer:
    """Whether the upstream answers, accepts the key, and lists the configured models."""
    began = time.perf_counter()
    try:
        offered = await offered_models(upstream, UPSTREAM_TIMEOUT_SECONDS)
    except AntiphonError as error:
        return UpstreamAnswer(_failed_upstream(upstream, error))
    elapsed = (time.perf_counter() - began) * 1000
    key = "with a key" if _has_key(upstream) else "without a key"
    found = f"{address_of(upstream)} answered in {elapsed:.0f} ms {key}; {len(offered)} models"
    absent = [name for name in _wanted(upstream) if name not in offered]
    if absent:
        advice = f"Check the names; it offers: {', '.join(offered[:10]) or 'nothing'}."
        return UpstreamAnswer(
            warning(name_of(upstream), f"{found}, but not {', '.join(absent)}", advice), offered
        )
    return UpstreamAnswer(passed(name_of(upstream), found), offered)


def _failed_upstream(upstream: UpstreamSettings, error: AntiphonError) -> Check:
    name, found = name_of(upstream), f"{address_of(upstream)}: {error.message}"
    if error.code == AUTH_ERROR:
        advice = f"Put a valid key into {key_source(upstream) or 'api_key_env of this upstream'}."
        return failed(name, found, advice)
    if isinstance(error, BackendUnreachable):
        return failed(name, found, "Start it, or correct its base_url (--upstream).")
    if isinstance(error, BackendTimeout):
        return failed(name, found, "Check whether it is overloaded or behind a firewall.")
    if isinstance(error, BackendRefused) and error.is_web_page:
        return failed(
            name, f"{address_of(upstream)} is a web server, not a model server: {error.message}", _BASE_URL
        )
    if isinstance(error, BackendRefused) and error.status == 404:
        return warning(
            name, found, "If its base_url is correct, name its models in the settings: it does not list them."
        )
    return failed(name, found, _BASE_URL)


def _wanted(upstream: UpstreamSettings) -> list[str]:
    """The configured models, as the upstream names them."""
    rows = [model if isinstance(model, str) else model.upstream or model.name for model in upstream.models]
    return [name for name in rows if not is_pattern(name)]


def _has_key(upstream: UpstreamSettings) -> bool:
    return bool(upstream.api_key or os.environ.get(key_variable(upstream), ""))


def address_of(upstream: UpstreamSettings) -> str:
    """The address of an upstream, without secrets."""
    return redact(upstream.base_url or endpoint_kind(upstream.kind).base_url)


def name_of(upstream: UpstreamSettings) -> str:
    """The name of an upstream in a report."""
    return f"upstream {upstream.name or upstream.kind}"
