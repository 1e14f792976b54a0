"""The upstream request: params that are passed on, params that stay here, and the downgrades."""

from typing import Any

import pytest

from antiphon.backends.files import FileNotTaken
from antiphon.backends.registry import default_endpoint
from antiphon.backends.responses.messages import origin_of
from antiphon.backends.responses.request import Payload, build_payload
from antiphon.errors import Unsupported
from antiphon.protocol.content import InputFile, ReasoningText, SummaryText
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.items import Item
from antiphon.protocol.parse_create import create_from
from antiphon.turn.context import build_turn
from antiphon.turn.provider_state import OpenedReasoning, ProviderState

ORIGIN = "responses@api.openai.com"
OPENAI, PLAIN, VLLM, ANTIPHON = "openai-responses", "responses", "vllm-responses", "antiphon"
FUNCTION: dict[str, Any] = {"type": "function", "name": "f"}
GRAMMAR: dict[str, Any] = {
    "type": "custom",
    "name": "c",
    "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
}


def build(kind: str = OPENAI, *, opened: tuple[Item, ...] = (), **params: Any) -> Payload:
    endpoint = default_endpoint(kind)
    request = create_from(**{"model": "m", "input": "hi", **params})
    turn = build_turn(request, [*opened, *request.items], model="up", native=endpoint.natives)
    return build_payload(turn, endpoint)


def sent(kind: str = OPENAI, *, opened: tuple[Item, ...] = (), **params: Any) -> dict[str, Any]:
    return build(kind, opened=opened, **params).body


def item(options: dict[str, Any], kind: str = OPENAI, **params: Any) -> dict[str, Any]:
    return sent(kind, input=[options], **params)["input"][0]


@pytest.mark.parametrize("kind", [OPENAI, PLAIN, VLLM, ANTIPHON])
def test_the_upstream_stores_nothing_and_state_params_are_not_sent(kind: str) -> None:
    payload = build(
        kind,
        metadata={"a": "b"},
        truncation="auto",
        store=True,
        background=False,
        context_management=[{"type": "compaction", "compact_threshold": 1000}],
    )
    assert payload.body["store"] is False
    assert payload.body["model"] == "up"
    ours = {"metadata", "truncation", "background", "context_management", "previous_response_id", "stream"}
    assert not ours & payload.body.keys()
    assert payload.downgrades == ()


def test_a_stream_is_requested_if_the_turn_is_streamed() -> None:
    assert sent(ANTIPHON, stream=True)["stream"] is True
    assert "stream_options" not in sent(ANTIPHON, stream=True)
    assert sent(OPENAI, stream=True)["stream_options"] == {"include_obfuscation": False}


@pytest.mark.parametrize("kind", [OPENAI, PLAIN, VLLM, ANTIPHON])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("instructions", "Be kind."),
        ("temperature", 0.0),
        ("top_p", 0.5),
        ("presence_penalty", 1.0),
        ("frequency_penalty", -1.0),
        ("max_output_tokens", 9),
        ("text", {"format": {"type": "json_object"}}),
        ("text", {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}),
        ("reasoning", {"effort": "low", "summary": "auto"}),
    ],
)
def test_parameters_are_passed_on_unchanged(kind: str, name: str, value: Any) -> None:
    payload = build(kind, **{name: value})
    assert payload.body[name] == value
    assert payload.downgrades == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user", "u"),
        ("safety_identifier", "s"),
        ("prompt_cache_key", "k"),
        ("prompt_cache_retention", "24h"),
        ("service_tier", "flex"),
        ("prompt_cache_options", {"mode": "explicit"}),
        ("max_tool_calls", 3),
        ("image", {"context_compression": "auto"}),
    ],
)
def test_hints_are_passed_on_where_supported(name: str, value: Any) -> None:
    for kind in (OPENAI, ANTIPHON):
        payload = build(kind, **{name: value})
        assert payload.body[name] == value
        assert payload.downgrades == ()
    plain = build(PLAIN, **{name: value})
    assert name not in plain.body
    reported = name != "max_tool_calls"  # a server without its own tools calls none
    assert rendered(plain.downgrades) == ([f"not sent to this model's server: {name}"] if reported else [])


def test_the_default_service_tier_is_no_downgrade() -> None:
    assert build(PLAIN, service_tier="auto").downgrades == ()


def test_efforts_and_modes() -> None:
    reasoning_params = {"effort": "xhigh", "summary": None, "context": "all_turns", "mode": "pro"}
    assert sent(OPENAI, reasoning=reasoning_params)["reasoning"] == {
        "effort": "xhigh",
        "context": "all_turns",
        "mode": "pro",
    }
    plain = build(PLAIN, reasoning=reasoning_params)
    assert plain.body["reasoning"] == {"effort": "high"}
    assert rendered(plain.downgrades) == [
        "reasoning effort 'xhigh' is sent as 'high'",
        "not sent to this model's server: reasoning.mode",
    ]
    assert "reasoning" not in sent(OPENAI, reasoning={})


