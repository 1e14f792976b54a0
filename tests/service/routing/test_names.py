"""Names of models: patterns, aliases, fallbacks, and dangling references."""

import pytest

from antiphon.errors import SettingsError
from antiphon.service.routing.names import Names, check_names, matched, offered_name, upstream_name


@pytest.mark.parametrize(
    ("pattern", "name", "rest"),
    [("*", "m", "m"), ("a/*", "a/b/c", "b/c"), ("a/*", "a/", None), ("a/*", "b/c", None), ("*", "", None)],
)
def test_a_star_takes_the_rest_of_a_name(pattern: str, name: str, rest: str | None) -> None:
    assert matched(pattern, name) == rest


@pytest.mark.parametrize(
    ("row", "upstream", "requested", "called"),
    [
        ("m", "", "m", "m"),
        ("m", "real", "m", "real"),
        ("*", "", "m", "m"),
        ("*", "real", "m", "real"),
        ("a/*", "", "a/m", "a/m"),
        ("a/*", "*", "a/m", "m"),
        ("a/*", "b/*", "a/m", "b/m"),
        ("a/*", "real", "a/m", "real"),
    ],
)
def test_the_upstream_name_has_the_prefix_kept_stripped_or_replaced(
    row: str, upstream: str, requested: str, called: str
) -> None:
    assert upstream_name(row, upstream, requested) == called


@pytest.mark.parametrize(
    ("row", "upstream", "offered", "name"),
    [
        ("*", "", "m", "m"),
        ("a/*", "", "a/m", "a/m"),
        ("a/*", "", "m", None),
        ("a/*", "*", "m", "a/m"),
        ("a/*", "b/*", "b/m", "a/m"),
        ("a/*", "b/*", "m", None),
        ("*", "m", "m", "m"),
        ("*", "m", "other", None),
    ],
)
def test_upstream_models_are_listed_with_their_request_names(
    row: str, upstream: str, offered: str, name: str | None
) -> None:
    assert offered_name(row, upstream, offered) == name
    if name is not None:
        assert upstream_name(row, upstream, name) == offered


def test_an_alias_has_its_own_fallbacks_or_its_models() -> None:
    names = Names({"fast": "m", "slow": "n"}, {"m": ("n", "fast"), "slow": ("m",)})
    assert names.fallbacks_of("fast") == ["n"]
    assert names.fallbacks_of("m") == ["n"]
    assert names.fallbacks_of("slow") == ["m"]
    assert names.fallbacks_of("n") == []


@pytest.mark.parametrize(
    ("aliases", "fallbacks", "message"),
    [
        ({"a": "b", "b": "m"}, {}, "'b', which is an alias itself"),
        ({"a": "a"}, {}, "'a', which is an alias itself"),
        ({"a": "b", "b": "a"}, {}, "an alias itself"),
        ({"m": "n"}, {}, "'m' is also the name of a model"),
        ({"a*": "m"}, {}, r"'a\*' cannot end"),
        ({"a": "x"}, {}, "alias 'a': nothing serves the model 'x'. Served: 'm', 'n', 'p/"),
        ({"a": "*"}, {}, r"nothing serves the model '\*'"),
        ({}, {"m": ("x",)}, "fallbacks of 'm': nothing serves the model 'x'"),
        ({}, {"x": ("m",)}, "fallbacks of 'x': nothing serves the model 'x'"),
    ],
)
def test_an_unserved_name_is_rejected(
    aliases: dict[str, str], fallbacks: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        check_names(Names(aliases, fallbacks), ["m", "n", "p/*"])


def test_a_star_can_only_stand_at_the_end() -> None:
    with pytest.raises(SettingsError, match="allowed at the end only"):
        check_names(Names(), ["a*b"])


def test_names_matched_by_patterns_and_aliases_are_served() -> None:
    names = Names({"a": "p/x", "b": "m"}, {"a": ("m", "b"), "p/y": ("a",)})
    check_names(names, ["m", "p/*"])
