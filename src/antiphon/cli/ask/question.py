"""Builds the parameters of ``POST /v1/responses`` from arguments and files."""

import base64
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from antiphon.cli.failure import WrongUsage
from antiphon.cli.terminal import errors
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import check_schema

MAX_IMAGE_BYTES = 20 * 1024 * 1024
"""Model servers refuse larger images."""

_IMAGE_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def read_question(argument: str | None) -> str:
    """The question: the argument, or standard input if it is `-` or missing."""
    if argument not in (None, "-"):
        question = argument
    else:
        if sys.stdin.isatty():
            errors().print("Type the question. Ctrl-D on an empty line ends it.", style="dim")
        try:
            question = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise WrongUsage("The question on standard input is not UTF-8 text.") from None
    if not question.strip():
        raise WrongUsage("The question is empty. Give it as an argument or on standard input.")
    return question


def make_input(question: str, images: Sequence[str]) -> str | list[JsonObject]:
    """The `input` parameter."""
    if not images:
        return question
    parts: list[JsonObject] = [{"type": "input_text", "text": question}]
    parts += [{"type": "input_image", "image_url": _image_url(image)} for image in images]
    return [{"role": "user", "content": parts}]


def _image_url(image: str) -> str:
    """A URL unchanged; a file as a data URL."""
    if image.startswith(("http://", "https://", "data:")):
        return image
    data = _read(Path(image), "--image", MAX_IMAGE_BYTES)
    return f"data:{_image_type(data, image)};base64,{base64.b64encode(data).decode()}"


def _image_type(data: bytes, name: str) -> str:
    """The media type by the first bytes of the file, not by its name."""
    for signature, media_type in _IMAGE_TYPES:
        if data.startswith(signature):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise WrongUsage(f"--image: '{name}' is not a PNG, JPEG, GIF or WebP image.")


def _read(path: Path, option: str, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise WrongUsage(f"{option}: cannot read '{path}': {error.strerror}.") from None
    if len(data) > limit:
        raise WrongUsage(f"{option}: '{path}' is larger than {limit // 2**20} MB.")
    return data


def read_schema(path: Path) -> JsonObject:
    """Read and check the JSON Schema in a file."""
    data = _read(path, "--schema", 2**20)
    try:
        schema: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WrongUsage(f"--schema: '{path}' is not valid JSON: {error}.") from None
    if not isinstance(schema, dict):
        raise WrongUsage(f"--schema: '{path}' must contain a JSON object.")
    check_schema(cast("JsonObject", schema), str(path))
    return cast("JsonObject", schema)


def schema_format(schema: JsonObject, path: Path) -> JsonObject:
    """The `text` parameter for an answer that matches this schema."""
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", path.stem)[:64] or "answer"
    return {"format": {"type": "json_schema", "name": name, "schema": schema}}
