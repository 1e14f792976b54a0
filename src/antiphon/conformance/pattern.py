"""Patterns over event types, matched one event at a time.

A pattern is a value. `after` returns the rest of a pattern after one event, or None if the event does not
match. So a mismatch is reported at the event that causes it, with the events that would have matched.
"""

from functools import lru_cache

from msgspec import Struct


class One(Struct, frozen=True):
    """Exactly one event of this type."""

    kind: str


class Chain(Struct, frozen=True):
    """Patterns in sequence; without steps, no event."""

    steps: "tuple[Pattern, ...]" = ()


class Either(Struct, frozen=True):
    """One of these patterns."""

    options: "tuple[Pattern, ...]"


class Many(Struct, frozen=True):
    """A pattern, any number of times."""

    step: "Pattern"


Pattern = One | Chain | Either | Many

NOTHING = Chain()


def sequence(*steps: str | Pattern) -> Pattern:
    """Steps in sequence. A name ends with `*` for any number of events, with `?` for at most one."""
    return _follow(tuple(_read(step) for step in steps))


def either(*options: str | Pattern) -> Pattern:
    return Either(tuple(_read(option) for option in options))


def many(*steps: str | Pattern) -> Pattern:
    return Many(sequence(*steps))


def may_end(pattern: Pattern) -> bool:
    """Whether no further event is required."""
    match pattern:
        case One():
            return False
        case Many():
            return True
        case Chain(steps):
            return all(may_end(step) for step in steps)
        case Either(options):
            return any(may_end(option) for option in options)


@lru_cache(maxsize=4096)
def after(pattern: Pattern, kind: str) -> Pattern | None:
    """The rest of the pattern after an event of this type; None if it does not match."""
    match pattern:
        case One(wanted):
            return NOTHING if wanted == kind else None
        case Many(step):
            rest = after(step, kind)
            return None if rest is None else _follow((rest, pattern))
        case Either(options):
            return _any_of([after(option, kind) for option in options])
        case Chain(steps):
            return _any_of(_continued(steps, kind))


def wanted(pattern: Pattern) -> list[str]:
    """The event types that match next, in the order of the pattern."""
    match pattern:
        case One(kind):
            return [kind]
        case Many(step):
            return wanted(step)
        case Either(options):
            found = [kind for option in options for kind in wanted(option)]
        case Chain(steps):
            found: list[str] = []
            for step in steps:
                found += wanted(step)
                if not may_end(step):
                    break
    return list(dict.fromkeys(found))


def kinds(pattern: Pattern) -> frozenset[str]:
    """All event types of the pattern."""
    match pattern:
        case One(kind):
            return frozenset({kind})
        case Many(step):
            return kinds(step)
        case Either(parts) | Chain(parts):
            return frozenset(kind for part in parts for kind in kinds(part))


def _continued(steps: tuple[Pattern, ...], kind: str) -> list[Pattern | None]:
    """Each continuation: with the first step, or with a later one if the steps before it are optional."""
    ways: list[Pattern | None] = []
    for position, step in enumerate(steps):
        rest = after(step, kind)
        ways.append(None if rest is None else _follow((rest, *steps[position + 1 :])))
        if not may_end(step):
            break
    return ways


def _any_of(ways: list[Pattern | None]) -> Pattern | None:
    open_ways = tuple(dict.fromkeys(way for way in ways if way is not None))
    return Either(open_ways) if len(open_ways) > 1 else next(iter(open_ways), None)


def _follow(steps: tuple[Pattern, ...]) -> Pattern:
    flat: list[Pattern] = []
    for step in steps:
        flat += step.steps if isinstance(step, Chain) else (step,)
    return flat[0] if len(flat) == 1 else Chain(tuple(flat))


def _read(step: str | Pattern) -> Pattern:
    if not isinstance(step, str):
        return step
    if step.endswith("*"):
        return Many(One(step[:-1]))
    if step.endswith("?"):
        return Either((One(step[:-1]), NOTHING))
    return One(step)
