"""`Discovery`: looks for models at the start, and again while the server runs."""

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping

from antiphon.discovery.found import NOTHING_FOUND, Found, found_models, summary
from antiphon.discovery.probe import MAX_MODELS, ModelServer, Probe, ProbeState, probe
from antiphon.discovery.providers import find_providers
from antiphon.http.exchange import Chance
from antiphon.settings import LOOPBACK, Settings

logger = logging.getLogger(__name__)

MAX_SILENT_LOOKS = 3
"""Looks in a row that a known server may leave unanswered: one that is busy is not gone."""
JITTER = 0.25
"""The share by which an interval is longer or shorter, so that several processes do not look together."""

_NOTES: Mapping[ProbeState, str] = {
    "antiphon": "the Antiphon at %s is not used as a model server; an upstream of the kind 'antiphon' is",
    "locked": "the server at %s requires a key: configure it as an upstream to use it",
}


class Discovery:
    """Finds models for a server. `own_port`: the port of this server, which is not probed."""

    def __init__(
        self,
        *,
        own_port: int | None = None,
        environment: Mapping[str, str] = os.environ,
        chance: Chance = random.random,
    ) -> None:
        self._own_port = own_port
        self._providers = find_providers(environment)
        self._chance = chance
        self._states: dict[str, ProbeState] = {}
        self._silent_looks: dict[str, int] = {}
        self._servers: dict[str, ModelServer] = {}
        self._seen: dict[str, ModelServer] = {}
        self._contested: dict[str, str] = {}

    async def look(self, settings: Settings) -> Found:
        """Probe all addresses at once; it takes no longer than one probe."""
        if not settings.discovers:
            return NOTHING_FOUND
        addresses = [address for address in settings.discovery.addresses if not self._is_own(address)]
        probes = await asyncio.gather(*(probe(address, self._servers.get(address)) for address in addresses))
        for address, result in zip(addresses, probes, strict=True):
            self._note(address, result)
        found = Found(
            servers=_in_order(addresses, self._servers),
            providers=self._providers if settings.discovery.keys else (),
            seen=_in_order(addresses, self._seen),
        )
        self._log_contested(settings, found)
        return found

    async def watch(self, settings: Callable[[], Settings], report: Callable[[Found], None]) -> None:
        """Look at regular intervals and report what was found, changed or not."""
        while True:
            await asyncio.sleep(self.pause_seconds(settings()))
            report(await self.look(settings()))

    def pause_seconds(self, settings: Settings) -> float:
        """The time until the next look."""
        return settings.discovery.interval * (1 - JITTER + 2 * JITTER * self._chance())

    def _is_own(self, address: str) -> bool:
        host, _, port = address.rpartition(":")
        return host in LOOPBACK and int(port) == self._own_port

    def _note(self, address: str, result: Probe) -> None:
        """Remember the result of a probe, and log it if it is new."""
        known, server = self._servers.get(address), result.server
        if result.state == "silent" and known is not None:
            silent = self._silent_looks[address] = self._silent_looks.get(address, 0) + 1
            if silent < MAX_SILENT_LOOKS:
                return
        self._silent_looks.pop(address, None)
        if server is not None and server != known:
            logger.info("found %s at %s: %s", server.kind, server.base_url, summary(server.models))
            self._servers[address] = server
            self._seen[address] = _with_models_of(server, self._seen.get(address))
        elif server is None and known is not None:
            logger.info("%s at %s is gone", known.kind, known.base_url)
            del self._servers[address]
        elif result.state in _NOTES and result.state != self._states.get(address):
            logger.info(_NOTES[result.state], address)
        self._states[address] = result.state

    def _log_contested(self, settings: Settings, found: Found) -> None:
        """Log which server answers for a name that several have, when that changes."""
        contested = {
            f"{models.upstream.name}/{name}": server
            for models in found_models(settings, found)
            for name, server in models.contested.items()
        }
        for name, server in contested.items() - self._contested.items():
            logger.info("the model '%s' needs its prefix: without it, %s answers", name, server)
        self._contested = contested


def _in_order(addresses: list[str], servers: Mapping[str, ModelServer]) -> tuple[ModelServer, ...]:
    return tuple(servers[address] for address in addresses if address in servers)


def _with_models_of(server: ModelServer, earlier: ModelServer | None) -> ModelServer:
    models = dict.fromkeys((*server.models, *(earlier.models if earlier else ())))
    return ModelServer(server.address, server.kind, tuple(models)[:MAX_MODELS])
