"""Each upstream: can it be reached, does it take our key, does it have the configured models, how fast?"""

import os
import time

from antiphon.backends.registry import endpoint_kind
from antiphon.cli.checks.base import Check, doubtful, failed, passed
from antiphon.cli.checks.configuration import name_of
from antiphon.cli.upstreams import offered_models
from antiphon.errors import AntiphonError, BackendRefused, BackendTimeout, BackendUnreachable
from antiphon.http.client import AUTH_ERROR
from antiphon.http.redact import redact
from antiphon.service.routing.names import is_pattern
from antiphon.settings import UpstreamSettings

PATIENCE = 10.0


async def check_upstream(upstream: UpstreamSettings) -> Check:
    """Ask it for its models."""
    address = redact(upstream.base_url or endpoint_kind(upstream.kind).base_url)
    began = time.perf_counter()
    try:
        offered = await offered_models(upstream, PATIENCE)
    except AntiphonError as error:
        return _troubled(upstream, error)
    elapsed = (time.perf_counter() - began) * 1000
    key = "with a key" if _has_key(upstream) else "without a key"
    found = f"{address} answered in {elapsed:.0f} ms {key}; {len(offered)} models"
    absent = [name for name in _wanted(upstream) if name not in offered]
    if absent:
        advice = f"Check the names; it offers: {', '.join(offered[:10]) or 'nothing'}."
        return doubtful(name_of(upstream), f"{found}, but not {', '.join(absent)}", advice)
    return passed(name_of(upstream), found)


def _troubled(upstream: UpstreamSettings, error: AntiphonError) -> Check:
    name, found = name_of(upstream), error.message
    if error.code == AUTH_ERROR:
        advice = f"Put a valid key into {_key_variable(upstream) or 'api_key_env of this upstream'}."
        return failed(name, found, advice)
    if isinstance(error, BackendUnreachable):
        return failed(name, found, "Start it, or correct its base_url (--upstream).")
    if isinstance(error, BackendTimeout):
        return failed(name, found, "See whether it is overloaded, or whether a firewall is in the way.")
    if isinstance(error, BackendRefused) and error.status == 404:
        return doubtful(name, found, "If its base_url is right, name its models: it does not list them.")
    return failed(name, found, "See whether its base_url is right; it usually ends in /v1.")


def _wanted(upstream: UpstreamSettings) -> list[str]:
    """The names that the upstream itself has to know."""
    rows = [model if isinstance(model, str) else model.upstream or model.name for model in upstream.models]
    return [name for name in rows if not is_pattern(name)]


def _key_variable(upstream: UpstreamSettings) -> str:
    return upstream.api_key_env or endpoint_kind(upstream.kind).api_key_env


def _has_key(upstream: UpstreamSettings) -> bool:
    return bool(upstream.api_key or os.environ.get(_key_variable(upstream), ""))
