"""`TASK.toml`: what an agent shall do, in a file. Paths in it begin at the folder of the file."""

import sys
import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from antiphon.cli.agent_files import read_active_files, read_text, read_tools
from antiphon.cli.failure import WrongUsage
from antiphon.orchestrator.models import AgentExecuteRequest
from antiphon.orchestrator.request_parser import parse_run_request
from antiphon.protocol.content import JsonObject

T = TypeVar("T")

OWN_KEYS = ("title", "instruction_file", "tools", "files")
"""What a task may say besides the fields of the request."""
KNOWN = (*OWN_KEYS, *(field.name for field in msgspec.structs.fields(AgentExecuteRequest)))


class Task(Struct, frozen=True, kw_only=True):
    """A task: its title, or nothing; the request as a server is sent it, and as it is understood."""

    title: str
    sent: JsonObject
    request: AgentExecuteRequest


def read_task(source: str) -> Task:
    """The task in a file; `-` is standard input, and its paths begin here."""
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
    """The task that a table describes."""
    unknown = [key for key in table if key not in KNOWN]
    if unknown:
        raise WrongUsage(f"The task has unknown keys: {', '.join(unknown)}. Known: {', '.join(KNOWN)}.")
    sent = {key: value for key, value in table.items() if key not in OWN_KEYS}
    for key, value in _from_files(table, folder).items():
        if key in sent:
            raise WrongUsage(f"The task gives '{key}' twice: by itself and by a file.")
        sent[key] = value
    title = _checked(table, "title", str, "a string") if "title" in table else ""
    run = parse_run_request(msgspec.json.encode({**sent, "title": title}))
    return Task(title=run.title, sent=sent, request=run.request)


def _from_files(table: JsonObject, folder: Path) -> JsonObject:
    """The fields that the task gives by naming files."""
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
