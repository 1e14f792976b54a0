"""The `maestro` profile's requests: input, content, tools and tool choice as the model receives them."""

import json
import logging
from typing import Any

import pytest

from antiphon.turn.chunks import CallDelta, CallStarted, Finished
from tests.profiles.gateway import LISTEN, LOOK, gateway

JsonObject = dict[str, Any]

PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.requirement("SEED-002/comparison-input", "SEED-002/flow-input")
@pytest.mark.parametrize(
    ("input_value", "seen"),
    [
        pytest.param("hi", ("user", "hi"), marks=pytest.mark.requirement("SEED-002/input-string")),
        pytest.param(
            [{"role": "user", "content": "hi"}],
            ("user", "hi"),
            marks=pytest.mark.requirement("SEED-002/input-user"),
        ),
        pytest.param(
            [{"role": "assistant", "content": "hi"}],
            ("assistant", "hi"),
            marks=pytest.mark.requirement("SEED-002/input-assistant"),
        ),
        pytest.param(
            [{"role": "system", "content": "hi"}],
            ("user", "hi"),
            marks=pytest.mark.requirement("SEED-002/input-system"),
        ),
        pytest.param(
            [{"type": "message", "role": "developer", "content": "hi"}],
            ("user", "hi"),
            marks=pytest.mark.requirement("SEED-002/input-developer"),
        ),
        pytest.param(
            [{"role": "developer", "content": [{"type": "input_text", "text": "hi"}]}],
            ("user", "hi"),
            marks=pytest.mark.requirement("SEED-002/input-developer"),
        ),
    ],
)
async def test_input_becomes_messages(input_value: Any, seen: tuple[str, str]) -> None:
    async with gateway("maestro") as model:
        await model.answer(input=input_value)
        assert [(message["role"], flat(message["content"])) for message in model.messages] == [seen]


