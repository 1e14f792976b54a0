"""The result of `tools/call` as an outcome: text for the model, images, structured content, or an error."""

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from antiphon.known_secrets import HIDDEN, KNOWN_SECRETS
from antiphon.mcp.messages import decode
from antiphon.mcp.port import CallOutcome, ExecutionErrorItem
from antiphon.protocol.content import InputImage, InputText, JsonObject

MAX_PARTS = 1000
"""Parts of a result; further ones are left out."""
_IMAGE_TYPE = re.compile(r"image/[\w.+-]{1,64}")


class _Result(Struct, rename="camel"):
    content: list[JsonObject] = []
    structured_content: Any = None
    is_error: bool = False
    result_type: str = "complete"
    input_requests: dict[str, JsonObject] = {}
    request_state: str | None = None


class InputRequired(Struct, frozen=True):
    """The server asks for input before it goes on."""

    requests: dict[str, JsonObject]
    state: str | None

    def answers(self) -> JsonObject | None:
        """The parameters with which the call is repeated, with every question declined; None if something is
        asked for that cannot be declined."""
        if any(request.get("method") != "elicitation/create" for request in self.requests.values()):
            return None
        params: JsonObject = {"requestState": self.state} if self.state is not None else {}
        if self.requests:
            params["inputResponses"] = {key: {"action": "decline"} for key in self.requests}
        return params


_result = msgspec.json.Decoder(_Result)
Scrub = Callable[[str], str]


def read_result(result: Raw, label: str, scrub: Scrub) -> CallOutcome | InputRequired:
    """The outcome, without secrets. Raises `McpProtocolError` if this is no result."""
    found = decode(result, _result, label)
    if found.result_type == "input_required":
        return InputRequired(found.input_requests, found.request_state)
    parts = [_part(block, scrub) for block in found.content[:MAX_PARTS]]
    texts = [part.text if isinstance(part, InputText) else "[image]" for part in parts]
    if len(found.content) > MAX_PARTS:
        texts.append(f"[{len(found.content) - MAX_PARTS} more parts are left out]")
    if not texts and found.structured_content is not None:
        texts = [scrub(msgspec.json.encode(found.structured_content).decode())]
    output = "\n".join(texts)
    error = None
    if found.is_error:
        output = output or "The tool failed without a message."
        error = ExecutionErrorItem([{"type": "text", "text": output}])
    structured = found.structured_content
    if structured is not None:
        structured = _without_secrets(structured, scrub)
    has_images = any(isinstance(part, InputImage) for part in parts)
    return CallOutcome(output, tuple(parts) if has_images else (), structured, error)


def declined_input(name: str) -> CallOutcome:
    """The outcome of a call that cannot go on without input."""
    text = f"The tool '{name}' asked for input, which nobody can give here. It was declined."
    return CallOutcome(text, error=ExecutionErrorItem([{"type": "text", "text": text}]))


def scrubber(secrets: Iterable[str]) -> Scrub:
    """A function that removes the credentials of the server and the secrets of this process from a text."""
    own = tuple(secrets)

    def scrub(text: str) -> str:
        for secret in own:
            text = text.replace(secret, HIDDEN)
        return KNOWN_SECRETS.scrub(text)

    return scrub


def _without_secrets(value: Any, scrub: Scrub) -> Any:
    text = msgspec.json.encode(value).decode()
    clean = scrub(text)
    return value if clean == text else msgspec.json.decode(clean)


def _part(block: JsonObject, scrub: Scrub) -> InputText | InputImage:
    match block:
        case {"type": "text", "text": str(text)}:
            return InputText(text=scrub(text))
        case {"type": "image", "data": str(data), "mimeType": str(media)}:
            return _image(data, media)
        case {"type": "resource", "resource": {**resource}}:
            return _resource(cast("JsonObject", resource), scrub)
        case {"type": "resource_link", "uri": str(uri)}:
            name = str(block.get("title") or block.get("name") or "")
            return InputText(text=scrub(f"[resource {name} {uri}]"))
        case {"type": str(kind)}:
            return InputText(text=f"[{kind[:40]}, which cannot be shown]")
        case _:
            return InputText(text="[content that cannot be shown]")


def _resource(resource: JsonObject, scrub: Scrub) -> InputText | InputImage:
    match resource:
        case {"text": str(text)}:
            return InputText(text=scrub(text))
        case {"blob": str(data), "mimeType": str(media)} if media.startswith("image/"):
            return _image(data, media)
        case _:
            return InputText(text=scrub(f"[resource {str(resource.get('uri', ''))[:1000]}]"))


def _image(data: str, media: str) -> InputText | InputImage:
    """An image that a model's server can decode, else a remark: it would be in every later turn."""
    if not _IMAGE_TYPE.fullmatch(media):
        return InputText(text="[an image of an unknown type]")
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return InputText(text="[an image that cannot be decoded]")
    return InputImage(image_url=f"data:{media};base64,{data}")
