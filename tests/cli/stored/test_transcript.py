"""Items as text for a person."""

import io

import pytest
from rich.console import Console

from antiphon.cli.stored.views import print_transcript, transcribe
from antiphon.protocol.content import (
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    OutputText,
    ReasoningText,
    Refusal,
    SummaryText,
)
from antiphon.protocol.items import (
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    Message,
    OpaqueItem,
    Reasoning,
)


@pytest.mark.parametrize(
    ("item", "heading", "expected_text"),
    [
        (Message(role="user", content="Hi"), "user", "Hi"),
        (
            Message(
                role="user",
                content=[
                    InputText(text="Look:"),
                    InputImage(image_url="https://x/y.png"),
                    InputFile(filename="a.pdf"),
                    InputAudio(input_audio={}),
                ],
            ),
            "user",
            "Look:\n[image: https://x/y.png]\n[file: a.pdf]\n[sound]",
        ),
        (
            Message(role="assistant", content=[OutputText(text="Yes"), Refusal(refusal="No")]),
            "assistant",
            "Yes\nNo",
        ),
        (FunctionCall(call_id="c", name="f", arguments='{"x":1}'), "call f", '{"x":1}'),
        (CustomToolCall(call_id="c", name="sh", input="ls"), "call sh", "ls"),
        (FunctionCallOutput(call_id="c", output="42"), "output", "42"),
        (CustomToolCallOutput(call_id="c", output=[InputText(text="a.txt")]), "output", "a.txt"),
        (Reasoning(summary=[SummaryText("short")], content=[ReasoningText("long")]), "reasoning", "long"),
        (Reasoning(summary=[SummaryText("short")]), "reasoning", "short"),
        (Reasoning(summary=[], encrypted_content="xyz"), "reasoning", "(sealed)"),
        (Compaction(encrypted_content="xyz"), "compaction", "(sealed)"),
        (CompactionTrigger(), "compaction trigger", ""),
        (ItemReference(id="msg_1"), "reference", "msg_1"),
        (OpaqueItem("mcp_call", {"type": "mcp_call"}), "mcp_call", '{"type":"mcp_call"}'),
    ],
)
def test_an_item_has_a_heading_and_a_text(item: Item, heading: str, expected_text: str) -> None:
    assert transcribe(item) == (heading, expected_text)


def test_an_image_is_mentioned_and_not_printed() -> None:
    image = InputImage(image_url="data:image/png;base64," + "A" * 1_000_000)
    _, text = transcribe(Message(role="user", content=[image]))
    assert len(text) < 100


def test_output_of_a_model_cannot_control_the_terminal() -> None:
    out = io.StringIO()
    print_transcript([Message(role="user", content="\x1b[2J[bold]x")], Console(file=out))
    assert out.getvalue() == "user\n[2J[bold]x\n\n"