def flat(content: Any) -> str:
    """The text of a chat message."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.mark.requirement("SEED-002/input-instructions", "SEED-002/comparison-instructions")
async def test_instructions_are_the_first_user_message() -> None:
    async with gateway("maestro") as model:
        system = {"role": "system", "content": "And kind."}
        await model.answer(instructions="Be brief.", input=[system, {"role": "user", "content": "hi"}])
        assert [(message["role"], flat(message["content"])) for message in model.messages] == [
            ("user", "Be brief."),
            ("user", "And kind."),
            ("user", "hi"),
        ]


@pytest.mark.requirement("SEED-002/input-instructions")
@pytest.mark.parametrize("input_value", [{}, {"input": ""}], ids=["no-input", "empty-input"])
async def test_instructions_without_input_are_a_request(input_value: JsonObject) -> None:
    async with gateway("maestro") as model:
        reply = await model.send({"model": "m", "instructions": "Say hello.", **input_value})
        assert reply.status_code == 200, reply.text
        first, *rest = model.messages
        assert (first["role"], flat(first["content"])) == ("user", "Say hello.")
        assert [flat(message["content"]) for message in rest] in ([], [""])


def part_seen(content: Any) -> JsonObject:
    """The only part of the message; a plain text is a part as well."""
    if isinstance(content, str):
        return {"type": "text", "text": content}
    (part,) = content
    return part


@pytest.mark.requirement("SEED-002/content-input-text")
async def test_a_text_part_is_text() -> None:
    async with gateway("maestro") as model:
        await model.answer(input=[{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}])
        assert part_seen(model.messages[0]["content"]) == {"type": "text", "text": "hi"}


@pytest.mark.requirement("SEED-002/content-output-text")
async def test_an_output_text_part_is_text() -> None:
    async with gateway("maestro") as model:
        output_part: JsonObject = {"type": "output_text", "text": "Hello", "annotations": []}
        await model.answer(
            input=[{"role": "assistant", "content": [output_part]}, {"role": "user", "content": "and?"}]
        )
        assert model.messages[0] == {"role": "assistant", "content": "Hello"}


@pytest.mark.requirement("SEED-002/content-image-data", "SEED-002/limits-image")
async def test_an_image_data_uri_is_sent_as_an_image() -> None:
    async with gateway("maestro") as model:
        content = [{"type": "input_image", "image_url": PIXEL}]
        await model.answer(input=[{"role": "user", "content": content}])
        part = part_seen(model.messages[0]["content"])
        assert (part["type"], part["image_url"]["url"]) == ("image_url", PIXEL)


@pytest.mark.parametrize("role", ["user", "system"])
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(
            {"type": "input_image", "image_url": "https://example.com/cat.png", "detail": "low"},
            marks=pytest.mark.requirement("SEED-002/content-image-url", "SEED-002/limits-image"),
        ),
        pytest.param(
            {"type": "input_image", "file_id": "file_1"},
            marks=pytest.mark.requirement("SEED-002/limits-image"),
        ),
        pytest.param(
            {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGk="},
            marks=pytest.mark.requirement("SEED-002/content-file", "SEED-002/limits-file"),
        ),
        pytest.param(
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            marks=pytest.mark.requirement("SEED-002/content-file", "SEED-002/limits-file"),
        ),
    ],
)
async def test_unsupported_parts_are_sent_as_json_text(part: JsonObject, role: str) -> None:
    async with gateway("maestro") as model:
        await model.answer(input=[{"role": role, "content": [part]}])
        (message,) = model.messages
        seen = part_seen(message["content"])
        assert (message["role"], seen["type"]) == ("user", "text")
        assert json.loads(seen["text"]) == part


TOOLS: dict[str, JsonObject] = {
    "file-search": {"type": "file_search", "vector_store_ids": ["vs_1"]},
    "web-search-preview": {"type": "web_search_preview"},
    "code-interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "computer-use-preview": {
        "type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "linux",
    },
    "image-gen": {"type": "image_generation"},
    "local-shell": {"type": "local_shell"},
    "mcp": {"type": "mcp", "server_label": "s", "server_url": "https://example.com"},
    "custom": {"type": "custom", "name": "patch"},
    "shell": {"type": "shell"},
    "apply-patch": {"type": "apply_patch"},
}  # fmt: skip


@pytest.mark.requirement(
    "SEED-002/tools-functions-only", "SEED-002/tools-warning", "SEED-002/flow-tools", "SEED-002/comparison-tool-types"
)  # fmt: skip
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(TOOLS["file-search"], marks=pytest.mark.requirement("SEED-002/tools-file-search")),
        pytest.param(
            TOOLS["web-search-preview"], marks=pytest.mark.requirement("SEED-002/tools-web-search-preview")
        ),
        pytest.param(
            TOOLS["code-interpreter"], marks=pytest.mark.requirement("SEED-002/tools-code-interpreter")
        ),
        pytest.param(
            TOOLS["computer-use-preview"],
            marks=pytest.mark.requirement("SEED-002/tools-computer-use-preview"),
        ),
        pytest.param(TOOLS["image-gen"], marks=pytest.mark.requirement("SEED-002/tools-image-gen")),
        pytest.param({"type": "image_gen"}, marks=pytest.mark.requirement("SEED-002/tools-image-gen")),
        pytest.param(TOOLS["local-shell"], marks=pytest.mark.requirement("SEED-002/tools-local-shell")),
        pytest.param(TOOLS["mcp"], marks=pytest.mark.requirement("SEED-002/tools-mcp")),
        pytest.param(TOOLS["custom"], marks=pytest.mark.requirement("SEED-002/tools-custom")),
        pytest.param(TOOLS["shell"], marks=pytest.mark.requirement("SEED-002/tools-shell")),
        pytest.param(TOOLS["apply-patch"], marks=pytest.mark.requirement("SEED-002/tools-apply-patch")),
        pytest.param({"type": "namespace", "name": "n", "description": "d", "tools": [LOOK]}),
        pytest.param({"type": "web_search"}),
    ],
    ids=lambda tool: tool["type"],
)
async def test_a_tool_that_is_no_function_is_omitted_with_a_warning(
    tool: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with gateway("maestro") as model:
        response = await model.answer(tools=[tool, LISTEN])
        assert [one["function"]["name"] for one in model.chat_body["tools"]] == ["listen"]
        warnings = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.WARNING]
        assert any(tool["type"] in warning for warning in warnings)
        assert any(tool["type"] in note for note in response["downgrades"])


async def test_all_tools_may_be_omitted() -> None:
    async with gateway("maestro") as model:
        response = await model.answer(tools=list(TOOLS.values()))
        assert "tools" not in model.chat_body
        assert len(response["downgrades"]) >= len(TOOLS)


async def test_functions_cause_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway("maestro") as model:
        response = await model.answer(tools=[LOOK, LISTEN])
        assert [entry for entry in caplog.records if entry.levelno >= logging.WARNING] == []
        assert "downgrades" not in response


@pytest.mark.requirement("SEED-002/choice-none")
async def test_with_tool_choice_none_the_model_has_no_tools() -> None:
    async with gateway("maestro") as model:
        await model.answer(tools=[LOOK, LISTEN], tool_choice="none")
        assert not {"tools", "tool_choice"} & set(model.chat_body)


@pytest.mark.parametrize(
    ("choice", "mode"),
    [
        pytest.param("auto", "auto", marks=pytest.mark.requirement("SEED-002/choice-auto")),
        pytest.param("required", "required", marks=pytest.mark.requirement("SEED-002/choice-required")),
        pytest.param(
            {"type": "function", "name": "look"},
            "required",
            marks=pytest.mark.requirement("SEED-002/choice-function"),
        ),
    ],
)
async def test_a_choice_becomes_a_mode_and_all_functions_are_shown(choice: Any, mode: str) -> None:
    script = (
        [] if mode == "auto" else [CallStarted(0, "c", "look"), CallDelta(0, "{}"), Finished("tool_calls")]
    )
    async with gateway("maestro", *script) as model:
        await model.answer(tools=[LOOK, LISTEN], tool_choice=choice)
        assert [one["function"]["name"] for one in model.chat_body["tools"]] == ["look", "listen"]
        assert model.turn.choice == mode
        assert model.chat_body.get("tool_choice", "auto") == mode


@pytest.mark.requirement("SEED-002/tools-null")
async def test_a_tool_that_is_null_is_skipped() -> None:
    async with gateway("maestro") as model:
        response = await model.answer(tools=[None, LOOK, None])
        assert [tool["function"]["name"] for tool in model.chat_body["tools"]] == ["look"]
        assert [tool["name"] for tool in response["tools"]] == ["look"]


@pytest.mark.requirement("SEED-002/input-unreadable-arguments")
@pytest.mark.parametrize(
    ("arguments", "seen"), [('{"at": ', "{}"), ("look there", "{}"), ("", "{}"), ('{"at":"x"}', '{"at":"x"}')]
)
async def test_arguments_that_are_not_json_are_shown_as_an_empty_object(arguments: str, seen: str) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": arguments}
    output = {"type": "function_call_output", "call_id": "c1", "output": "nothing"}
    async with gateway("maestro") as model:
        response = await model.answer(
            input=[{"role": "user", "content": "Look."}, call, output], tools=[LOOK]
        )
        (made,) = model.messages[1]["tool_calls"]
        assert made["function"]["arguments"] == seen
        assert ("downgrades" in response) == (arguments != seen)
