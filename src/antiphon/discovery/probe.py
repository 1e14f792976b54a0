"""Asks one address whether a model server listens there, of which kind it is, and for its models.

Anything may listen on a port: a server that hangs, a web page, another Antiphon. A probe takes a second at
most, reads a bounded answer, follows no redirect and sends no key.
"""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from antiphon.errors import BackendError, BackendRefused, BackendTimeout, BackendUnreachable
from antiphon.http.client import HttpClient
from antiphon.http.exchange import fetch
from antiphon.http.target import Deadlines, Target

PROBE_TIMEOUT_SECONDS = 1.0
MAX_LIST_BYTES = 4 * 1024 * 1024
MAX_MODELS = 1000
"""Of one server; further ones are left out."""
MAX_NAME_CHARACTERS = 200

_DEADLINES = Deadlines(
    connect=PROBE_TIMEOUT_SECONDS,
    first_byte=PROBE_TIMEOUT_SECONDS,
    between=PROBE_TIMEOUT_SECONDS,
    answer=PROBE_TIMEOUT_SECONDS,
    total=PROBE_TIMEOUT_SECONDS,
)
_KINDS_BY_OWNER = {"llamacpp": "llama.cpp", "vllm": "vllm"}
"""The kind of a server, by the `owned_by` of its models."""

ProbeState = Literal["found", "absent", "silent", "locked", "antiphon", "other"]
"""`absent`: nothing listens. `silent`: no answer in time, or a 5xx. `locked`: it requires a key. `antiphon`:
another Antiphon, or this one. `other`: a program that lists no models."""


class ModelServer(Struct, frozen=True):
    """A model server and its models, in the order of its own list."""

    address: str
    kind: str
    models: tuple[str, ...]

    @property
    def base_url(self) -> str:
        return f"http://{self.address}/v1"


class Probe(Struct, frozen=True):
    """The result of one probe. `server` is set if the state is `found`."""

    state: ProbeState
    server: ModelServer | None = None


class _Model(Struct):
    id: str
    owned_by: Any = None


class _ModelList(Struct):
    data: list[_Model] | None
    """Ollama without models sends null."""


class _Health(Struct):
    service: Any = None


class _OllamaVersion(Struct):
    version: str


class _LmStudioModel(Struct):
    id: str
    type: str


class _LmStudioModels(Struct):
    data: Annotated[list[_LmStudioModel], Meta(min_length=1)]


async def probe(address: str, known: ModelServer | None = None) -> Probe:
    """Probe `host:port`. `known`: the server that was there last; with the same models, it is the same."""
    target = Target(
        name=address,
        base_url=f"http://{address}/v1",
        deadlines=_DEADLINES,
        retries=0,
        max_body_bytes=MAX_LIST_BYTES,
    )
    client = HttpClient(target)
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
            return await _identify(client, address, known)
    except TimeoutError:
        return Probe("silent")
    except BackendError as error:
        return Probe(_state_after(error))
    except msgspec.DecodeError:
        return Probe("other")
    finally:
        client.close()


async def _identify(client: HttpClient, address: str, known: ModelServer | None) -> Probe:
    try:
        body = await _get(client, "models")
    except BackendRefused as refusal:
        if refusal.status not in (401, 403):
            raise
        return Probe("antiphon" if await _is_antiphon(client) else "locked")
    found = msgspec.json.decode(body, type=_ModelList).data or []
    models = tuple(dict.fromkeys(model.id for model in found if _is_usable(model.id)))[:MAX_MODELS]
    if known is not None and known.models == models:
        return Probe("found", known)
    if await _is_antiphon(client):
        return Probe("antiphon")
    kind = await _kind_of(client, {str(model.owned_by) for model in found})
    if not models and kind == "plain":
        return Probe("other")
    return Probe("found", ModelServer(address, kind, models))


async def _kind_of(client: HttpClient, owners: set[str]) -> str:
    for owner, kind in _KINDS_BY_OWNER.items():
        if owner in owners:
            return kind
    if await _answers(client, "/api/version", _OllamaVersion):
        return "ollama"
    if await _answers(client, "/api/v0/models", _LmStudioModels):
        return "lm-studio"
    return "plain"


async def _is_antiphon(client: HttpClient) -> bool:
    health = await _answers(client, "/healthz", _Health)
    return isinstance(health, _Health) and health.service == "antiphon"


async def _answers(client: HttpClient, path: str, form: type[Struct]) -> Struct | None:
    """The JSON at this path, if it has this form."""
    try:
        return msgspec.json.decode(await _get(client, path), type=form)
    except (BackendError, msgspec.DecodeError):
        return None


async def _get(client: HttpClient, path: str) -> bytes:
    return await fetch(client, client.request("GET", path), PROBE_TIMEOUT_SECONDS)


def _state_after(error: BackendError) -> ProbeState:
    match error:
        case BackendUnreachable(unsent=True):
            return "absent"
        case BackendTimeout():
            return "silent"
        case BackendRefused() if error.status >= 500:
            return "silent"  # llama.cpp, while it loads its model
        case _:
            return "other"


def _is_usable(name: str) -> bool:
    """Whether clients can request this name. One with a `*` would be a pattern."""
    return (
        0 < len(name) <= MAX_NAME_CHARACTERS
        and name.isprintable()
        and name == name.strip()
        and "*" not in name
    )
