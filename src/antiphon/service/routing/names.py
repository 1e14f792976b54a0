"""Names of models: aliases, patterns, fallbacks, upstream names, similar names.

A configured name that ends with `*` is a pattern: it matches every name with that prefix. An exact name wins
over a pattern, a longer pattern over a shorter one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from antiphon.errors import SettingsError

WILDCARD = "*"
LOCAL_ALIAS = "local"
"""The alias of the embedded model."""
MIN_SIMILARITY = 0.3
"""Names that are less similar than this are unrelated."""


def is_pattern(name: str) -> bool:
    return name.endswith(WILDCARD)


def matched(pattern: str, name: str) -> str | None:
    """The part of a name that the `*` of a pattern matches; None if the pattern does not match."""
    prefix = pattern.removesuffix(WILDCARD)
    rest = name.removeprefix(prefix) if name.startswith(prefix) else ""
    return rest or None


def upstream_name(row: str, upstream: str, requested: str) -> str:
    """The upstream's name of a requested model that the name `row` matches."""
    if not is_pattern(row):
        return upstream or row
    if is_pattern(upstream):
        return upstream.removesuffix(WILDCARD) + (matched(row, requested) or "")
    return upstream or requested


def offered_name(row: str, upstream: str, offered: str) -> str | None:
    """The clients' name of a model that the upstream of a pattern lists; None if it cannot be requested."""
    if upstream and not is_pattern(upstream):  # every requested name is served by this model
        return row.removesuffix(WILDCARD) + offered if offered == upstream else None
    rest = matched(upstream or row, offered)
    return None if rest is None else row.removesuffix(WILDCARD) + rest


class Names(Struct, frozen=True):
    """Aliases and fallbacks of the settings."""

    aliases: Mapping[str, str] = {}
    fallbacks: Mapping[str, Sequence[str]] = {}

    def resolve(self, name: str) -> str:
        """The model of an alias; other names are returned unchanged."""
        return self.aliases.get(name, name)

    def fallbacks_of(self, name: str) -> list[str]:
        """The fallbacks of a name; those of an alias have precedence over those of its model."""
        model = self.resolve(name)
        following = self.fallbacks.get(name) or self.fallbacks.get(model) or ()
        return [other for other in map(self.resolve, following) if other != model]


def check_names(names: Names, served: Collection[str]) -> None:
    """Raise `SettingsError` for an invalid name, and for an alias or fallback that nothing serves."""
    for name in served:
        if WILDCARD in name[:-1]:
            raise SettingsError(
                f"The model name '{name}' has a '*' before its end. A '*' is allowed at the end only."
            )
    for alias, target in names.aliases.items():
        _check_alias(alias, target, names, served)
    for model, others in names.fallbacks.items():
        for name in (model, *others):
            if name not in names.aliases and not is_served(name, served):
                raise SettingsError(_not_served(f"fallbacks of '{model}'", name, served))


def _check_alias(alias: str, target: str, names: Names, served: Collection[str]) -> None:
    if target in names.aliases:
        raise SettingsError(
            f"The alias '{alias}' refers to '{target}', which is an alias itself. Name the model instead."
        )
    if alias in served or is_pattern(alias):
        what = "is also the name of a model" if alias in served else "cannot end with '*'"
        raise SettingsError(f"The alias '{alias}' {what}. Choose another name for it.")
    if not is_served(target, served):
        raise SettingsError(_not_served(f"alias '{alias}'", target, served))


def is_served(name: str, served: Collection[str]) -> bool:
    """Whether one of these names and patterns serves the model."""
    if is_pattern(name):
        return False
    return name in served or any(is_pattern(row) and matched(row, name) for row in served)


def _not_served(where: str, name: str, served: Collection[str]) -> str:
    known = ", ".join(f"'{row}'" for row in sorted(served)[:20]) or "none"
    return f"In the {where}: nothing serves the model '{name}'. Served: {known}."


def most_similar(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, the first of several; None if none is similar. Case, dots and dashes are
    ignored."""
    best = max(known, key=lambda other: similarity(name, other), default=None)
    return best if best is not None and similarity(name, best) >= MIN_SIMILARITY else None


def similarity(one: str, other: str) -> float:
    """The share of character pairs that both names have: from 0 to 1."""
    first, second = _pairs(one), _pairs(other)
    union = first | second
    return len(first & second) / len(union) if union else 0.0


def _pairs(name: str) -> set[str]:
    letters = "".join(letter for letter in name.lower() if letter.isascii() and letter.isalnum())
    return {letters[place : place + 2] for place in range(len(letters) - 1)}
