"""Every route, setting and command-line option is documented; the README's facts are correct."""

import re
import tomllib
from pathlib import Path

import click
import msgspec
import pytest
from bench.publish import BEGIN, END, README_ROWS, TITLE, excerpt

import antiphon
from antiphon.backends.registry import ENDPOINTS
from antiphon.cli.root import main
from antiphon.server.routes.table import ROUTES
from antiphon.settings import (
    McpServerSettings,
    ModelRow,
    ModeSettings,
    ProfileSettings,
    Settings,
    UpstreamSettings,
)

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def setting_names() -> list[str]:
    names = [f"upstreams.{field.encode_name}" for field in msgspec.structs.fields(UpstreamSettings)]
    names += [f"models.{field.encode_name}" for field in msgspec.structs.fields(ModelRow)]
    names += [f"modes.{field.encode_name}" for field in msgspec.structs.fields(ModeSettings)]
    names += [f"profiles.{field.encode_name}" for field in msgspec.structs.fields(ProfileSettings)]
    names += [f"servers.{field.encode_name}" for field in msgspec.structs.fields(McpServerSettings)]
    names += ["aliases", "fallbacks"]
    for section in msgspec.structs.fields(Settings):
        if section.encode_name not in ("upstreams", "profiles", "aliases", "fallbacks"):
            names += [
                f"{section.encode_name}.{field.encode_name}" for field in msgspec.structs.fields(section.type)
            ]
    return names


def cli_options(command: click.Command, path: str) -> list[tuple[str, str]]:
    found = [
        (path, option)
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    ]
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            found += cli_options(inner, f"{path} {name}".strip())
    return found


def section_of(command: str, text: str) -> str:
    """The section of the page of commands that describes this one; "" if there is none."""
    if not command:
        return text
    _, _, rest = text.partition(f"## `antiphon {command}`")
    return rest.partition("\n## ")[0]


def test_every_route_is_documented() -> None:
    text = page("docs/reference/http-api.md")
    assert [route.name for route in ROUTES if f"`{route.name}`" not in text] == []


def test_every_setting_is_documented() -> None:
    text = page("docs/reference/configuration.md")
    assert [name for name in setting_names() if f"`{name}`" not in text] == []


def setting_defaults() -> dict[str, object]:
    """The settings with a default that is a number, a text or a truth value."""
    tables: list[tuple[str, object]] = [
        (field.encode_name, field.type) for field in msgspec.structs.fields(Settings)
    ]
    tables = [(name, table) for name, table in tables if isinstance(table, type)]
    tables += [("upstreams", UpstreamSettings), ("models", ModelRow), ("modes", ModeSettings)]
    tables.append(("servers", McpServerSettings))
    return {
        f"{name}.{field.encode_name}": field.default
        for name, table in tables
        if isinstance(table, type) and issubclass(table, msgspec.Struct)
        for field in msgspec.structs.fields(table)
        if isinstance(field.default, int | float | str) and field.default != ""
    }


def test_every_documented_default_is_that_of_the_setting() -> None:
    defaults = setting_defaults()
    rows = re.findall(
        r"^\| `(\w+\.\w+)` \| `([^`]+)` \|", page("docs/reference/configuration.md"), re.MULTILINE
    )
    shown = [(name, default) for name, default in rows if name in defaults]
    assert len(shown) > 40
    wrong = [
        (name, default)
        for name, default in shown
        if default not in (str(defaults[name]).removesuffix(".0"), str(defaults[name]).lower())
    ]
    assert wrong == []


def test_every_kind_of_endpoint_is_documented() -> None:
    text = page("docs/reference/upstreams.md")
    assert [kind for kind in ENDPOINTS if f"| `{kind}` |" not in text] == []


def test_every_option_of_every_command_is_documented() -> None:
    text = page("docs/reference/cli.md")
    options = [(command, option, section_of(command, text)) for command, option in cli_options(main, "")]
    assert options
    assert [
        f"antiphon {command} {option}"
        for command, option, section in options
        if f"`{option}" not in section and f"{option}`" not in section
    ] == []


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads(page("pyproject.toml"))["project"]["version"]
    assert version == antiphon.__version__
    assert re.search(rf"^## (Unreleased|{re.escape(version)})", page("CHANGELOG.md"), re.MULTILINE)


def test_the_public_names_are_exactly_these() -> None:
    assert all(getattr(antiphon, name) for name in antiphon.__all__)
    with pytest.raises(AttributeError):
        _ = antiphon.nothing  # pyright: ignore[reportAttributeAccessIssue]


def test_the_rows_of_the_benchmark_in_the_readme_are_those_of_the_results() -> None:
    markdown = page("bench/RESULTS.md").removeprefix(TITLE)
    shown = page("README.md").partition(f"{BEGIN}\n")[2].partition(END)[0]
    assert shown == excerpt(markdown)
    assert len(shown.strip().splitlines()) == 2 + 2 + len(README_ROWS)
