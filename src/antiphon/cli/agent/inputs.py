"""Reads the files of a request to the agent: tasks, active files, tools, results, images."""

import hashlib
import sys
import tomllib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec import Struct

from antiphon.cli.ask.question import make_input
from antiphon.cli.failure import WrongUsage
from antiphon.errors import InvalidRequest
from antiphon.orchestrator.models import AgentExecuteRequest
from antiphon.orchestrator.request_parser import check_results, check_tools, parse_run_request
from antiphon.protocol.content import JsonObject
from antiphon.retrieval.languages import language_of

MAX_FILE_BYTES = 4 * 1024 * 1024
"""More does not fit into any model's context."""


def read_text(path: Path, what: str) -> str:
    """Read a file of UTF-8 text; `what` names the option or key in errors."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise WrongUsage(f"{what}: cannot read '{path}': {error.strerror}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise WrongUsage(f"{what}: '{path}' is larger than {MAX_FILE_BYTES // 2**20} MB.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WrongUsage(f"{what}: '{path}' is not UTF-8 text.") from None


def read_json(path: Path, what: str) -> object:
    try:
        return msgspec.json.decode(read_text(path, what))
    except (msgspec.DecodeError, RecursionError) as error:
        raise WrongUsage(f"{what}: '{path}' is not valid JSON: {error}.") from None


def read_tools(paths: Sequence[Path], what: str) -> list[object]:
    """Read tools from files, each with one tool or a list of tools."""
    tools: list[object] = []
    for path in paths:
        found = read_json(path, what)
        some = cast("list[object]", found) if isinstance(found, list) else [found]
        with _errors_in(f"{what}: '{path}'"):
            check_tools(some, "tools")
        tools += some
    with _errors_in(what):
        check_tools(tools, "tools")  # two files may declare the same name
    return tools


def read_results(path: Path, what: str) -> list[object]:
    """Read a list of tool results."""
    found = read_json(path, what)
    if not isinstance(found, list):
        raise WrongUsage(f"{what}: '{path}' must contain a JSON array of results.")
    results = cast("list[object]", found)
    with _errors_in(f"{what}: '{path}'"):
        check_results(results, "results")
    return results


@contextmanager
def _errors_in(where: str) -> Generator[None, None, None]:
    """Name the file in the message of an error."""
    try:
        yield
    except InvalidRequest as error:
        raise WrongUsage(f"{where}: {error.message}") from None


def read_active_files(paths: Sequence[Path], root: Path, what: str) -> list[JsonObject]:
    """Read files below `root` that the agent is shown and may propose to change."""
    return [_active_file(path, root.resolve(), what) for path in paths]


def _active_file(path: Path, root: Path, what: str) -> JsonObject:
    absolute = path.resolve()
    if not absolute.is_relative_to(root):
        raise WrongUsage(f"{what}: '{path}' is not below {root}. Run the command in a folder above it.")
    contents = read_text(path, what)
    return {
        "absolute_path": str(absolute),
        "relative_path": absolute.relative_to(root).as_posix(),
        "file_name": absolute.name,
        "sha256_hash": hashlib.sha256(contents.encode()).hexdigest(),
        "contents": contents,
        "language": language_of(absolute.name),
    }


def read_images(names: Sequence[str]) -> list[JsonObject]:
    """Read the images of the instruction as attachments."""
    attachments: list[JsonObject] = []
    for name in names:
        [message] = cast("list[JsonObject]", make_input("", [name]))
        media_type, separator, data = str(message["content"][1]["image_url"]).partition(";base64,")
        if not separator:
            raise WrongUsage(f"--image: '{name}' is not a file. The agent accepts images from files only.")
        attachments.append({"id": name, "mime_type": media_type.removeprefix("data:"), "data_base64": data})
    return attachments


T = TypeVar("T")

OWN_KEYS = ("title", "instruction_file", "tools", "files")
"""Keys of a task besides the fields of the request."""
KNOWN_KEYS = (*OWN_KEYS, *(field.name for field in msgspec.structs.fields(AgentExecuteRequest)))


class Task(Struct, frozen=True, kw_only=True):
    """A task from a TOML file: its title, or an empty one; the request as JSON and parsed."""

    title: str
    body: JsonObject
    request: AgentExecuteRequest


def read_task(source: str) -> Task:
    """Read a task from a file, or from standard input for `-`. Its paths are relative to the file, or to the
    current folder."""
    if source == "-":
        return task_of(_parse(sys.stdin.read(), "standard input"), Path.cwd())
    path = Path(source)
    return task_of(_parse(read_text(path, "The task"), str(path)), path.parent)


def _parse(text: str, where: str) -> JsonObject:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WrongUsage(f"The task in {where} is not valid TOML: {error}.") from None


def task_of(table: JsonObject, folder: Path) -> Task:
    """The task that a TOML table describes. Its paths are relative to `folder`."""
    unknown = [key for key in table if key not in KNOWN_KEYS]
    if unknown:
        raise WrongUsage(f"The task has unknown keys: {', '.join(unknown)}. Known: {', '.join(KNOWN_KEYS)}.")
    body = {key: value for key, value in table.items() if key not in OWN_KEYS}
    for key, value in _from_files(table, folder).items():
        if key in body:
            raise WrongUsage(f"The task defines '{key}' twice: directly and by a file.")
        body[key] = value
    title = _checked(table, "title", str, "a string") if "title" in table else ""
    run = parse_run_request(msgspec.json.encode({**body, "title": title}))
    return Task(title=run.title, body=body, request=run.request)


def _from_files(table: JsonObject, folder: Path) -> JsonObject:
    """The fields that the task reads from files."""
    found: JsonObject = {}
    if "instruction_file" in table:
        path = folder / _checked(table, "instruction_file", str, "a path")
        found["instruction"] = read_text(path, "instruction_file")
    if "tools" in table:
        found["tools_json"] = read_tools(_paths(table, "tools", folder), "tools")
    if "files" in table:
        found["active_files"] = read_active_files(_paths(table, "files", folder), folder, "files")
    return found


def _paths(table: JsonObject, key: str, folder: Path) -> list[Path]:
    return [folder / name for name in _checked(table, key, list[str], "a list of paths")]


def _checked(table: JsonObject, key: str, kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(table[key], kind)
    except msgspec.ValidationError:
        raise WrongUsage(f"The task's '{key}' must be {what}.") from None
