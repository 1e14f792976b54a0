"""Parameters by which an upstream groups requests. Tenants share the account of an upstream, so an upstream
must not take equal names of two tenants for the same."""

from msgspec.structs import replace

from antiphon.caller import DEFAULT_TENANT
from antiphon.protocol.requests import CreateBody
from antiphon.turn.sealing import Sealer


def upstream_params(params: CreateBody, sealer: Sealer) -> CreateBody:
    """The parameters that an upstream receives: names that a tenant chose are replaced by pseudonyms. Those
    of the default tenant, who is the operator, are sent as they are."""
    if sealer.tenant == DEFAULT_TENANT:
        return params
    names = {
        "prompt_cache_key": params.prompt_cache_key,
        "safety_identifier": params.safety_identifier,
        "user": params.user,
    }
    given = {key: sealer.pseudonym(name) for key, name in names.items() if name}
    return replace(params, **given) if given else params
