"""Texts that stand in for what an API requires and a conversation lacks."""

from collections.abc import Callable
from typing import NamedTuple

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrades

NO_OUTPUT = "No output was given for this call."
GO_ON = "Go on."


class MessageForm(NamedTuple):
    """How a dialect writes messages: the model's role, the member with the parts, and a part with a text."""

    model_role: str
    parts: str
    text_part: Callable[[str], JsonObject]

    def user(self, part: JsonObject) -> JsonObject:
        """A message of the user with this part."""
        return {"role": "user", self.parts: [part]}


def begin_and_end_with_user(
    messages: list[JsonObject], system: list[JsonObject], form: MessageForm, downgrades: Downgrades
) -> None:
    """Make the user begin and end the conversation. Without any message, the last part of `system` becomes
    one; raises `InvalidRequest` if there is none."""
    if not messages:
        if not system:
            message = "There is nothing to answer: 'input' holds no text, image or file."
            raise InvalidRequest(message, param="input", code="invalid_value")
        downgrades.add(
            "input_rewritten", "the last instruction is sent as a user message: this API wants one", "input"
        )
        messages.append(form.user(system.pop()))
    if messages[0]["role"] == form.model_role:
        downgrades.add(
            "input_rewritten", "a user message is put before the model's own: this API wants one", "input"
        )
        messages.insert(0, form.user(form.text_part(GO_ON)))
    if messages[-1]["role"] == form.model_role:
        downgrades.add(
            "input_rewritten", "a user message is added after the model's own last message", "input"
        )
        messages.append(form.user(form.text_part(GO_ON)))
