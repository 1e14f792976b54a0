"""Links of all pages lead somewhere; commands, options, settings, codes and messages of the pages for users exist."""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import get_args

import click
import msgspec
import pytest

from antiphon.cli.root import main
from antiphon.conformance.checks import CHECKS
from antiphon.orchestrator.events import AgentEvent
from antiphon.settings import Settings
from tests.docs.test_documented import setting_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    DOCS / "README.md",
    *sorted(DOCS.glob("tutorials/*.md")),
    *sorted(DOCS.glob("guides/*.md")),
    *sorted(DOCS.glob("reference/*.md")),
]
ALL_PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("examples", "bench")),
]
TROUBLESHOOTING = DOCS / "guides" / "troubleshooting.md"
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SUDO = {"sudo", "-u", "antiphon", "env"}
TASK = "# task.toml"
"""The first line of a block that is a task of the agent, not a configuration."""
OTHER_NAMES = {check.id for check in CHECKS} | {event.__struct_config__.tag for event in get_args(AgentEvent)}
"""Names that look like a setting: checks of the conformance checker, events of the agent."""

name_of = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def inline_code(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(path)), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", ALL_PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(path: Path) -> None:
    wrong: list[str] = []
    for link in LINK.findall(text_of(path)):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        file = path.parent / target if target else path
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            wrong.append(link)
    assert wrong == []


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(text_of(index))}
    pages = [path for path in DOCS.rglob("*.md") if path.parent.name not in ("decisions", "requirements")]
    assert [path for path in pages if path.resolve() not in listed | {index.resolve()}] == []


def commands_in(path: Path) -> Iterator[str]:
    """The commands of a page: in its blocks, and between backticks."""
    text = text_of(path)
    for language, block in FENCE.findall(text):
        if language in ("sh", "console"):
            yield from re.sub(r"\\\n\s*", " ", block).splitlines()
    yield from inline_code(text)


def antiphon_words(line: str) -> list[str]:
    """The words after `antiphon`; none if the line does not run it."""
    try:
        words = shlex.split(re.sub(r"[$()&]", " ", line), comments=True)
    except ValueError:
        return []
    for index, word in reversed(list(enumerate(words))):
        before = [earlier for earlier in words[:index] if "=" not in earlier]
        if Path(word).name == "antiphon" and set(before) <= SUDO:
            return words[index + 1 :]
    return []


def unknown_option(words: list[str]) -> str:
    """The first command or option that does not exist; "" if there is none."""
    command: click.Command = main
    for word in words:
        if word == "--" or word in (">", "2>&1", "|"):
            return ""
        if word.startswith("--"):
            options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
            if word not in options | {"--help", "--version"}:
                return f"{command.name} {word}"
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            if word not in command.commands:
                return f"{command.name} {word}"
            command = command.commands[word]
    return ""


@name_of
def test_every_command_and_option_exists(path: Path) -> None:
    found = [words for line in commands_in(path) if (words := antiphon_words(line))]
    assert [unknown for words in found if (unknown := unknown_option(words))] == []


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("$ antiphon serve --port 1 > log 2>&1 &", ""),
        ("$ antiphon serve --prt 1", "serve --prt"),
        ("key=$(antiphon keys make --name x)", "keys make"),
        ("X=1 antiphon keys create --nam x", "create --nam"),
        ("sudo -u antiphon env X=/v /opt/bin/antiphon keys creat", "keys creat"),
        ("antiphon codex -- exec --anything", ""),
    ],
)
def test_unknown_commands_and_options_are_noticed(line: str, unknown: str) -> None:
    assert unknown_option(antiphon_words(line)) == unknown


@name_of
def test_every_setting_exists(path: Path) -> None:
    text, known = text_of(path), set(setting_names())
    sections = {name.partition(".")[0] for name in known}
    named = {
        word
        for code in inline_code(text)
        for word in re.findall(r"^([a-z]+\.(?!(?:py|log)$)[a-z_]+)(?: = .+)?$", code)
    }
    variables = {
        f"{section}.{key}".lower()
        for section, key in re.findall(r"\bANTIPHON_([A-Z]+)__(?:[A-Z]+__)?([A-Z_]+)\b", text)
    }
    assert [
        name
        for name in (named | variables) - OTHER_NAMES
        if name.partition(".")[0] in sections and name not in known
    ] == []


@name_of
def test_every_configuration_is_valid(path: Path) -> None:
    for language, block in FENCE.findall(text_of(path)):
        is_of_codex = "model_provider" in block or "[mcp_servers." in block
        if language == "toml" and not is_of_codex and not block.startswith(TASK):
            msgspec.convert(tomllib.loads(block), Settings)


@name_of
def test_every_python_block_is_valid_and_imports_what_exists(path: Path) -> None:
    for language, block in FENCE.findall(text_of(path)):
        if language == "python":
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
            tree = compile(dedent(block), str(path), "exec", flags=flags)
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("antiphon"):
                    exec(compile(ast.Module([node], []), str(path), "exec"), {})


def documented_codes() -> list[str]:
    """The codes of the table of errors."""
    _, _, errors = text_of(DOCS / "reference" / "http-api.md").partition("\n## Errors\n")
    rows = re.findall(r"^\| [\dx, ]+ \| (.+?) \|", errors, re.MULTILINE)
    return [code for row in rows for code in re.findall(r"`(\w+)`", row)]


def test_every_code_of_the_api_is_explained() -> None:
    explained = set(inline_code(text_of(TROUBLESHOOTING)))
    assert len(documented_codes()) > 40
    assert [code for code in documented_codes() if code not in explained] == []


@cache
def messages() -> str:
    """The texts of the program, with `…` for what is inserted."""
    texts: list[str] = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
                texts.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_every_message_is_one_of_the_program() -> None:
    rows = re.findall(r"^\| `([^`]+ [^`]+)` \|", text_of(TROUBLESHOOTING), re.MULTILINE)
    shown = [row for row in rows if re.match(r"[A-Z…]|local\.", row)]
    assert len(shown) > 15
    parts = [part.strip() for row in shown for part in row.split("…") if len(part.strip()) > 8]
    assert [part for part in parts if part not in messages()] == []


def test_every_code_that_is_explained_exists() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| \d", text_of(TROUBLESHOOTING), re.MULTILINE)
    codes = [code for row in rows for code in re.findall(r"`(\w+)`", row)]
    assert len(codes) > 40
    known = set(documented_codes()) | set(re.findall(r"\w+", messages()))
    assert [code for code in codes if code not in known] == []
