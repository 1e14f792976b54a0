"""Images that a hosted tool has made, as calls of a function. The output says that there is an image, and
does not contain it: most chat APIs accept no image as the output of a tool."""

import msgspec

from antiphon.protocol.items import FunctionCall, FunctionCallOutput
from antiphon.protocol.stored_items import item_id
from antiphon.protocol.tool_items import ImageGenerationCall

_MADE = "The image was made, and the user sees it. You cannot see it."
_UNFINISHED = "The image was not finished."
_CUT_OFF = "The call was cut off, and its outcome is unknown: an image may have been made and paid for."


def show_image(item: ImageGenerationCall, name: str, index: int) -> tuple[FunctionCall, FunctionCallOutput]:
    """An image as a call and its output; `index` is that of the item."""
    call_id = item_id(item) or f"call_image_{index}"
    prompt = item.revised_prompt or ""
    call = FunctionCall(
        call_id=call_id, name=name, arguments=msgspec.json.encode({"prompt": prompt}).decode()
    )
    return call, FunctionCallOutput(call_id=call_id, output=_output(item))


def _output(item: ImageGenerationCall) -> str:
    if item.error:
        return f"The image could not be made: {item.error.get('message')}"
    if item.result:
        return _MADE
    return _CUT_OFF if item.status == "incomplete" else _UNFINISHED
