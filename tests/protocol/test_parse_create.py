"""Every invalid request is rejected with a parameter, a code and a message with the remedy."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.protocol.items import (
    KNOWN_ITEMS,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    ItemReference,
    Message,
    OpaqueItem,
    Reasoning,
)
from antiphon.protocol.parse_create import create_from, parse_create
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import new_response
from antiphon.protocol.stored_items import item_id, item_to_text
from antiphon.protocol.tools import AllowedTools, CustomTool, HostedTool, NamespaceTool, ToolRef

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}


def refused(**params: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        create_from(**{"model": "m", "input": "hi", **params})
    return caught.value


def create(**params: Any) -> CreateResponse:
    return create_from(**{"model": "m", "input": "hi", **params})


def echo(**params: Any) -> dict[str, Any]:
    response = new_response(create(**params), id="resp_1", created_at=1)
    return msgspec.json.decode(msgspec.json.encode(response))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"model":"m","input":"hi"',
        b"\xff\xfe",
        b'{"model":"\xc3\x28","input":"hi"}',
        b'{"model":"\\ud800","input":"hi"}',
        b'\xef\xbb\xbf{"model":"m","input":"hi"}',
        '{"model":"m","input":"hi"}'.encode("utf-16"),
        b'{"model":"m","input":"hi","temperature":NaN}',
        b'{"model":"m","input":' + b"[" * 100_000,
    ],
)
@pytest.mark.requirement("PROTOCOL/errors-json")
def test_a_body_that_is_no_json_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_create(body)
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize("body", [b"[]", b"1", b'"text"', b"null", b"[" * 100_000])
@pytest.mark.requirement("PROTOCOL/errors-json")
def test_a_body_that_is_no_object_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_create(body)
    assert caught.value.status == 400


@given(st.binary(max_size=200))
def test_no_bytes_can_break_the_parser(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_create(body)


@given(
    st.dictionaries(
        st.sampled_from(
            ["model", "input", "tools", "tool_choice", "text", "reasoning", "metadata", "include"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["type", "name", "role", "content", "format"]), inner, max_size=3
                )
            ),
            max_leaves=8,
        ),
    )
)
def test_any_json_is_either_a_request_or_rejected_with_a_message(params: dict[str, Any]) -> None:
    try:
        parse_create(msgspec.json.encode(params))
    except InvalidRequest as error:
        assert error.message
        assert error.code


BAD: list[tuple[dict[str, Any], str, str]] = [
        ({"model": None}, "model", "invalid_type"),
        ({"model": ""}, "model", "invalid_value"),
        ({"input": None}, "input", "missing_required_parameter"),
        ({"input": []}, "input", "missing_required_parameter"),
        ({"input": 5}, "input", "invalid_type"),
        ({"input": ["text"]}, "input[0]", "invalid_type"),
        ({"input": [{"content": "x"}]}, "input[0].type", "missing_required_parameter"),
        ({"input": [{"type": 5}]}, "input[0].type", "invalid_type"),
        ({"input": [{"type": "nonsense"}]}, "input[0].type", "invalid_value"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role", "invalid_value"),
        ({"input": [{"role": "user"}]}, "input[0].content", "missing_required_parameter"),
        ({"input": [{"role": "user", "content": ["x"]}]}, "input[0].content[0]", "invalid_type"),
        ({"input": [{"role": "user", "content": [{"type": "hologram"}]}]}, "input[0].content[0].type", "invalid_value"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text", "missing_required_parameter"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id", "missing_required_parameter"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output", "missing_required_parameter"),
        ({"input": [{"role": "user", "content": "x"}] * 10_001}, "input", "array_above_max_length"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"top_p": -1}, "top_p", "invalid_value"),
        ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
        ({"truncation": "some"}, "truncation", "invalid_value"),
        ({"input": [{"type": "compaction"}]}, "input[0].encrypted_content", "missing_required_parameter"),
        ({"input": [{"type": "compaction_trigger"}, {"role": "user", "content": "x"}]}, "input[0]", "invalid_value"),
        ({"context_management": [{"type": "sorcery", "compact_threshold": 9}]}, "context_management[0].type", "invalid_value"),
        ({"context_management": [{"type": "compaction", "compact_threshold": 0}]}, "context_management[0].compact_threshold", "invalid_value"),
        ({"context_management": [{"type": "compaction"}]}, "context_management[0].compact_threshold", "missing_required_parameter"),
        ({"include": ["everything"]}, "include[0]", "invalid_value"),
        ({"reasoning": {"effort": "heroic"}}, "reasoning.effort", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata", "object_above_max_properties"),
        ({"metadata": {"k": "x" * 513}}, "metadata[...]", "invalid_value"),
        ({"metadata": {"k" * 65: "x"}}, "metadata", "invalid_value"),
        ({"metadata": {"k": 1}}, "metadata[...]", "invalid_type"),
        ({"safety_identifier": "x" * 129}, "safety_identifier", "invalid_value"),
        ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "previous_response_id", "mutually_exclusive_parameters"),
        ({"background": True, "store": False}, "background", "mutually_exclusive_parameters"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type", "invalid_value"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name", "missing_required_parameter"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema", "missing_required_parameter"),
        ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": 5}}}}, "text.format.schema", "invalid_json_schema"),
        ({"text": {"format": {"type": "json_schema", "name": "no spaces", "schema": {}}}}, "text.format.name", "invalid_value"),
        ({"tools": [5]}, "tools[0]", "invalid_type"),
        ({"tools": [{}]}, "tools[0].type", "missing_required_parameter"),
        ({"tools": [{"type": "teleport"}]}, "tools[0].type", "invalid_value"),
        ({"tools": [{"type": "function"}]}, "tools[0].name", "missing_required_parameter"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0].name", "missing_required_parameter"),
        ({"tools": [{"type": "function", "name": "not a name"}]}, "tools[0].name", "invalid_value"),
        ({"tools": [FUNCTION, FUNCTION]}, "tools[1].name", "duplicate_tool_name"),
        ({"tools": [{**FUNCTION, "parameters": {"type": "objekt"}}]}, "tools[0].parameters", "invalid_json_schema"),
        ({"tools": [{**FUNCTION, "parameters": "none"}]}, "tools[0].parameters", "invalid_type"),
        ({"tools": [{"type": "custom"}]}, "tools[0].name", "missing_required_parameter"),
        ({"tools": [{"type": "namespace", "name": "n"}]}, "tools[0].tools", "missing_required_parameter"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]}, "tools[0].tools[0].type", "invalid_value"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [FUNCTION, FUNCTION]}]}, "tools[0].tools[1].name", "duplicate_tool_name"),
        ({"tools": [{**FUNCTION, "name": f"f{n}"} for n in range(513)]}, "tools", "array_above_max_length"),
        ({"tool_choice": "maybe"}, "tool_choice", "invalid_value"),
        ({"tool_choice": 5}, "tool_choice", "invalid_type"),
        ({"tool_choice": {}}, "tool_choice.type", "missing_required_parameter"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name", "missing_required_parameter"),
        ({"tool_choice": {"type": "wand"}}, "tool_choice.type", "invalid_value"),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto"}}, "tool_choice.tools", "missing_required_parameter"),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, "tool_choice.tools", "invalid_value"),
        ({"tool_choice": {"type": "allowed_tools", "mode": "always", "tools": [{"type": "function", "name": "f"}]}}, "tool_choice.mode", "invalid_value"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "param", "code"), BAD)
@pytest.mark.requirement(
    "PROTOCOL/object-metadata",
    "PROTOCOL/conversations-exclusive",
    "PROTOCOL/background-stored",
    "PROTOCOL/errors-type",
    "PROTOCOL/errors-range",
    "PROTOCOL/errors-item",
)
def test_an_invalid_parameter_is_reported(params: dict[str, Any], param: str, code: str) -> None:
    error = refused(**params)
    assert (error.param, error.code) == (param, code)
    assert error.message
    assert error.status == 400


@pytest.mark.requirement("PROTOCOL/errors-required")
def test_a_missing_model_is_reported() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_create(b'{"input":"hi"}')
    assert caught.value.param == "model"


@pytest.mark.requirement("PROTOCOL/errors-choices")
def test_a_wrong_choice_lists_the_right_ones() -> None:
    assert "'auto', 'disabled'" in refused(truncation="x").message


@pytest.mark.requirement("PROTOCOL/create-unknown-members")
def test_unknown_fields_are_ignored_everywhere() -> None:
    request = create(
        client_metadata={"a": 1},
        reasoning={"effort": "low", "novelty": 1},
        stream_options={"reasoning_summary_delivery": "x"},
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "x", "new": 1}], "internal_id": "i"}
        ],
    )
    assert request.params.reasoning
    assert request.params.reasoning.effort == "low"


@pytest.mark.requirement("PROTOCOL/create-input-string")
def test_a_string_is_one_user_message() -> None:
    assert create().items == (Message(role="user", content="hi"),)


@pytest.mark.parametrize(("role", "kind"), [("user", "input_text"), ("assistant", "output_text")])
def test_text_is_the_text_type_of_its_role(role: str, kind: str) -> None:
    (item,) = create(input=[{"role": role, "content": [{"type": "text", "text": "x"}]}]).items
    assert isinstance(item, Message)
    assert isinstance(item.content, list)
    assert item.content[0].__struct_config__.tag == kind


def test_arguments_and_outputs_that_are_objects_are_encoded_once() -> None:
    call, output, text = create(
        input=[
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}},
            {"type": "function_call_output", "call_id": "c", "output": {"b": 2}},
            {"type": "function_call_output", "call_id": "c", "output": '{"already": "text"}'},
        ]
    ).items
    assert isinstance(call, FunctionCall)
    assert call.arguments == '{"a":1}'
    assert isinstance(output, FunctionCallOutput)
    assert output.output == '{"b":2}'
    assert isinstance(text, FunctionCallOutput)
    assert text.output == '{"already": "text"}'


@pytest.mark.requirement("PROTOCOL/create-output-parts")
def test_a_tool_output_may_be_a_list_of_parts() -> None:
    (item,) = create(
        input=[{"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "text", "text": "x"}]}]
    ).items
    assert isinstance(item, CustomToolCallOutput)
    assert isinstance(item.output, list)


@pytest.mark.requirement("PROTOCOL/create-input-replayed")
def test_items_that_codex_replays_are_accepted() -> None:
    reasoning, message, call = create(
        input=[
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "sealed"},
            {
                "type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "phase": "final_answer",
                "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": None}],
            },
            {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "ns"},
        ]
    ).items  # fmt: skip
    assert isinstance(reasoning, Reasoning)
    assert reasoning.encrypted_content == "sealed"
    assert isinstance(message, Message)
    assert message.phase == "final_answer"
    assert isinstance(call, FunctionCall)
    assert call.namespace == "ns"


@pytest.mark.parametrize("kind", sorted(KNOWN_ITEMS | {"acme:note"}))
@pytest.mark.requirement("PROTOCOL/create-input-items")
def test_every_item_type_of_the_protocol_is_taken(kind: str) -> None:
    members: dict[str, Any] = {
        "message": {"role": "user", "content": "x"},
        "function_call": {"call_id": "c", "name": "f", "arguments": "{}"},
        "function_call_output": {"call_id": "c", "output": "x"},
        "custom_tool_call": {"call_id": "c", "name": "f", "input": "x"},
        "custom_tool_call_output": {"call_id": "c", "output": "x"},
        "compaction": {"encrypted_content": "sealed"},
        "item_reference": {"id": "msg_1"},
        "additional_tools": {"tools": [FUNCTION]},
        "mcp_approval_response": {"approval_request_id": "mcpr_1", "approve": True},
        "tool_search_call": {"arguments": {"query": "x"}},
        "tool_search_output": {"tools": []},
        "shell_call": {"call_id": "c", "action": {"commands": ["ls"]}},
        "shell_call_output": {"call_id": "c", "output": [{"stdout": "x"}]},
        "local_shell_call": {"call_id": "c", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        "local_shell_call_output": {"id": "c", "output": "x"},
        "apply_patch_call": {"call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
        "apply_patch_call_output": {"call_id": "c", "status": "completed"},
        "computer_call": {"call_id": "c", "actions": [{"type": "wait"}]},
        "computer_call_output": {"call_id": "c", "output": {"type": "computer_screenshot"}},
        "mcp_list_tools": {"server_label": "s", "tools": []},
        "mcp_call": {"server_label": "s", "name": "f", "arguments": "{}"},
        "mcp_approval_request": {"server_label": "s", "name": "f", "arguments": "{}"},
    }
    (item,) = create(input=[{"type": kind, **members.get(kind, {"anything": [1]})}]).items
    if isinstance(item, OpaqueItem):
        assert item.body == {"type": kind, "anything": [1]}


def test_chat_style_images_are_accepted() -> None:
    image = {"type": "input_image", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    (item,) = create(input=[{"role": "user", "content": [image]}]).items
    assert isinstance(item, Message)
    assert isinstance(item.content, list)
    assert msgspec.to_builtins(item.content[0])["image_url"] == "https://example.org/a.png"


@pytest.mark.requirement("PROTOCOL/create-tool-types")
def test_every_kind_of_tool_is_taken() -> None:
    tools = create(
        tools=[
            FUNCTION,
            {
                "type": "custom",
                "name": "c",
                "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'},
            },
            {"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION]},
            {"type": "web_search", "filters": None, "user_location": None},
            {"type": "acme:tool"},
        ]
    ).tools
    assert [type(tool) for tool in tools[1:]] == [CustomTool, NamespaceTool, HostedTool, HostedTool]


@pytest.mark.parametrize(
    ("choice_sent", "expected"),
    [
        ("none", "none"),
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, ToolRef("function", "f")),
        ({"type": "tool", "name": "f"}, ToolRef("function", "f")),
        ({"type": "function", "function": {"name": "f"}}, ToolRef("function", "f")),
        ({"type": "custom", "name": "c"}, ToolRef("custom", "c")),
        ({"type": "file_search"}, ToolRef("file_search")),
        ({"type": "apply_patch"}, ToolRef("apply_patch")),
        ({"type": "mcp", "server_label": "s"}, ToolRef("mcp", server_label="s")),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            AllowedTools("required", [ToolRef("function", "f")]),
        ),
    ],
)
@pytest.mark.requirement("PROTOCOL/create-tool-choices")
def test_every_form_of_tool_choice_is_taken(choice_sent: Any, expected: Any) -> None:
    assert create(tool_choice=choice_sent).tool_choice == expected


OPEN_RESPONSES_FIELDS = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
]


@pytest.mark.requirement("PROTOCOL/object-members")
def test_the_response_has_every_field_that_open_responses_requires() -> None:
    assert len(OPEN_RESPONSES_FIELDS) == 31
    assert set(OPEN_RESPONSES_FIELDS) <= set(echo())


@pytest.mark.requirement("PROTOCOL/object-echo")
def test_parameters_are_echoed() -> None:
    sent_params: dict[str, Any] = {
        "instructions": "Be brief.",
        "temperature": 0.5,
        "top_p": 0.25,
        "max_output_tokens": 9,
        "max_tool_calls": 2,
        "metadata": {"k": "v"},
        "parallel_tool_calls": False,
        "previous_response_id": "resp_0",
        "prompt_cache_key": "key",
        "safety_identifier": "who",
        "service_tier": "flex",
        "store": False,
        "top_logprobs": 3,
        "truncation": "auto",
        "user": "me",
        "tool_choice": {"type": "function", "name": "f"},
    }
    normal_arguments = echo(**sent_params, tools=[FUNCTION])
    assert {key: normal_arguments[key] for key in sent_params} == sent_params
    assert normal_arguments["tools"] == [{**FUNCTION, "description": None, "strict": None}]


@pytest.mark.requirement("PROTOCOL/object-echo-defaults")
def test_defaults_are_echoed_as_the_real_api_does() -> None:
    normal_arguments = echo()
    assert normal_arguments["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert normal_arguments["reasoning"] == {"effort": None, "summary": None, "context": None}
    assert (normal_arguments["temperature"], normal_arguments["top_p"], normal_arguments["top_logprobs"]) == (
        1.0,
        1.0,
        0,
    )
    assert (normal_arguments["tool_choice"], normal_arguments["tools"], normal_arguments["truncation"]) == (
        "auto",
        [],
        "disabled",
    )
    assert (normal_arguments["store"], normal_arguments["background"], normal_arguments["service_tier"]) == (
        True,
        False,
        "default",
    )
    assert (normal_arguments["usage"], normal_arguments["error"], normal_arguments["completed_at"]) == (
        None,
        None,
        None,
    )
    assert "downgrades" not in normal_arguments


@pytest.mark.requirement("PROTOCOL/object-echo-tools")
def test_hosted_tools_and_formats_are_echoed_completely() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    normal_arguments = echo(
        tools=[{"type": "web_search", "search_context_size": "low"}], text={"format": form}
    )
    assert normal_arguments["tools"] == [{"type": "web_search", "search_context_size": "low"}]
    assert normal_arguments["text"]["format"] == form


def test_an_id_that_is_too_long_for_an_index_is_rejected() -> None:
    item = {"role": "user", "content": "x", "id": "m" * 257}
    with pytest.raises(InvalidRequest) as caught:
        create_from(model="m", input=[item])
    assert (caught.value.param, caught.value.code) == ("input[0].id", "string_above_max_length")


def test_a_conversation_can_be_answered_without_being_stored() -> None:
    request = create_from(model="m", input="x", conversation="conv_1", store=False)
    assert (request.conversation_id, request.stored) == ("conv_1", False)


@pytest.mark.parametrize("sent", [5, True, 1.5, [1], {}])
def test_an_id_is_a_string(sent: object) -> None:
    for item in ({"role": "user", "content": "x"}, {"type": "web_search_call"}):
        with pytest.raises(InvalidRequest) as caught:
            create_from(model="m", input=[{**item, "id": sent}])
        assert caught.value.param == "input[0].id"


def test_an_empty_id_is_ignored() -> None:
    message, search = create_from(
        model="m", input=[{"role": "user", "content": "x", "id": ""}, {"type": "web_search_call", "id": ""}]
    ).items
    assert item_id(message) == item_id(search) == ""
    assert "id" not in item_to_text(message)


@pytest.mark.requirement("PROTOCOL/errors-utf8")
def test_text_that_is_not_utf8_is_rejected_everywhere() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_create(b'{"model": "m", "input": "hi", "ignored": "\xff\xfe"}')
    assert caught.value.code == "invalid_json"


@pytest.mark.requirement("PROTOCOL/state-item-reference")
def test_a_bare_id_is_a_reference() -> None:
    assert create_from(model="m", input=[{"id": "msg_1"}]).items == (ItemReference("msg_1"),)
