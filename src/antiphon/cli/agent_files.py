"""Files that go with a request to the agent: those it may work on, tools, results, pictures."""

import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import msgspec

from antiphon.cli.failure import WrongUsage
from antiphon.cli.question import make_input
from antiphon.errors import InvalidRequest
from antiphon.orchestrator.request_parser import check_results, check_tools
from antiphon.protocol.content import JsonObject
from antiphon.retrieval.chunking import language_of

MAX_FILE_BYTES = 4 * 1024 * 1024
"""No model reads more at once, so reading it would be in vain."""


def read_text(path: Path, what: str) -> str:
    """A file of UTF-8 text."""
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
    """A file of JSON."""
    try:
        return msgspec.json.decode(read_text(path, what))
    except (msgspec.DecodeError, RecursionError) as error:
        raise WrongUsage(f"{what}: '{path}' is not valid JSON: {error}.") from None


def read_tools(paths: Sequence[Path], what: str) -> list[object]:
    """The tools in these files, each of which holds one tool or a list of them."""
    tools: list[object] = []
    for path in paths:
        found = read_json(path, what)
        some = cast("list[object]", found) if isinstance(found, list) else [found]
        with _found_in(f"{what}: '{path}'"):
            check_tools(some, "tools")
        tools += some
    with _found_in(what):
        check_tools(tools, "tools")  # a name may come twice in two files
    return tools


def read_results(path: Path, what: str) -> list[object]:
    """The results in this file, which holds a list of them."""
    found = read_json(path, what)
    if not isinstance(found, list):
        raise WrongUsage(f"{what}: '{path}' must hold a JSON array of results.")
    results = cast("list[object]", found)
    with _found_in(f"{what}: '{path}'"):
        check_results(results, "results")
    return results


@contextmanager
def _found_in(where: str) -> Generator[None, None, None]:
    """What is wrong is told with the place where it can be mended."""
    try:
        yield
    except InvalidRequest as error:
        raise WrongUsage(f"{where}: {error.message}") from None


def read_active_files(paths: Sequence[Path], root: Path, what: str) -> list[JsonObject]:
    """Files that the agent sees, and may propose to change. They lie below `root`."""
    return [_active_file(path, root.resolve(), what) for path in paths]


def _active_file(path: Path, root: Path, what: str) -> JsonObject:
    whole = path.resolve()
    if not whole.is_relative_to(root):
        raise WrongUsage(f"{what}: '{path}' is not below {root}. Call this from a folder above it.")
    contents = read_text(path, what)
    return {
        "absolute_path": str(whole),
        "relative_path": whole.relative_to(root).as_posix(),
        "file_name": whole.name,
        "sha256_hash": hashlib.sha256(contents.encode()).hexdigest(),
        "contents": contents,
        "language": language_of(whole.name),
    }


def read_images(names: Sequence[str]) -> list[JsonObject]:
    """Pictures that belong to the instruction, as attachments."""
    attachments: list[JsonObject] = []
    for name in names:
        [message] = cast("list[JsonObject]", make_input("", [name]))
        media_type, marked, data = str(message["content"][1]["image_url"]).partition(";base64,")
        if not marked:
            raise WrongUsage(f"--image: '{name}' is not a file. The agent takes pictures from files only.")
        attachments.append({"id": name, "mime_type": media_type.removeprefix("data:"), "data_base64": data})
    return attachments
