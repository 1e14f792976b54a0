"""Names of models: which of ours a client's name means, and which of the upstream's that is.

A name of ours may end with `*` and then takes every name that begins so. An exact name wins over a pattern, a
longer pattern over a shorter one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from antiphon.errors import SettingsError

WILDCARD = "*"
LOCAL_ALIAS = "local"
"""The name under which the embedded model always answers."""
MIN_SIMILARITY = 0.3
"""Names that are less similar than this are unrelated."""


def is_pattern(name: str) -> bool:
    """Whether it takes many names."""
    return name.endswith(WILDCARD)


def taken(pattern: str, name: str) -> str | None:
    """What the star of a pattern takes of a name; None if it does not take it."""
    prefix = pattern.removesuffix(WILDCARD)
    rest = name.removeprefix(prefix) if name.startswith(prefix) else ""
    return rest or None


def upstream_name(row: str, upstream: str, asked: str) -> str:
    """What the upstream calls a model that was asked for, and found under the name `row`."""
    if not is_pattern(row):
        return upstream or row
    if is_pattern(upstream):
        return upstream.removesuffix(WILDCARD) + (taken(row, asked) or "")
    return upstream or asked


def offered_name(row: str, upstream: str, offered: str) -> str | None:
    """What clients call a model that the upstream of a pattern offers; None if it cannot be asked for."""
    if upstream and not is_pattern(upstream):  # whatever is asked for, it is this one
        return row.removesuffix(WILDCARD) + offered if offered == upstream else None
    rest = taken(upstream or row, offered)
    return None if rest is None else row.removesuffix(WILDCARD) + rest


class Names(Struct, frozen=True):
    """What the settings say about names besides the models themselves."""

    aliases: Mapping[str, str] = {}
    fallbacks: Mapping[str, Sequence[str]] = {}

    def meant(self, name: str) -> str:
        """The model that a client's name means."""
        return self.aliases.get(name, name)

    def stand_ins(self, name: str) -> list[str]:
        """The models that answer when this one cannot; those of the alias itself go first."""
        meant = self.meant(name)
        following = self.fallbacks.get(name) or self.fallbacks.get(meant) or ()
        return [other for other in map(self.meant, following) if other != meant]


def check_names(names: Names, served: Collection[str]) -> None:
    """Raise `SettingsError` for a name that would lead nowhere."""
    for name in served:
        if WILDCARD in name[:-1]:
            raise SettingsError(
                f"The model name '{name}' has a '*' before its end. It can only end with one."
            )
    for alias, target in names.aliases.items():
        _check_alias(alias, target, names, served)
    for model, others in names.fallbacks.items():
        for name in (model, *others):
            if name not in names.aliases and not _is_served(name, served):
                raise SettingsError(_nowhere(f"fallbacks of '{model}'", name, served))


def _check_alias(alias: str, target: str, names: Names, served: Collection[str]) -> None:
    if target in names.aliases:
        raise SettingsError(
            f"The alias '{alias}' means '{target}', which is an alias itself. Let it mean the model at once."
        )
    if alias in served or is_pattern(alias):
        what = "is the name of a model, too" if alias in served else "cannot end with '*'"
        raise SettingsError(f"The alias '{alias}' {what}. Choose another name for it.")
    if not _is_served(target, served):
        raise SettingsError(_nowhere(f"alias '{alias}'", target, served))


def _is_served(name: str, served: Collection[str]) -> bool:
    if is_pattern(name):
        return False
    return name in served or any(is_pattern(row) and taken(row, name) for row in served)


def _nowhere(where: str, name: str, served: Collection[str]) -> str:
    known = ", ".join(f"'{row}'" for row in sorted(served)[:20]) or "none"
    return f"In the {where}: nothing serves the model '{name}'. Served: {known}."


def most_similar(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, the first of several; None if none is similar."""
    best = max(known, key=lambda other: similarity(name, other), default=None)
    return best if best is not None and similarity(name, best) >= MIN_SIMILARITY else None


def similarity(one: str, other: str) -> float:
    """From 0, nothing in common, to 1."""
    ours, theirs = _pairs(one), _pairs(other)
    either = ours | theirs
    return len(ours & theirs) / len(either) if either else 0.0


def _pairs(name: str) -> set[str]:
    letters = "".join(letter for letter in name.lower() if letter.isascii() and letter.isalnum())
    return {letters[place : place + 2] for place in range(len(letters) - 1)}
