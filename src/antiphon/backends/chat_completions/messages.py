"""From items to chat messages.

Three rules of the dialect that items do not have: consecutive text and calls of the model are one assistant
message; the outputs of its calls follow it directly; images in an output go into a user message after them.
"""

from msgspec import UnsetType

from antiphon.backends.chat_completions.content import chat_content, chat_part, plain_text
from antiphon.backends.placeholders import NO_OUTPUT
from antiphon.backends.registry import Quirks
from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import InputText, JsonObject, OutputText
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.protocol.stored_items import item_type
from antiphon.turn.context import TurnRequest


class _Block:
    """A message; if it calls tools, with their outputs and the media of these outputs."""

    __slots__ = ("head", "media", "outputs")

    def __init__(self, head: JsonObject) -> None:
        self.head = head
        self.outputs: list[JsonObject] | None = None
        self.media: list[JsonObject] | None = None


def chat_messages(
    turn: TurnRequest, quirks: Quirks, downgrades: Downgrades, asks: list[str]
) -> list[JsonObject]:
    """The complete conversation. `asks` are emulations that are put to the model in the system message."""
    transcript = _Transcript(turn, quirks, downgrades)
    if turn.params.instructions:
        transcript.system("system", turn.params.instructions)
    for index, item in enumerate(turn.items):
        transcript.add(item, index)
    return transcript.messages(asks)


