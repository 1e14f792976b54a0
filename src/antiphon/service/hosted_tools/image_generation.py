"""`image_generation`: the model describes an image, and an upstream makes it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.backends.images import Image, ImageMaker, ImageRequest, PartialImage
from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import ImageGenerationCallGenerating, ImageGenerationCallPartialImage
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import ImageGenerationCall
from antiphon.protocol.tools import HostedTool
from antiphon.service.hosted_tools.base import OpenedTool, ToolScope
from antiphon.turn.chunks import Chunk, HostedItemBegun, HostedItemDone, HostedItemStep
from antiphon.turn.function_forms.reading import read_object
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.tools import HostedForm

IMAGE_GENERATION = "image_generation"
MAX_PROMPT_CHARACTERS = 32_000
MAX_PARTIAL_IMAGES = 3
_UNSERVED = ("input_image_mask", "input_fidelity")
"""Parameters of edits, which this server does not make."""
_DESCRIPTION = (
    "Make an image from a description. The user is shown the image. Call it only if an image is asked for."
)
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "description": "A complete description of the image: subject, style, composition, colours, and "
            "every text that it contains.",
        }
    },
    "required": ["prompt"],
    "additionalProperties": False,
}

_Name = Annotated[str, Meta(max_length=64)]


class _Declared(Struct, frozen=True):
    model: str | None = None
    action: Literal["generate", "auto"] | None = None
    size: _Name | None = None
    quality: _Name | None = None
    background: _Name | None = None
    output_format: _Name | None = None
    output_compression: Annotated[int, Meta(ge=0, le=100)] | None = None
    moderation: _Name | None = None
    partial_images: Annotated[int, Meta(ge=0, le=MAX_PARTIAL_IMAGES)] | None = None


@dataclass(frozen=True, slots=True)
class ImageGeneration:
    """Serves `image_generation` with the image models of upstreams, by name; the first is the default."""

    models: Mapping[str, ImageMaker]
    types: frozenset[str] = frozenset({IMAGE_GENERATION})

    def owns(self, declared: HostedTool) -> bool:
        """The operator has chosen the image models: they make the images of every model."""
        return True

    async def open(self, declared: HostedTool, key: str, scope: ToolScope, path: str) -> OpenedTool:
        """Check the parameters."""
        edits = [name for name in _UNSERVED if declared.body.get(name) is not None]
        if declared.body.get("action") == "edit":
            edits.append("action")
        if edits:
            raise Unsupported(
                f"'{edits[0]}' is not supported: this server makes new images and does not edit given ones. "
                "Leave it out.",
                param=f"{path}.{edits[0]}",
                code="unsupported_parameter",
            )
        try:
            tool = msgspec.convert(declared.body, _Declared)
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"Invalid value: {error}", param=path) from None
        default = next(iter(self.models))
        client = self.models.get(tool.model or default)
        if client is None:
            known = ", ".join(self.models)
            raise InvalidRequest(
                f"There is no image model '{tool.model}' on this server. Use one of: {known}; or leave "
                "'model' out.",
                param=f"{path}.model",
                code="model_not_found",
            )
        if name := client.refused(_request(tool, "")):
            raise Unsupported(
                f"The image model '{tool.model or default}' does not take this '{name}'. Leave it out.",
                param=f"{path}.{name}",
                code="unsupported_parameter",
            )
        form = HostedForm(
            key=key,
            declared=declared,
            name=IMAGE_GENERATION,
            description=_DESCRIPTION,
            parameters=_PARAMETERS,
        )
        return OpenedTool([ImageFunction(form, client, tool, scope.streamed)])


@dataclass(frozen=True, slots=True)
class ImageFunction:
    """The images of one response."""

    form: HostedForm
    client: ImageMaker
    tool: _Declared
    streamed: bool
    """Whether the client can be sent unfinished forms."""
    repeatable: bool = False
    """A second image may cost as much as the first."""

    def approval_request(self, call: HostedCall) -> None:
        """An image needs no approval."""

    async def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Make the image: `generating` is emitted before, the image after."""
        index, prompt = call.index, read_prompt(call.arguments)
        yield [
            HostedItemBegun(index, ImageGenerationCall()),
            HostedItemStep(index, ImageGenerationCallGenerating),
        ]
        if not prompt:
            raise InvalidRequest("'prompt' must be a text.")
        partial_images = (self.tool.partial_images or 0) if self.streamed else 0
        made = self.client.make(_request(self.tool, prompt), partial_images)
        async with aclosing(made) as images:
            async for image in images:
                is_partial = isinstance(image, PartialImage)
                yield [self._step(index, image) if is_partial else self._done(index, prompt, image)]

    def _step(self, index: int, image: PartialImage) -> HostedItemStep:
        return HostedItemStep(index, ImageGenerationCallPartialImage, (image.index, image.data))

    def _done(self, index: int, prompt: str, image: Image) -> HostedItemDone:
        tool = self.tool
        item = ImageGenerationCall(
            status="completed",
            action="generate",
            result=image.data,
            revised_prompt=image.revised_prompt or prompt,
            size=image.size or _given(tool.size),
            quality=image.quality or _given(tool.quality),
            background=image.background or _given(tool.background),
            output_format=image.output_format or _given(tool.output_format),
        )
        return HostedItemDone(item, None, index)

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """An image that could not be made; the model is shown the reason."""
        error: JsonObject = {"code": "image_generation_failed", "message": reason}
        item = ImageGenerationCall(
            status="failed", result=None, revised_prompt=read_prompt(call.arguments) or UNSET, error=error
        )
        return HostedItemDone(item, None, call.index)

    def without_model(self, items: Sequence[Item]) -> str | None:
        """Only a model can describe an image."""
        return None


def _request(tool: _Declared, prompt: str) -> ImageRequest:
    return ImageRequest(
        prompt=prompt,
        size=_given(tool.size),
        quality=_given(tool.quality),
        background=_given(tool.background),
        output_format=_given(tool.output_format),
        output_compression=UNSET if tool.output_compression is None else tool.output_compression,
        moderation=_given(tool.moderation),
    )


def read_prompt(arguments: str) -> str:
    """The description of a call; a near miss of the schema is accepted."""
    body, _ = read_object(arguments)
    given = body.get("prompt", body.get("description"))
    return given.strip()[:MAX_PROMPT_CHARACTERS] if isinstance(given, str) else ""


def _given(value: str | None) -> str | UnsetType:
    return UNSET if value is None else value
