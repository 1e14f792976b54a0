"""`antiphon keys`: API keys for the clients of the server."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from antiphon.caller import ALL_SCOPES, DEFAULT_TENANT, SCOPES
from antiphon.cli.failure import WrongUsage
from antiphon.cli.options import API_KEY_VARIABLE, JSON_OPTION, STORE_OPTIONS, load_with_store
from antiphon.cli.terminal import UNIT_SECONDS, errors, format_date, format_duration, output, print_table
from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject
from antiphon.service.keys import Keyring
from antiphon.settings import LOOPBACK, Settings
from antiphon.store.base import ApiKey
from antiphon.store.ports import Stores
from antiphon.wiring import key_pepper, make_ids, open_stores, seal_fingerprint

_OTHER_SEAL_KEY = (
    "The sealing key of this machine is not that of the database: its servers would not accept the new key. "
    "Set the same seal.key as they have; if it was changed on purpose, run `antiphon db accept-seal-key`."
)
_NO_TOOLS = "none"
HEADINGS = ("id", "name", "tenant", "scopes", "age", "state")


@click.group("keys")
def command() -> None:
    """Create, list, revoke and delete API keys.

    A running server with the same store applies a change within a second. As soon as there is a key, every
    request needs one; on loopback, no request needs one again when all keys are deleted.

    \b
    Examples:
      antiphon keys create --name laptop
      antiphon keys list
      antiphon keys revoke 3f9c2a71d05be846
      antiphon keys delete --all
    """


@command.command("create", short_help="Create a key and print it once.")
@click.option("--name", default="", metavar="TEXT", help="A label for the key.")
@click.option(
    "--tenant",
    default=DEFAULT_TENANT,
    metavar="NAME",
    show_default=True,
    help="The tenant of the key: up to 64 letters, digits, dots, underscores, hyphens.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(ALL_SCOPES),
    metavar="SCOPE",
    help=f"A permission; may be repeated: {', '.join(ALL_SCOPES)}.  [default: all but admin]",
)
@click.option(
    "--tool",
    "tools",
    multiple=True,
    metavar="TOOL",
    help="A hosted tool that the key may use; may be repeated: file_search, web_search, mcp, "
    "mcp:SERVER (the host or label of one MCP server), none.  [default: all]",
)
@click.option(
    "--expires", metavar="SPAN", help="How long the key is valid: 12h, 90d, 2w.  [default: until revoked]"
)
@STORE_OPTIONS
def create_key(
    name: str,
    tenant: str,
    scopes: tuple[str, ...],
    tools: tuple[str, ...],
    expires: str | None,
    **options: Any,
) -> None:
    """Create a key and print it once.

    Prints nothing but the key on standard output, so that it can be captured. The store holds a digest only:
    the key cannot be shown again.

    \b
    Examples:
      antiphon keys create --name laptop
      antiphon keys create --tenant acme --scope responses:read --expires 90d
      antiphon keys create --tool file_search --tool mcp:mcp.example.com
      ANTIPHON_API_KEY=$(antiphon keys create --name ci)
    """
    settings = load_with_store(**options)
    lifetime = None if expires is None else parse_duration(expires)
    allowed = [tool for tool in tools if tool != _NO_TOOLS] if tools else None

    async def create() -> tuple[str, ApiKey, int]:
        async with open_stores(settings) as stores:
            fingerprint = seal_fingerprint(settings)
            if await stores.keys.record_seal_key(fingerprint) != fingerprint:
                raise SettingsError(_OTHER_SEAL_KEY)
            keyring = _keyring(stores, settings)
            text, key = await keyring.create(name, tenant, scopes or SCOPES, lifetime, allowed)
            return text, key, len(await keyring.list())

    text, key, keys = asyncio.run(create())
    click.echo(text)
    until = "until it is revoked" if key.expires_at is None else f"until {format_date(key.expires_at)}"
    _note(
        f"Key {key.id} for tenant {key.tenant} ({_permissions(key)}) is valid {until}. "
        "Save it now: it cannot be shown again."
    )
    if keys == 1 and not settings.server.api_keys:
        _note(
            f"It is the first key: from now on every request needs one. Commands of antiphon send the key in "
            f"{API_KEY_VARIABLE}. `antiphon keys delete {key.id}` undoes it."
        )


@command.command("list")
@JSON_OPTION
@STORE_OPTIONS
def list_keys(machine: bool, **options: Any) -> None:
    """List all keys, without their secrets.

    \b
    Examples:
      antiphon keys list
      antiphon keys list --json
    """
    settings = load_with_store(**options)

    async def keys() -> Sequence[ApiKey]:
        async with open_stores(settings) as stores:
            return await _keyring(stores, settings).list()

    now = make_ids().clock()
    found = asyncio.run(keys())
    if machine:
        click.echo(msgspec.json.format(msgspec.json.encode([_to_json(key, now) for key in found]), indent=2))
    elif found:
        print_table(HEADINGS, [_row(key, now) for key in found])
    else:
        output().print("There are no keys. Create one: antiphon keys create", style="dim")


@command.command("revoke", short_help="Revoke a key.")
@click.argument("key_id", metavar="ID")
@STORE_OPTIONS
def revoke_key(key_id: str, **options: Any) -> None:
    """Revoke the key ID: requests with it are refused.

    `antiphon keys list` shows the ID; it is also part of the key: ap_ID_….

    \b
    Example:
      antiphon keys revoke 3f9c2a71d05be846
    """
    settings = load_with_store(**options)

    async def revoke() -> None:
        async with open_stores(settings) as stores:
            await _keyring(stores, settings).revoke(key_id)

    asyncio.run(revoke())
    output().print(f"Key {key_id} is revoked.", markup=False, soft_wrap=True)


@command.command("delete", short_help="Delete keys, the last one too.")
@click.argument("key_ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "everything", is_flag=True, help="Delete all keys.")
@click.option("--yes", is_flag=True, help="Do not ask before the last key is deleted.")
@STORE_OPTIONS
def delete_keys(key_ids: tuple[str, ...], everything: bool, yes: bool, **options: Any) -> None:
    """Delete the keys ID: requests with them are refused, and `antiphon keys list` no longer shows them.

    A revoked or expired key still counts as a key. When the last one is deleted, a server on loopback accepts
    every request without a key, as before the first key. A server on another address never does: it refuses
    all requests.

    \b
    Examples:
      antiphon keys delete 3f9c2a71d05be846
      antiphon keys delete --all
    """
    if everything == bool(key_ids):
        raise WrongUsage("Name the keys to delete, or use --all.")
    settings = load_with_store(**options)

    async def find() -> tuple[list[str], bool]:
        async with open_stores(settings) as stores:
            known = [key.id for key in await _keyring(stores, settings).list()]
        wanted = known if everything else list(dict.fromkeys(key_ids))
        return wanted, bool(known) and set(known) <= set(wanted)

    async def delete(wanted: Sequence[str]) -> None:
        async with open_stores(settings) as stores:
            await _keyring(stores, settings).delete(wanted)

    wanted, last = asyncio.run(find())
    consequence = without_keys(settings) if last else ""
    if consequence and not yes:
        click.confirm(f"No key is left then. {consequence} Delete?", abort=True, err=True)
    asyncio.run(delete(wanted))
    click.echo(f"Deleted {'1 key' if len(wanted) == 1 else f'{len(wanted)} keys'}.")
    if consequence:
        _note(consequence)


def without_keys(settings: Settings) -> str:
    """What a server does when there are no stored keys; with configured keys, nothing changes."""
    if settings.server.api_keys:
        return "Requests still need a key of server.api_keys."
    if settings.server.host in LOOPBACK:
        return "A server on loopback accepts every request of this machine without a key."
    return f"A server on {settings.server.host} refuses every request, and does not start."


def _note(text: str) -> None:
    errors().print(text, style="dim", markup=False, soft_wrap=True)


def _keyring(stores: Stores, settings: Settings) -> Keyring:
    ids = make_ids()
    pepper = key_pepper(settings)
    return Keyring(stores.keys, stores.signals, pepper=pepper, clock=ids.clock, entropy=ids.entropy)


def _row(key: ApiKey, now: float) -> tuple[str, ...]:
    scopes = "all" if key.scopes == SCOPES and key.tools is None else _permissions(key)
    state = _state(key, now)
    if state == "valid" and key.expires_at is not None:
        state = f"valid for {format_duration(key.expires_at - now)}"
    return (key.id, key.name, key.tenant, scopes, format_duration(now - key.created_at), state)


def _permissions(key: ApiKey) -> str:
    tools = "" if key.tools is None else f"; tools: {', '.join(key.tools) or _NO_TOOLS}"
    return ", ".join(key.scopes) + tools


def _state(key: ApiKey, now: float) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "valid"


def _to_json(key: ApiKey, now: float) -> JsonObject:
    """The fields of a key without its digest."""
    fields: JsonObject = msgspec.to_builtins(key)
    del fields["digest"]
    return {**fields, "state": _state(key, now)}


_DURATION = re.compile(r"([1-9]\d{0,5}) ?(s|min|h|d|w)")


def parse_duration(text: str) -> int:
    """The seconds of a duration such as `30min`, `12h`, `90d` or `2w`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise WrongUsage(f"'{text}' is not a duration. Examples: 30min, 12h, 90d, 2w.")
    return int(match[1]) * UNIT_SECONDS[match[2]]
