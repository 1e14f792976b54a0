"""Attributes of files, and filters on them, as options."""

import json
from collections.abc import Sequence

from antiphon.cli.failure import WrongUsage
from antiphon.protocol.attribute_filters import Attribute, Comparison, Compound, Filter, parse_filter
from antiphon.service.vector_stores.local_files import PATH_ATTRIBUTE

MAX_KEY_CHARACTERS = 64
MAX_VALUE_CHARACTERS = 512


def parse_attributes(options: Sequence[str]) -> dict[str, Attribute]:
    """`--attribute KEY=VALUE`: numbers and truth values are such, everything else is text."""
    attributes: dict[str, Attribute] = {}
    for option in options:
        key, value = _pair(option, "--attribute")
        if key == PATH_ATTRIBUTE:
            raise WrongUsage(
                f"--attribute: '{PATH_ATTRIBUTE}' is the path of the file, and is set by itself."
            )
        if len(key) > MAX_KEY_CHARACTERS or len(value) > MAX_VALUE_CHARACTERS:
            raise WrongUsage(
                f"--attribute: a key has at most {MAX_KEY_CHARACTERS} characters, "
                f"a value {MAX_VALUE_CHARACTERS}."
            )
        attributes[key] = _typed(value)
    return attributes


def parse_filters(options: Sequence[str]) -> Filter | None:
    """`--filter KEY=VALUE`, or a filter of the API as JSON; all of them must hold."""
    filters = [found for option in options if (found := _filter(option)) is not None]
    if not filters:
        return None
    return filters[0] if len(filters) == 1 else Compound("and", tuple(filters))


def _filter(option: str) -> Filter | None:
    if option.lstrip().startswith("{"):
        try:
            return parse_filter(json.loads(option), "--filter")
        except json.JSONDecodeError as error:
            raise WrongUsage(f"--filter: this is not JSON: {error}.") from None
    key, value = _pair(option, "--filter")
    typed = _typed(value)
    if isinstance(typed, str):
        return Comparison("eq", key, typed)
    # An attribute that looks like a number may be a text.
    return Compound("or", (Comparison("eq", key, typed), Comparison("eq", key, value)))


def _pair(option: str, name: str) -> tuple[str, str]:
    key, separator, value = option.partition("=")
    if not separator or not key.strip():
        raise WrongUsage(f"{name}: '{option}' must have the form KEY=VALUE.")
    return key.strip(), value.strip()


def _typed(value: str) -> Attribute:
    if value in ("true", "false"):
        return value == "true"
    try:
        number = float(value)
    except ValueError:
        return value
    return number if value.strip("-").replace(".", "", 1).isdecimal() else value
