"""The checks of keys: those of clients, the sealing key, and the variables that hold those of upstreams."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from antiphon.cli.startup.check import Check, failed, passed, warning
from antiphon.errors import AntiphonError
from antiphon.settings import LOOPBACK, NO_API_KEY, Settings, no_keys
from antiphon.store.base import ApiKey
from antiphon.store.keys import everything, find_seal_key
from antiphon.wiring import data_folder, make_ids, open_database, seal_fingerprint, store_path
from antiphon.wiring.folders import SEAL_KEY_FILE

MIN_KEY_CHARACTERS = 16


class StoredKeys(NamedTuple):
    """The API keys in a database, and the fingerprint of its sealing key."""

    keys: Sequence[ApiKey] = ()
    seal_key: str | None = None


async def stored_keys(settings: Settings) -> StoredKeys:
    """Read them; nothing is created or changed. Raises `AntiphonError`."""
    is_file = settings.store.url.startswith("sqlite:")
    if not settings.lasting or (is_file and not store_path(settings).exists()):
        return StoredKeys()
    async with open_database(settings) as database:
        applied = [done for _, done in await database.migration_status()]
        keys = await database.read(everything()) if applied[0] else ()
        return StoredKeys(keys, await database.read(find_seal_key()) if all(applied) else None)


async def check_keys(settings: Settings) -> list[Check]:
    """Whether the server may listen on its address with the keys that there are, and whether they fit."""
    try:
        stored = await stored_keys(settings)
    except AntiphonError:
        return []  # the check of the store reports it
    return [_check_client_keys(settings, stored.keys), *_check_seal_key(settings, stored.seal_key)]


def _check_client_keys(settings: Settings, stored: Sequence[ApiKey]) -> Check:
    server, now = settings.server, make_ids().clock()
    valid = [key for key in stored if not _has_ended(key, now)]
    found = f"{len(server.api_keys)} configured, {len(valid)} stored"
    if len(valid) < len(stored):
        found += f", {len(stored) - len(valid)} revoked or expired"
    if not server.api_keys and not stored:
        if server.host not in LOOPBACK:
            return failed("keys", f"none, for {server.host}", no_keys(server.host))
        return passed("keys", "none: requests of this machine need no key")
    if not server.api_keys and not valid:
        return warning("keys", f"{found}: every request is refused", _renew_keys(server.host))
    if any(len(key) < MIN_KEY_CHARACTERS for key in server.api_keys):
        advice = f"Use keys of at least {MIN_KEY_CHARACTERS} characters: short ones can be guessed."
        return warning("keys", found, advice)
    return passed("keys", found)


def _renew_keys(host: str) -> str:
    new = "Create a key with `antiphon keys create`"
    return f"{new}, or use none: `antiphon keys delete --all`." if host in LOOPBACK else f"{new}."


def _has_ended(key: ApiKey, now: float) -> bool:
    return key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now)


def _check_seal_key(settings: Settings, recorded: str | None) -> list[Check]:
    """Without a recorded key there is nothing to compare; the start of a server records its own."""
    if recorded is None:
        return []
    try:
        own = seal_fingerprint(settings) if _has_seal_key(settings) else None
    except AntiphonError as error:
        return [failed("seal key", "cannot be read", error.message)]
    if own == recorded:
        return [passed("seal key", "fits the database")]
    place = "seal.key" if settings.seal.key else str(data_folder() / SEAL_KEY_FILE)
    return [
        warning(
            "seal key",
            f"{place} is not the sealing key of this database; its API keys and sealed reasoning are void",
            "Set the same seal.key as the other servers; if it was changed on purpose, run "
            "`antiphon db accept-seal-key`.",
        )
    ]


def _has_seal_key(settings: Settings) -> bool:
    """A missing key file is not created for this check."""
    return bool(settings.seal.key) or (data_folder() / SEAL_KEY_FILE).exists()


def check_key_variables(settings: Settings) -> list[Check]:
    """A warning for every variable that `api_key_env` names and that is not set."""
    return [
        warning(
            f"key of {upstream.name or upstream.kind}",
            f"the variable {upstream.api_key_env} that api_key_env names is not set, so no key is sent",
            f"Set {upstream.api_key_env}, or remove api_key_env.",
        )
        for upstream in settings.upstreams
        if upstream.api_key_env not in ("", NO_API_KEY)
        and not upstream.api_key
        and not os.environ.get(upstream.api_key_env)
    ]
