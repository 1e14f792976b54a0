"""Every route, setting and command-line option is documented; the README's facts are true."""

import re
import tomllib
from pathlib import Path

import click
import msgspec
import pytest

import antiphon
from antiphon.backends.registry import ENDPOINTS
from antiphon.cli.root import main
from antiphon.server.app import ROUTES
from antiphon.settings import ModelRow, ModeSettings, ProfileSettings, Settings, UpstreamSettings

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def setting_names() -> list[str]:
    names = [f"upstreams.{field.encode_name}" for field in msgspec.structs.fields(UpstreamSettings)]
    names += [f"models.{field.encode_name}" for field in msgspec.structs.fields(ModelRow)]
    names += [f"modes.{field.encode_name}" for field in msgspec.structs.fields(ModeSettings)]
    names += [f"profiles.{field.encode_name}" for field in msgspec.structs.fields(ProfileSettings)]
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


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_is_documented(route: str) -> None:
    assert f"`{route}`" in page("docs/http-api.md")


@pytest.mark.parametrize("name", setting_names())
def test_every_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in page("docs/configuration.md")


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_every_kind_of_endpoint_is_documented(kind: str) -> None:
    assert f"| `{kind}` |" in page("docs/backends.md")


@pytest.mark.parametrize(("command", "option"), cli_options(main, ""))
def test_every_option_of_every_command_is_documented(command: str, option: str) -> None:
    text = page("docs/cli.md")
    if command:
        heading = f"## `antiphon {command}`"
        assert heading in text
        text = text.split(heading)[1].split("\n## ")[0]
    assert f"`{option}" in text or f"{option}`" in text


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads(page("pyproject.toml"))["project"]["version"]
    assert version == antiphon.__version__
    assert re.search(rf"^## (Unreleased|{re.escape(version)})", page("CHANGELOG.md"), re.MULTILINE)


def markdown_links() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        (str(source.relative_to(ROOT)), target)
        for source in pages
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", source.read_text(encoding="utf-8"))
        if "://" not in target
    ]


@pytest.mark.parametrize(("source", "target"), markdown_links())
def test_every_link_leads_somewhere(source: str, target: str) -> None:
    assert (ROOT / source).parent.joinpath(target).exists()


def test_the_public_names_are_there_and_no_others() -> None:
    assert all(getattr(antiphon, name) for name in antiphon.__all__)
    with pytest.raises(AttributeError):
        _ = antiphon.nothing  # pyright: ignore[reportAttributeAccessIssue]
