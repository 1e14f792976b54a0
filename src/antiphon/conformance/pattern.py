"""Patterns over the kinds of events, matched one event at a time.

A pattern is a value; `after` is what is left of it when one event has come, or None if that event cannot come
now. So a mismatch is known at the event that causes it, together with what could have come instead.
"""

from functools import lru_cache

from msgspec import Struct


class One(Struct, frozen=True):
    """Exactly this kind."""

    kind: str


class Chain(Struct, frozen=True):
    """One pattern after another; without any, nothing is wanted."""

    steps: "tuple[Pattern, ...]" = ()


class Either(Struct, frozen=True):
    """Any one of these patterns."""

    options: "tuple[Pattern, ...]"


class Many(Struct, frozen=True):
    """A pattern, any number of times."""

    step: "Pattern"


Pattern = One | Chain | Either | Many

NOTHING = Chain()


def sequence(*steps: str | Pattern) -> Pattern:
    """One after another. A name ends with `*` for any number, with `?` for at most one."""
    return _follow(tuple(_read(step) for step in steps))


def either(*options: str | Pattern) -> Pattern:
    """Any one of them."""
    return Either(tuple(_read(option) for option in options))


def many(*steps: str | Pattern) -> Pattern:
    """These steps, any number of times."""
    return Many(sequence(*steps))


def may_end(pattern: Pattern) -> bool:
    """Whether nothing more has to come."""
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
    """What is left when an event of this kind has come; None if it cannot come now."""
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
    """The kinds that can come next, in the order in which they were written."""
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
    """Every kind that the pattern knows."""
    match pattern:
        case One(kind):
            return frozenset({kind})
        case Many(step):
            return kinds(step)
        case Either(parts) | Chain(parts):
            return frozenset(kind for part in parts for kind in kinds(part))


def _continued(steps: tuple[Pattern, ...], kind: str) -> list[Pattern | None]:
    """Each way to go on: with the first step, or with a later one if those before it may be left out."""
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