class _Transcript:
    """The conversation so far. It may have thousands of items, so paths are made only for errors."""

    def __init__(self, turn: TurnRequest, quirks: Quirks, downgrades: Downgrades) -> None:
        self._turn = turn
        self._quirks = quirks
        self._downgrades = downgrades
        self._blocks: list[_Block] = []
        self._callers: dict[str, _Block] = {}
        self._thoughts: list[str] = []

    def messages(self, asks: list[str]) -> list[JsonObject]:
        """The collected messages."""
        if asks:
            first = self._blocks[0].head if self._blocks else {"role": ""}
            if first["role"] not in ("system", "developer"):
                first = {"role": "system", "content": ""}
                self._blocks.insert(0, _Block(first))
            first["content"] = "\n\n".join(filter(None, [first["content"], *asks]))
        messages: list[JsonObject] = []
        for block in self._blocks:
            messages.append(block.head)
            if "tool_calls" in block.head:
                messages += block.outputs or ()
                messages += self._unanswered(block)
            if block.media:
                messages.append({"role": "user", "content": block.media})
        return messages

    def _unanswered(self, block: _Block) -> list[JsonObject]:
        """Outputs for calls without one: servers reject a conversation with such calls."""
        calls: list[JsonObject] = block.head["tool_calls"]
        if len(calls) == 1 and block.outputs:
            return []
        answered = {output["tool_call_id"] for output in block.outputs or ()}
        missing = [call["id"] for call in calls if call["id"] not in answered]
        if missing:
            self._downgrades.add(
                "input_rewritten", "calls without an output are sent with a placeholder", "input"
            )
        return [{"role": "tool", "tool_call_id": call_id, "content": NO_OUTPUT} for call_id in missing]

    def add(self, item: Item, index: int) -> None:
        """One more item; `index` is its place in the turn."""
        if type(item) is Message:
            self._message(item, index)
        elif type(item) is FunctionCall:
            self._call(item)
        elif type(item) is FunctionCallOutput:
            self._output(item, index)
        elif isinstance(item, Reasoning):
            self._thinks(item)
        else:
            # Everything else is a function by now, or left out, or refused (turn/function_forms/).
            message = f"This model cannot read an item of type '{item_type(item)}'."
            raise Unsupported(message, param=self._turn.param(index), code="unsupported_item")

    def _message(self, item: Message, index: int) -> None:
        if item.role == "assistant":
            self._assistant_says(self._text(item, index))
        elif item.role == "user":
            content = item.content
            if type(content) is not str:
                path = f"{self._turn.param(index)}.content"
                content = chat_content(content, self._quirks, path, self._downgrades)
            self._blocks.append(_Block({"role": "user", "content": content}))
            if self._thoughts:
                self._thoughts.clear()  # they led to nothing
        else:
            self.system(item.role, self._text(item, index))

    def _text(self, item: Message, index: int) -> str:
        """The content of a message that can only be text."""
        content = item.content
        if isinstance(content, str):
            return content
        if len(content) == 1 and isinstance(part := content[0], OutputText):
            return part.text
        return plain_text(content, f"{self._turn.param(index)}.content")

    def system(self, role: str, text: str) -> None:
        """Instructions: one message at the start if possible, for templates that take only that."""
        if role == "developer" and not self._quirks.developer_role:
            role = "system"
        last = self._blocks[-1].head if self._blocks else None
        leading = all(block.head["role"] in ("system", "developer") for block in self._blocks)
        if last is not None and leading and last["role"] == role:
            last["content"] += f"\n\n{text}"
        elif leading or self._quirks.late_system:
            self._blocks.append(_Block({"role": role, "content": text}))
        else:
            self._downgrades.add(
                "input_rewritten", "system messages after the beginning are sent as user messages", "input"
            )
            self._blocks.append(_Block({"role": "user", "content": text}))

    def _thinks(self, item: Reasoning) -> None:
        text = "" if isinstance(item.content, UnsetType) else "".join(part.text for part in item.content)
        if self._quirks.replay_reasoning is None:
            self._downgrades.add(
                "input_omitted",
                "reasoning in the input is left out: this model's server does not take it back",
                "input",
            )
        elif text:
            self._thoughts.append(text)

    def _assistant(self, *, join: bool) -> JsonObject:
        """The assistant message to extend, with the reasoning before the new part."""
        last = self._blocks[-1] if join and self._blocks else None
        if last is not None and last.head["role"] == "assistant" and not last.outputs:
            head = last.head  # no output came yet: the model may still be speaking
        else:
            head = {"role": "assistant", "content": None}
            self._blocks.append(_Block(head))
        if self._thoughts:
            if self._quirks.replay_reasoning:
                earlier = head.get(self._quirks.replay_reasoning)
                head[self._quirks.replay_reasoning] = "\n".join(filter(None, [earlier, *self._thoughts]))
            self._thoughts.clear()
        return head

    def _assistant_says(self, text: str) -> None:
        # Text after a call belongs to its message: only outputs may follow a message that calls.
        calling = bool(self._blocks) and "tool_calls" in self._blocks[-1].head
        head = self._assistant(join=calling)
        earlier = head["content"]
        head["content"] = f"{earlier}\n{text}" if earlier and text else earlier or text

    def _call(self, item: FunctionCall) -> None:
        head = self._assistant(join=True)
        function = {"name": item.name, "arguments": item.arguments or "{}"}
        call = {"id": item.call_id, "type": "function", "function": function}
        if "tool_calls" in head:
            head["tool_calls"].append(call)
        else:
            head["tool_calls"] = [call]
        self._callers[item.call_id] = self._blocks[-1]

    def _output(self, item: FunctionCallOutput, index: int) -> None:
        block = self._callers.get(item.call_id)
        if block is None:
            message = f"No tool call found for the output with call_id '{item.call_id}'."
            raise InvalidRequest(message, param=self._turn.param(index), code="invalid_value")
        text = item.output if isinstance(item.output, str) else self._split(item, block, index)
        output: JsonObject = {"role": "tool", "tool_call_id": item.call_id, "content": text}
        if block.outputs is None:
            block.outputs = [output]
        else:
            block.outputs.append(output)

    def _split(self, item: FunctionCallOutput, block: _Block, index: int) -> str:
        """The text of an output; its other parts are sent in a user message after the outputs."""
        path = self._turn.param(index)
        texts = [part.text for part in item.output if isinstance(part, InputText)]
        media = [
            chat_part(part, self._quirks, f"{path}.output[{number}]", self._downgrades)
            for number, part in enumerate(item.output)
            if not isinstance(part, str | InputText)
        ]
        if media:
            self._downgrades.add(
                "input_rewritten",
                "images and files in tool outputs are sent in a user message after them",
                "input",
            )
            label = {"type": "text", "text": f"Output of the tool call {item.call_id}:"}
            block.media = [*(block.media or ()), label, *media]
            texts = texts or ["See the next user message."]
        return "\n".join(texts)
