"""Parsing of Messages API requests into engine requests, and rejections."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import (
    InputFile,
    InputImage,
    InputText,
    OutputText,
    ReasoningText,
    SummaryText,
)
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.protocol.requests import ReasoningOptions, TextFormat, TextOptions, Thinking
from antiphon.protocol.tools import FunctionTool, HostedTool, ToolRef
from antiphon.server.compat.api import CompatRequest, Place
from antiphon.server.compat.messages.request import read_count, read_messages
from antiphon.turn.provider_state import ProviderState
from antiphon.turn.sealing import SealKey

SEALER = SealKey(b"secret", bytes).sealer("acme")
OURS = SEALER.seal("I think.") or ""
MARKED = SEALER.seal("", (ProviderState("x", {}),)) or ""
USER = {"role": "user", "content": "hi"}
WEATHER = {"name": "weather", "input_schema": {"type": "object"}}
PNG = {"type": "base64", "media_type": "image/png", "data": "AA"}


def parse(*messages: Any, **params: Any) -> CompatRequest:
    body = {"model": "m", "max_tokens": 9, "messages": list(messages) or [USER], **params}
    return read_messages(msgspec.json.encode(body), SEALER)[0]


def items(*content: Any, role: str = "user") -> list[Item]:
    return list(parse({"role": role, "content": list(content)}).request.items)


def refusal(*messages: Any, **params: Any) -> str | None:
    with pytest.raises(InvalidRequest) as caught:
        parse(*messages, **params)
    assert caught.value.message
    return caught.value.param


USERS: list[tuple[list[Any], list[Any]]] = [
    ([{"type": "text", "text": "a"}], [InputText(text="a")]),
    (
        [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        [InputText(text="a", prompt_cache_breakpoint={"mode": "explicit", "ttl": "1h"})],
    ),
    ([{"type": "image", "source": PNG}], [InputImage(image_url="data:image/png;base64,AA")]),
    (
        [{"type": "image", "source": {"type": "url", "url": "https://a"}, "cache_control": {"type": "ephemeral"}}],
        [InputImage(image_url="https://a", prompt_cache_breakpoint={"mode": "explicit"})],
    ),
    (
        [{"type": "document", "title": "T", "context": "C", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}}],
        [InputText(text="C"), InputFile(file_data="data:application/pdf;base64,AA", filename="T")],
    ),
    (
        [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}],
        [InputText(text="words")],
    ),
    (
        [{"type": "document", "source": {"type": "url", "url": "https://a"}}],
        [InputFile(file_url="https://a")],
    ),
    (
        [{"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "words"}]}}],
        [InputText(text="words")],
    ),
    ([{"type": "document", "source": {"type": "content", "content": "words"}}], [InputText(text="words")]),
    (
        [{"type": "search_result", "source": "https://a", "title": "T", "content": [{"type": "text", "text": "w"}]}],
        [InputText(text="T (https://a)"), InputText(text="w")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("blocks", "parts"), USERS)
def test_user_content(blocks: list[Any], parts: list[Any]) -> None:
    assert items(*blocks) == [Message(role="user", content=parts)]


def test_tool_results_keep_their_position() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}
    image = {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "image", "source": PNG}]}
    text = {"type": "text", "text": "and now?"}
    parsed = parse({"role": "user", "content": [result, image, text]})
    assert list(parsed.request.items) == [
        FunctionCallOutput(call_id="t1", output="sunny"),
        FunctionCallOutput(call_id="t2", output=[InputImage(image_url="data:image/png;base64,AA")]),
        Message(role="user", content=[InputText(text="and now?")]),
    ]
    assert parsed.places == (
        Place("messages[0].content[0]", (0,)),
        Place("messages[0].content[1]", (0,)),
        Place("messages[0]", (2,)),
    )


BMP = {"type": "image", "source": {**PNG, "media_type": "image/bmp"}}
TITLED = {
    "type": "document",
    "title": "T",
    "source": {"type": "text", "media_type": "text/plain", "data": "w"},
}
REFERENCE = {"type": "tool_reference", "tool_name": "x"}


@pytest.mark.parametrize(
    ("content", "blamed", "named"),
    [
        ([TITLED, BMP], "input[0].content[2].image_url", "messages[0].content[1].source"),
        (
            [{"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": [{"type": "text", "text": "a"}, BMP]}],
            "input[0].output[2].image_url",
            "messages[0].content[0].content[1].source",
        ),
        (
            [{"type": "tool_result", "tool_use_id": "t", "content": [REFERENCE, BMP]}],
            "input[0].output[0].image_url",
            "messages[0].content[0].content[1].source",
        ),
    ],
)  # fmt: skip
def test_an_invalid_block_is_reported(content: list[Any], blamed: str, named: str) -> None:
    error = InvalidRequest("No.", param=blamed)
    parse({"role": "user", "content": content}).blame(error)
    assert error.param == named


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ({}, ""),
        ({"content": []}, ""),
        ({"content": "no", "is_error": True}, [InputText(text="The tool reported an error:"), InputText(text="no")]),
        (
            {"content": "a", "cache_control": {"type": "ephemeral"}},
            [InputText(text="a", prompt_cache_breakpoint={"mode": "explicit"})],
        ),
        ({"content": [{"type": "tool_reference", "tool_name": "x"}]}, ""),
    ],
)  # fmt: skip
def test_results(result: dict[str, Any], output: Any) -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", **result}
    assert items(block) == [FunctionCallOutput(call_id="t1", output=output)]


TEXT_WITH_BREAKPOINT = OutputText(text="a", prompt_cache_breakpoint={"mode": "explicit"})
ASSISTANTS: list[tuple[dict[str, Any], list[Item]]] = [
    ({"type": "text", "text": "a"}, [Message(role="assistant", content="a")]),
    (
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        [Message(role="assistant", content=[TEXT_WITH_BREAKPOINT])],
    ),
    (
        {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}},
        [FunctionCall(call_id="t1", name="weather", arguments='{"city":"Rome"}')],
    ),
    (
        {"type": "thinking", "thinking": "I think.", "signature": OURS},
        [Reasoning(summary=[], encrypted_content=OURS)],
    ),
    (
        {"type": "thinking", "thinking": "In short.", "signature": MARKED},
        [Reasoning(summary=[SummaryText("In short.")], encrypted_content=MARKED)],
    ),
    (
        {"type": "thinking", "thinking": "I think.", "signature": "theirs"},
        [Reasoning(summary=[], content=[ReasoningText("I think.")])],
    ),
    ({"type": "redacted_thinking", "data": MARKED}, [Reasoning(summary=[], encrypted_content=MARKED)]),
    ({"type": "redacted_thinking", "data": "theirs"}, []),
    ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, []),
    ({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, []),
]


@pytest.mark.parametrize(("block", "expected"), ASSISTANTS)
def test_assistant_content(block: dict[str, Any], expected: list[Item]) -> None:
    parsed = parse({"role": "assistant", "content": [block]}, USER)
    assert list(parsed.request.items) == [*expected, Message(role="user", content="hi")]
    assert bool(parsed.downgrades) == (not expected or block.get("signature") == "theirs")


def test_cache_markers_on_calls_are_reported() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "cache_control": {"type": "ephemeral"}}
    parsed = parse({"role": "assistant", "content": [call]}, USER)
    assert rendered(parsed.downgrades) == ["cache markers on calls are not passed on"]


def test_system_prompts() -> None:
    first = parse(system="Be brief.").request.items[0]
    assert first == Message(role="system", content="Be brief.")
    blocks = [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "b"},
    ]
    marked = InputText(text="a", prompt_cache_breakpoint={"mode": "explicit"})
    assert parse(system=blocks).request.items[0] == Message(
        role="system", content=[marked, InputText(text="b")]
    )
    late = parse(USER, {"role": "system", "content": "Be brief."})
    assert late.request.items[1] == Message(role="system", content="Be brief.")


def test_an_unfinished_answer_is_noted() -> None:
    parsed = parse(USER, {"role": "assistant", "content": "It is"})
    assert rendered(parsed.downgrades) == ["the last message is the model's own: most models begin a new one"]


def test_parameters() -> None:
    parsed = parse(
        temperature=0.5, top_p=0.9, stream=True, metadata={"user_id": "u"}, service_tier="standard_only",
        tools=[WEATHER], tool_choice={"type": "any", "disable_parallel_tool_use": True},
        output_config={"effort": "max", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    )  # fmt: skip
    params = parsed.request.params
    assert (params.max_output_tokens, params.temperature, params.top_p) == (9, 0.5, 0.9)
    assert (params.user, params.service_tier, params.store, params.stream) == ("u", "default", False, True)
    assert params.parallel_tool_calls is False
    assert params.reasoning == ReasoningOptions(effort="max")
    form = TextFormat(type="json_schema", name="output", schema={"type": "object"})
    assert params.text == TextOptions(form)
    assert parsed.request.tool_choice == "required"
    assert parsed.downgrades == ()
    old = parse(output_format={"type": "json_schema", "schema": {"type": "object"}}, speed="fast")
    assert old.request.params.text == TextOptions(form)
    assert old.request.params.service_tier == "fast"


@pytest.mark.parametrize(
    ("params_sent", "reasoning"),
    [
        ({"type": "disabled"}, ReasoningOptions(effort="none")),
        ({"type": "enabled", "budget_tokens": 1024}, ReasoningOptions(effort="low", summary="auto")),
        ({"type": "enabled", "budget_tokens": 4096}, ReasoningOptions(effort="medium", summary="auto")),
        ({"type": "enabled", "budget_tokens": 31999}, ReasoningOptions(effort="high", summary="auto")),
        ({"type": "adaptive"}, ReasoningOptions(summary="auto")),
        ({"type": "adaptive", "display": "omitted"}, ReasoningOptions()),
    ],
)
def test_thinking(params_sent: dict[str, Any], reasoning: ReasoningOptions) -> None:
    assert parse(thinking=params_sent).request.params.reasoning == reasoning
    effort = parse(thinking=params_sent, output_config={"effort": "xhigh"}).request.params.reasoning
    assert effort is not None
    assert effort.effort == ("none" if params_sent["type"] == "disabled" else "xhigh")


@pytest.mark.parametrize(
    ("params_sent", "thinking"),
    [
        ({"type": "disabled"}, None),
        ({"type": "between_tools"}, None),
        ({"type": "enabled", "budget_tokens": 5000}, Thinking(5000)),
        ({"type": "adaptive"}, Thinking()),
        ({"type": "adaptive", "display": "omitted"}, Thinking()),
    ],
)
def test_enabled_thinking_is_passed_on(params_sent: dict[str, Any], thinking: Thinking | None) -> None:
    assert parse(thinking=params_sent).request.thinking == thinking
    assert parse().request.thinking is None


@pytest.mark.parametrize(
    ("params_sent", "choice"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "weather"}, ToolRef("function", "weather")),
    ],
)
def test_choices(params_sent: dict[str, Any], choice: Any) -> None:
    assert parse(tools=[WEATHER], tool_choice=params_sent).request.tool_choice == choice


def test_tools_of_the_client() -> None:
    described = {**WEATHER, "description": "d", "strict": True, "type": "custom"}
    [tool] = parse(tools=[described]).request.tools
    assert tool == FunctionTool(name="weather", description="d", parameters={"type": "object"}, strict=True)


@pytest.mark.parametrize(
    ("declared", "name", "members"),
    [
        ({"type": "bash_20250124", "name": "bash"}, "bash", {"command", "restart"}),
        ({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}, "str_replace_based_edit_tool", {"command", "path", "old_str", "new_str", "file_text", "insert_line", "insert_text", "view_range"}),
        ({"type": "memory_20250818", "name": "memory"}, "memory", {"command", "path", "old_path", "new_path", "old_str", "new_str", "file_text", "insert_line", "insert_text", "view_range"}),
        ({"type": "computer_20251124", "name": "computer", "display_width_px": 800, "display_height_px": 600}, "computer", {"action", "coordinate", "start_coordinate", "text", "scroll_direction", "scroll_amount", "duration", "region"}),
    ],
)  # fmt: skip
def test_tools_that_anthropic_defined(declared: dict[str, Any], name: str, members: set[str]) -> None:
    [tool] = parse(tools=[declared]).request.tools
    assert isinstance(tool, FunctionTool)
    assert tool.parameters is not None
    assert (tool.name, set(tool.parameters["properties"])) == (name, members)
    assert "800 x 600" in (tool.description or "") or name != "computer"


def test_only_the_older_editor_takes_back() -> None:
    def members(declared: dict[str, Any]) -> dict[str, Any]:
        [tool] = parse(tools=[declared]).request.tools
        assert isinstance(tool, FunctionTool)
        assert tool.parameters is not None
        return tool.parameters["properties"]

    older = members({"type": "text_editor_20250124", "name": "str_replace_editor"})
    newer = members({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"})
    assert set(older["command"]["enum"]) - set(newer["command"]["enum"]) == {"undo_edit"}
    assert newer.keys() - older.keys() == {"insert_text"}


def test_tools_of_servers() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3, "allowed_domains": ["a.b"]}
    fetch = {"type": "web_fetch_20250910", "name": "web_fetch"}
    code = {"type": "code_execution_20250825", "name": "code_execution"}
    tools = parse(tools=[search, fetch, code]).request.tools
    assert tools[0] == HostedTool(
        "web_search", {"type": "web_search", "filters": {"allowed_domains": ["a.b"]}}
    )
    assert [tool.type for tool in tools if isinstance(tool, HostedTool)] == [
        "web_search", "web_fetch_20250910", "code_interpreter",
    ]  # fmt: skip


NOTED: list[tuple[Any, str]] = [
        ({"top_k": 5}, "not used here: top_k"),
        ({"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}, "not used here: context_management"),
        ({"cache_control": {"type": "ephemeral"}}, "not used here: cache_control"),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}, "'output_config.effort' is not used: thinking is disabled"),
        ({"speed": "fast", "service_tier": "standard_only"}, "'service_tier' is not used: 'speed' contradicts it"),
        ({"inference_geo": "eu"}, "not used here: inference_geo"),
        ({"tools": [{**WEATHER, "cache_control": {"type": "ephemeral"}}]}, "cache markers on tools are not passed on"),
        ({"tools": [{**WEATHER, "defer_loading": True}]}, "'defer_loading' is ignored: the model is shown every tool"),
        ({"tools": [{**WEATHER, "input_examples": [{}]}]}, "'input_examples' of tools are not shown to the model"),
    ]  # fmt: skip


@pytest.mark.parametrize("cited", [True, False])
def test_citations_that_are_wanted_are_noted(cited: bool) -> None:
    wanted: dict[str, Any] = {"citations": {"enabled": cited}}
    found: dict[str, Any] = {"type": "search_result", "source": "s", "title": "T", "content": [], **wanted}
    note = ["citations of documents and search results are not made here"]
    for block in (found, {**TITLED, **wanted}):
        assert rendered(parse({"role": "user", "content": [block]}).downgrades) == note * cited


@pytest.mark.parametrize(("params_sent", "note"), NOTED)
def test_omitted_params_are_reported(params_sent: dict[str, Any], note: str) -> None:
    assert rendered(parse(**params_sent).downgrades) == [note]


REFUSED: list[tuple[Any, str]] = [
    ({"max_tokens": None}, "max_tokens"),
    ({"temperature": 1.5}, "temperature"),
    ({"mcp_servers": [{"type": "url"}]}, "mcp_servers[0].url"),
    ({"container": {"skills": [{}]}}, "container.skills"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"tool_choice": {"type": "required"}}, "tool_choice.type"),
    ({"tools": [{"name": "a"}]}, "tools[0].input_schema"),
    ({"tools": [{"name": "a", "input_schema": {"type": 1}}]}, "tools[0].input_schema"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
    ({"tools": [WEATHER] * 513}, "tools"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].type"),
    ({"tools": [{"name": "a", "parameters": {}}]}, "tools[0]"),
    ({"output_format": {"type": "json_schema", "schema": {"type": 1}}}, "output_config.format.schema"),
    ({"system": [{"type": "image", "source": PNG}]}, "system"),
    ({"input": "hi"}, "input"),
    ({"instructions": "hi"}, "instructions"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"max_completion_tokens": 5}, "max_completion_tokens"),
    ({"stop": ["a"]}, "stop"),
    ({"text": {"format": {"type": "text"}}}, "text"),
    ({"reasoning": {"effort": "low"}}, "reasoning"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"modalities": ["text"]}, "modalities"),
    ({"tools": [{"type": "text_editor_20250728", "name": {"a": "b c"}}]}, "tools[0].name"),
    ({"tools": [{"type": "text_editor_20250728", "name": "b c"}]}, "tools[0].name"),
    ({"stop_sequences": ["a"] * 65}, "stop_sequences"),
    ({"stop_sequences": ["a" * 513]}, "stop_sequences"),
]


@pytest.mark.parametrize(("params_sent", "param"), REFUSED)
def test_rejected_parameters(params_sent: dict[str, Any], param: str) -> None:
    assert refusal(**params_sent) == param


REFUSED_MESSAGES: list[tuple[Any, str]] = [
        ({"role": "tool", "content": "a"}, "messages[0].role"),
        ({"role": "critic", "content": "a"}, "messages[0].role"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "user", "content": [1]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "input_text", "text": "a"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "b"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "image", "source": {"type": "odd"}}]}, "messages[0].content[0].source.type"),
        ({"role": "user", "content": [{"type": "document", "source": {"type": "odd"}}]}, "messages[0].content[0].source.type"),
        ({"role": "assistant", "content": [{"type": "image", "source": PNG}]}, "messages[0].content[0].type"),
        ({"role": "assistant", "content": [{"type": "tool_use", "name": "b"}]}, "messages[0].content[0].id"),
        ({"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "x"}}]}, "messages[0].content[0].cache_control.type"),
    ]  # fmt: skip


@pytest.mark.parametrize(("message", "param"), REFUSED_MESSAGES)
def test_rejected_messages(message: Any, param: str) -> None:
    assert refusal(message) == param


def test_a_request_for_another_endpoint_is_reported() -> None:
    with pytest.raises(InvalidRequest, match="'input' is a parameter of POST /v1/responses"):
        parse(input="hi")
    with pytest.raises(InvalidRequest, match="'stop' is a parameter of POST /v1/chat/completions"):
        parse(stop="hi")
    with pytest.raises(InvalidRequest, match="a role of POST /v1/chat/completions"):
        parse({"role": "tool", "content": "a"})


@pytest.mark.requirement("PROTOCOL/compat-count-tokens")
def test_a_count_needs_no_limit() -> None:
    body = {"model": "m", "messages": [USER], "system": "Be brief.", "tools": [WEATHER]}
    parsed = read_count(msgspec.json.encode(body), SEALER)
    assert len(parsed.request.items) == 2
    assert len(parsed.request.tools) == 1
    with pytest.raises(InvalidRequest):
        read_count(b"", SEALER)