def test_verbosity() -> None:
    assert sent(OPENAI, text={"verbosity": "low"})["text"] == {"verbosity": "low"}
    assert "text" not in sent(PLAIN, text={"verbosity": "low"})
    assert build(PLAIN, text={"verbosity": "high"}).downgrades
    assert not build(PLAIN, text={"verbosity": "medium"}).downgrades


def test_the_include_param() -> None:
    every = [
        "web_search_call.action.sources",
        "file_search_call.results",
        "message.input_image.image_url",
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
    ]
    found = sent(OPENAI, include=every, top_logprobs=2)
    assert sorted(found["include"]) == sorted(name for name in every if "input_image" not in name)
    assert found["top_logprobs"] == 2
    assert sent(PLAIN, include=every)["include"] == ["message.output_text.logprobs"]
    assert sent(ANTIPHON)["include"] == ["reasoning.encrypted_content"]
    assert "include" not in sent(VLLM)


# Tools


def test_tools_as_they_were_declared_or_as_functions() -> None:
    tools: list[dict[str, Any]] = [
        FUNCTION,
        GRAMMAR,
        {"type": "namespace", "name": "n", "description": "d", "tools": [FUNCTION, {**GRAMMAR, "name": "g"}]},
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "computer_use_preview", "environment": "linux", "display_width": 1, "display_height": 2},
        {"type": "web_search", "search_context_size": "low"},
    ]
    null_members = {"description": None, "parameters": None, "strict": None}
    native = build(OPENAI, tools=tools)
    assert native.body["tools"] == [
        {**FUNCTION, **null_members},
        GRAMMAR,
        {**tools[2], "tools": [{**FUNCTION, **null_members}, {**GRAMMAR, "name": "g"}]},
        *tools[3:],
    ]
    assert native.unenforced == frozenset()
    plain = build(PLAIN, tools=tools[:4])
    assert [(tool["type"], tool["name"]) for tool in plain.body["tools"]] == [
        ("function", "f"),
        ("function", "c"),
        ("function", "n__f"),
        ("function", "n__g"),
        ("function", "shell"),
    ]
    assert plain.body["tools"][1]["strict"] is False
    assert plain.unenforced == {"grammar"}
    assert any("grammar" in note for note in rendered(plain.downgrades))


@pytest.mark.parametrize(
    ("kind", "choice", "expected"),
    [
        (OPENAI, "auto", None),
        (OPENAI, "none", None),
        (OPENAI, "required", "required"),
        (OPENAI, {"type": "function", "name": "f"}, {"type": "function", "name": "f"}),
        (OPENAI, {"type": "custom", "name": "c"}, {"type": "custom", "name": "c"}),
        (OPENAI, {"type": "apply_patch"}, "required"),
        (OPENAI, {"type": "function", "name": "inner"}, "required"),
        (OPENAI, {"type": "web_search"}, "required"),
        (PLAIN, {"type": "custom", "name": "c"}, {"type": "function", "name": "c"}),
        (PLAIN, {"type": "function", "name": "inner"}, {"type": "function", "name": "n__inner"}),
        (VLLM, {"type": "function", "name": "f"}, "required"),
    ],
)
def test_the_choice_of_a_tool(kind: str, choice: Any, expected: Any) -> None:
    tools: list[dict[str, Any]] = [
        FUNCTION,
        {"type": "custom", "name": "c"},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "inner"}]},
        {"type": "apply_patch"},
        *([{"type": "web_search"}] if kind == OPENAI else []),
    ]
    body = sent(kind, tools=tools, tool_choice=choice, parallel_tool_calls=False)
    assert body.get("tool_choice") == expected
    assert ("tools" in body) == (choice != "none")
    assert body.get("parallel_tool_calls") == (None if choice == "none" else False)
    if isinstance(choice, dict):
        assert len(body["tools"]) == 1  # no other tool is shown


def test_a_shell_in_a_container_is_rejected() -> None:
    with pytest.raises(Unsupported, match="container") as caught:
        build(OPENAI, tools=[{"type": "shell", "environment": {"type": "container_auto"}}])
    assert (caught.value.param, caught.value.code) == ("tools", "unsupported_tool")


