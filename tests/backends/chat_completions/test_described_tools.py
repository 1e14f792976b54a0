"""Tools described in the prompt, for models whose template renders none."""

from typing import Any

import pytest

from antiphon.backends.chat_completions.client import chat_features
from antiphon.backends.chat_completions.request import Payload, build_payload
from antiphon.backends.registry import Quirks
from antiphon.errors import InvalidRequest
from antiphon.protocol.downgrade import rendered
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import CallDelta, CallFinished, CallStarted, Chunk, Finished, TextDelta
from antiphon.turn.context import build_turn
from antiphon.turn.text_calls.dialects import dialects_named
from antiphon.turn.text_calls.recovery import CallRecovery

QUIRKS = Quirks(tools="prompt", replay_reasoning="reasoning")
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "weather",
    "description": "Tell the weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
LOOK = {"type": "function", "name": "look"}
QUESTION = {"role": "user", "content": "Paris?"}
CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
CALLED = '<tool_call>\n{"name":"weather","arguments":{"city":"Paris"}}\n</tool_call>'
ANSWERED = "<tool_response>\nsunny\n</tool_response>"


def build(**params: Any) -> Payload:
    request = create_from(**{"model": "m", "input": [QUESTION], "tools": [WEATHER, LOOK], **params})
    return build_payload(build_turn(request, model="m"), QUIRKS)


def test_tools_are_described_and_not_sent() -> None:
    payload = build(instructions="Be brief.")
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & payload.body.keys()
    system, user = payload.body["messages"]
    assert system["content"].startswith("Be brief.\n\nYou can use tools.")
    assert (
        '{"name":"weather","description":"Tell the weather","parameters":{"type":"object"'
        in system["content"]
    )
    assert '"name":"look"' in system["content"]
    assert "must answer" not in system["content"]
    assert user == QUESTION
    assert rendered(payload.downgrades) == [
        "tools are described in the prompt, and calls are read from the text"
    ]
    assert payload.unenforced == frozenset()


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
def test_a_forced_tool_is_prompted(choice: Any) -> None:
    payload = build(tool_choice=choice)
    system = payload.body["messages"][0]["content"]
    names = "weather, look" if choice == "required" else "weather"
    assert f"of one of these tools: {names}." in system
    assert ('"name":"look"' in system) == (choice == "required")
    assert payload.unenforced == {"tool_choice"}


def test_without_tools_no_description_is_added() -> None:
    payload = build(tools=[])
    assert payload.body["messages"] == [QUESTION]
    assert payload.downgrades == ()


def test_one_call_at_a_time_is_prompted() -> None:
    assert "one call at most" in build(parallel_tool_calls=False).body["messages"][0]["content"]
    assert "one call at most" not in build(parallel_tool_calls=True).body["messages"][0]["content"]


def test_calls_and_outputs_are_rendered_as_text_in_alternating_roles() -> None:
    reasoning = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    answer = {"type": "message", "role": "assistant", "content": "I look."}
    second = [CALL | {"call_id": "c2"}, OUTPUT | {"call_id": "c2"}]
    messages = build(input=[QUESTION, reasoning, answer, CALL, second[0], OUTPUT, second[1]]).body[
        "messages"
    ][1:]
    assert messages == [
        QUESTION,
        {"role": "assistant", "content": f"I look.\n{CALLED}\n{CALLED}", "reasoning": "Hm."},
        {"role": "user", "content": f"{ANSWERED}\n{ANSWERED}"},
    ]


def test_a_user_message_after_an_output_is_merged_with_it() -> None:
    messages = build(input=[QUESTION, CALL, OUTPUT, {"role": "user", "content": "And?"}]).body["messages"][1:]
    assert messages[-1] == {"role": "user", "content": f"{ANSWERED}\nAnd?"}


def test_images_in_an_output_are_preserved() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}
    output = OUTPUT | {"output": [{"type": "input_text", "text": "see"}, image]}
    last = build(input=[QUESTION, CALL, output]).body["messages"][-1]
    assert [part["type"] for part in last["content"]] == ["text", "text", "image_url", "text"]


def test_invalid_json_arguments_are_rendered_verbatim() -> None:
    messages = build(input=[QUESTION, CALL | {"arguments": "{oops"}, OUTPUT]).body["messages"]
    assert '"arguments":"{oops"' in messages[2]["content"]


def test_an_invalid_part_is_reported_with_its_path() -> None:
    bad = {"role": "user", "content": [{"type": "input_image", "image_url": "ftp://x"}]}
    with pytest.raises(InvalidRequest) as caught:
        build(input=[QUESTION, CALL, OUTPUT, bad])
    assert caught.value.param == "input[3].content[0].image_url"


def test_calls_in_the_described_format_are_recognized() -> None:
    recovery = CallRecovery(dialects_named("hermes"), {"weather": WEATHER["parameters"]})
    model_chunks: list[Chunk] = [TextDelta(f"So:\n{CALLED}"), Finished("stop")]
    chunks = list(recovery.feed(model_chunks))
    calls = [chunk for chunk in chunks if isinstance(chunk, CallStarted | CallDelta | CallFinished)]
    assert isinstance(calls[0], CallStarted)
    assert calls[0].name == "weather"
    assert "".join(chunk.arguments for chunk in calls if isinstance(chunk, CallDelta)) == '{"city":"Paris"}'


def test_the_manifest_reports_described_tools() -> None:
    features = chat_features(QUIRKS)
    for feature in ("function_tools", "tool_choice_required", "tool_choice_named", "parallel_tool_calls"):
        assert features[feature].level == "emulated"
    assert features["single_tool_calls"].level == "emulated"
