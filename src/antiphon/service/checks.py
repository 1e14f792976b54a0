"""Runs checks of schemas, grammars and answers on behalf of tenants: cheap ones at once, others in a child
process with limits."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from antiphon.errors import Overloaded
from antiphon.isolated.pool import IsolatedPool, WorkExceeded
from antiphon.protocol.definitions import Definition, Rejection
from antiphon.turn.checks import Check, CheckSteps, is_cheap, run_check
from antiphon.turn.json_answer import Answer, Fault

EXAMINE = "antiphon.protocol.definitions:examine_encoded"
RUN_CHECKS = "antiphon.turn.checks:run_encoded_checks"
MAX_VERDICTS_PER_TENANT = 256
MAX_TENANTS = 1000
"""How many tenants verdicts are remembered for."""
_EXAMINED = msgspec.msgpack.Decoder(list[Rejection | None])
_RESULTS = msgspec.msgpack.Decoder(list[Answer | Fault])
_TOO_EXPENSIVE = Rejection("it takes too much time or memory to compile; simplify it", is_complex=True)
_TOO_EXPENSIVE_TOGETHER = Rejection(
    "the schemas and grammars of this request take too much time or memory to compile; simplify them",
    is_complex=True,
)
_UNKNOWN = Rejection("it was not examined yet")
_TRANSIENT_CAUSES = ("time", "crash")
_NOT_EXAMINED = (
    "The schemas and grammars of this request could not be checked in time. Try again in a moment."
)
_UNCHECKED = Fault("The answer takes too much time or memory to be checked. Write a shorter one.")

T = TypeVar("T")


class Checks:
    """The checks of all tenants."""

    def __init__(self, pool: IsolatedPool) -> None:
        self._pool = pool
        self._verdicts: OrderedDict[str, OrderedDict[bytes, Rejection | None]] = OrderedDict()
        """By tenant and content, so that no tenant can displace or observe the verdicts of another."""

    async def definitions(self, tenant: str, unchecked: Sequence[Definition]) -> None:
        """Raise `InvalidRequest` for a schema or grammar that is invalid or too expensive."""
        if not unchecked:
            return
        known = self._known(tenant)
        verdicts = {key: known.get(key, _UNKNOWN) for key in map(_key, unchecked)}
        new = {key: each for each in unchecked if verdicts[key := _key(each)] is _UNKNOWN}
        if new:
            found = dict(zip(new, await self._examine(tenant, [*new.values()]), strict=True))
            verdicts |= found
            if _TOO_EXPENSIVE_TOGETHER not in found.values():
                known |= found
            while len(known) > MAX_VERDICTS_PER_TENANT:
                known.popitem(last=False)
        for definition in unchecked:
            verdict = verdicts[_key(definition)]
            if verdict is not None:
                raise verdict.error(definition)

    async def run(self, tenant: str, steps: CheckSteps[T]) -> T:
        """The result of a function that needs checks."""
        found: Sequence[Answer | Fault] | None = None
        while True:
            try:
                checks = next(steps) if found is None else steps.send(found)
            except StopIteration as end:
                return end.value
            found = await self._run(tenant, checks)

    async def _run(self, tenant: str, checks: Sequence[Check]) -> Sequence[Answer | Fault]:
        if all(map(is_cheap, checks)):
            return [run_check(check) for check in checks]
        with suppress(WorkExceeded):
            return _RESULTS.decode(await self._pool.run(tenant, RUN_CHECKS, msgspec.msgpack.encode(checks)))
        return [_UNCHECKED] * len(checks)

    async def _examine(self, tenant: str, definitions: Sequence[Definition]) -> list[Rejection | None]:
        """One job for all. If it is too expensive, all of them are rejected: together they are."""
        self._pool.check_room(tenant)
        try:
            encoded = msgspec.msgpack.encode(definitions)
            return _EXAMINED.decode(await self._pool.run(tenant, EXAMINE, encoded))
        except WorkExceeded as error:
            if error.reason in _TRANSIENT_CAUSES:
                raise Overloaded(_NOT_EXAMINED) from None
        return [_TOO_EXPENSIVE if len(definitions) == 1 else _TOO_EXPENSIVE_TOGETHER] * len(definitions)

    def _known(self, tenant: str) -> OrderedDict[bytes, Rejection | None]:
        known = self._verdicts.setdefault(tenant, OrderedDict())
        self._verdicts.move_to_end(tenant)
        if len(self._verdicts) > MAX_TENANTS:
            self._verdicts.popitem(last=False)
        return known


@dataclass(frozen=True, slots=True)
class TenantChecks:
    """The checks of one tenant."""

    checks: Checks
    tenant: str

    async def run(self, steps: CheckSteps[T]) -> T:
        """The result of a function that needs checks."""
        return await self.checks.run(self.tenant, steps)


def _key(definition: Definition) -> bytes:
    return hashlib.sha256(f"{definition.syntax}\n{definition.text}".encode()).digest()