def test_tools_that_the_clients_search_found_are_not_declared_twice() -> None:
    found = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]}
    search: dict[str, Any] = {
        "type": "tool_search_call",
        "call_id": "c",
        "execution": "client",
        "arguments": {},
    }
    output = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [FUNCTION, found]}
    tools = [{"type": "tool_search", "execution": "client"}]
    body = sent(OPENAI, input=[search, output], tools=tools)
    assert [tool["type"] for tool in body["tools"]] == ["tool_search"]
    assert body["input"][1]["tools"] == [FUNCTION, found]
    plain = sent(PLAIN, input=[search, output], tools=tools)
    assert [tool["name"] for tool in plain["tools"]] == ["tool_search", "f", "n__g"]


def test_tools_found_by_the_upstreams_search_are_declared_again() -> None:
    deferred = {**FUNCTION, "defer_loading": True}
    search = {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {"q": "f"}}
    output = {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": [deferred]}
    body = sent(OPENAI, input=[search, output], tools=[{"type": "tool_search"}, deferred])
    assert [tool["type"] for tool in body["tools"]] == ["tool_search", "function"]
    assert body["tools"][1]["defer_loading"] is True


# Items


@pytest.mark.parametrize(
    ("options", "omitted"),
    [
        ({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}, ("id",)),
        (
            {
                "type": "custom_tool_call",
                "id": "ctc_1",
                "call_id": "c",
                "name": "f",
                "input": "x",
                "status": "completed",
            },
            ("id", "status"),
        ),
        (
            {
                "type": "local_shell_call",
                "id": "lsh_1",
                "call_id": "c",
                "action": {"type": "exec", "command": ["ls"], "env": {}},
                "status": "completed",
            },
            (),
        ),
        (
            {
                "type": "computer_call",
                "id": "cu_1",
                "call_id": "c",
                "actions": [{"type": "wait"}],
                "pending_safety_checks": [],
                "status": "completed",
            },
            (),
        ),
        (
            {
                "type": "shell_call",
                "id": "sh_1",
                "call_id": "c",
                "action": {"commands": ["ls"]},
                "status": "completed",
            },
            ("id",),
        ),
        ({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}, ()),
        (
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "server_label": "s",
                "name": "t",
                "arguments": "{}",
                "output": "x",
            },
            (),
        ),
        (
            {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": [], "status": "failed"},
            ("status",),
        ),
    ],
)
def test_ids_and_statuses_go_where_they_are_wanted(options: dict[str, Any], omitted: tuple[str, ...]) -> None:
    expected = {name: value for name, value in options.items() if name not in omitted}
    tools: list[dict[str, Any]] = [{"type": "web_search"}, {"type": "mcp", "server_label": "s"}]
    assert item(options, tools=tools) == expected


def test_a_patch_that_broke_off_has_ended() -> None:
    call = {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}}
    output = {"type": "apply_patch_call_output", "id": "apco_1", "call_id": "c", "status": "failed"}
    first, second = sent(input=[{**call, "status": "incomplete"}, output])["input"]
    assert first == {**call, "status": "completed"}
    assert second == {"type": "apply_patch_call_output", "call_id": "c", "status": "failed"}


def test_messages_of_the_model_have_an_id_and_a_status() -> None:
    part = {"type": "output_text", "text": "x"}
    assert item({"role": "assistant", "content": [part]}) == {
        "type": "message",
        "role": "assistant",
        "content": [{**part, "annotations": []}],
        "id": "msg_0",
        "status": "completed",
    }
    assert item({"role": "assistant", "content": "x"}) == {
        "type": "message",
        "role": "assistant",
        "content": "x",
    }
    assert item({"id": "msg_x", "role": "user", "content": "x"}) == {
        "type": "message",
        "role": "user",
        "content": "x",
    }


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (PLAIN, {"type": "input_file", "file_data": "data:text/plain;base64,aQ=="}),
        (VLLM, {"type": "input_file", "file_id": "file_1"}),
        (OPENAI, {"type": "input_audio", "input_audio": {"data": "aQ==", "format": "wav"}}),
    ],
)
def test_unsupported_content_is_rejected(kind: str, part: dict[str, Any]) -> None:
    with pytest.raises(Unsupported) as caught:
        build(kind, input=[{"role": "user", "content": [{"type": "input_text", "text": "x"}, part]}])
    assert (caught.value.param, caught.value.code) == ("input[0].content[1]", "unsupported_content")
    if part["type"] == "input_audio":
        assert item({"role": "user", "content": [part]}, ANTIPHON)["content"] == [part]


OWN_ID, FOREIGN_ID = f"file-{'0a' * 22}", "file-DhxjnFCaSHc4ZELRGKwTMFtI"


@pytest.mark.parametrize("kind", ["input_file", "input_image"])
def test_files_of_the_upstream_are_named_and_those_stored_here_are_not(kind: str) -> None:
    part = {"type": kind, "file_id": FOREIGN_ID}
    assert item({"role": "user", "content": [part]}, OPENAI)["content"][0]["file_id"] == FOREIGN_ID
    with pytest.raises(FileNotTaken) as caught:
        build(OPENAI, input=[{"role": "user", "content": [{"type": kind, "file_id": OWN_ID}]}])
    refused = caught.value
    assert refused.param == "input[0].content[0].file_id"
    assert refused.stores_files
    takes = [refused.takes(InputFile(file_id=each)) for each in (OWN_ID, FOREIGN_ID)]
    assert takes == [False, True]


def test_images_in_outputs_and_breakpoints() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    image = {"type": "input_image", "image_url": "https://a.example/x.png"}
    output = {"type": "function_call_output", "call_id": "c", "output": [image]}
    assert sent(PLAIN, input=[call, output])["input"][1]["output"] == [{**image, "detail": "auto"}]
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    part = {"type": "input_text", "text": "x", **mark}
    assert item({"role": "user", "content": [part]}, OPENAI)["content"] == [part]
    plain = build(PLAIN, input=[{"role": "user", "content": [part]}])
    assert plain.body["input"][0]["content"] == [{"type": "input_text", "text": "x"}]
    assert len(plain.downgrades) == 1
    text_part: dict[str, Any] = {"type": "output_text", "text": "x", "annotations": []}
    payload_with_part = build(
        OPENAI, input=[{"type": "message", "role": "assistant", "content": [{**text_part, **mark}]}]
    )
    assert payload_with_part.body["input"][0]["content"] == [text_part]
    assert len(payload_with_part.downgrades) == 1


def test_a_file_that_is_sent_along_has_a_name() -> None:
    file = {"type": "input_file", "file_data": "data:application/pdf;base64,AA"}
    assert item({"role": "user", "content": [file]}, OPENAI)["content"] == [{**file, "filename": "file.pdf"}]
    named = {**file, "filename": "a.pdf"}
    assert item({"role": "user", "content": [named]}, OPENAI)["content"] == [named]


# Reasoning


def opened_reasoning(*states: ProviderState, text: str = "", summary: str = "") -> OpenedReasoning:
    return OpenedReasoning(
        id="rs_ours",
        summary=[SummaryText(summary)] if summary else [],
        content=[ReasoningText(text)] if text else [],
        encrypted_content="antiphon1.x",
        status="completed",
        states=states,
    )


def mark(number: int, origin: str = ORIGIN) -> ProviderState:
    return ProviderState(origin, {"id": f"rs_{number}", "encrypted_content": f"sealed {number}"})


def test_reasoning_sealed_by_the_upstream_is_sent_back_with_its_id() -> None:
    body = sent(OPENAI, opened=(opened_reasoning(mark(1), mark(2), text="raw", summary="short"),))
    assert body["input"][:2] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "encrypted_content": "sealed 1",
            "summary": [{"type": "summary_text", "text": "short"}],
        },
        {"type": "reasoning", "id": "rs_2", "encrypted_content": "sealed 2", "summary": []},
    ]


def test_reasoning_that_was_sealed_without_an_id() -> None:
    sealed = ProviderState(ORIGIN, {"id": "", "encrypted_content": "x"})
    body = sent(OPENAI, opened=(opened_reasoning(sealed),))
    assert body["input"][0] == {"type": "reasoning", "encrypted_content": "x", "summary": []}


def test_reasoning_of_other_origins_is_sent_as_text_or_omitted() -> None:
    foreign = opened_reasoning(mark(1, "responses@elsewhere"), text="raw")
    without_state = build(OPENAI, opened=(foreign,))
    assert [item["type"] for item in without_state.body["input"]] == ["message"]
    assert rendered(without_state.downgrades) == [
        "reasoning of earlier turns is left out: this model's server takes back only its own"
    ]
    for kind in (PLAIN, VLLM, ANTIPHON):
        body = build(kind, opened=(foreign,))
        assert body.body["input"][0] == {
            "type": "reasoning",
            "id": "rs_ours",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "raw"}],
        }
        assert body.downgrades == ()
    assert build(PLAIN, opened=(opened_reasoning(summary="only"),)).downgrades
    own = opened_reasoning(mark(1, "responses@localhost:8080"), text="raw")
    assert sent(ANTIPHON, opened=(own,))["input"][0] == {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": "sealed 1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "raw"}],
    }


def test_a_server_is_known_by_its_host_however_it_is_written() -> None:
    written = default_endpoint(OPENAI, "https://API.OpenAI.com/v1/")
    assert origin_of(written) == origin_of(default_endpoint(OPENAI)) == ORIGIN
    assert origin_of(default_endpoint(PLAIN)) != origin_of(default_endpoint(ANTIPHON))
