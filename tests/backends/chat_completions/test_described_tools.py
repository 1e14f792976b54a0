"""Tools for models whose template shows none."""

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
ASKED = {"role": "user", "content": "Paris?"}
CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
CALLED = '<tool_call>\n{"name":"weather","arguments":{"city":"Paris"}}\n</tool_call>'
ANSWERED = "<tool_response>\nsunny\n</tool_response>"


def build(**params: Any) -> Payload:
    request = create_from(**{"model": "m", "input": [ASKED], "tools": [WEATHER, LOOK], **params})
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
    assert user == ASKED
    assert rendered(payload.downgrades) == [
        "tools are described in the prompt, and calls are read from the text"
    ]
    assert payload.unenforced == frozenset()


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
def test_a_forced_tool_is_asked_for(choice: Any) -> None:
    payload = build(tool_choice=choice)
    system = payload.body["messages"][0]["content"]
    names = "weather, look" if choice == "required" else "weather"
    assert f"of one of these tools: {names}." in system
    assert ('"name":"look"' in system) == (choice == "required")
    assert payload.unenforced == {"tool_choice"}


def test_without_tools_nothing_is_described() -> None:
    payload = build(tools=[])
    assert payload.body["messages"] == [ASKED]
    assert payload.downgrades == ()


def test_one_call_at_a_time_is_asked_for() -> None:
    assert "one call at most" in build(parallel_tool_calls=False).body["messages"][0]["content"]
    assert "one call at most" not in build(parallel_tool_calls=True).body["messages"][0]["content"]


def test_calls_and_outputs_are_told_as_text_and_the_roles_take_turns() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    words = {"type": "message", "role": "assistant", "content": "I look."}
    second = [CALL | {"call_id": "c2"}, OUTPUT | {"call_id": "c2"}]
    messages = build(input=[ASKED, thought, words, CALL, second[0], OUTPUT, second[1]]).body["messages"][1:]
    assert messages == [
        ASKED,
        {"role": "assistant", "content": f"I look.\n{CALLED}\n{CALLED}", "reasoning": "Hm."},
        {"role": "user", "content": f"{ANSWERED}\n{ANSWERED}"},
    ]


def test_what_the_user_says_after_an_output_goes_with_it() -> None:
    messages = build(input=[ASKED, CALL, OUTPUT, {"role": "user", "content": "And?"}]).body["messages"][1:]
    assert messages[-1] == {"role": "user", "content": f"{ANSWERED}\nAnd?"}


def test_images_in_an_output_are_kept() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}
    output = OUTPUT | {"output": [{"type": "input_text", "text": "see"}, image]}
    last = build(input=[ASKED, CALL, output]).body["messages"][-1]
    assert [part["type"] for part in last["content"]] == ["text", "text", "image_url", "text"]


def test_arguments_that_are_no_json_are_told_as_they_are() -> None:
    messages = build(input=[ASKED, CALL | {"arguments": "{oops"}, OUTPUT]).body["messages"]
    assert '"arguments":"{oops"' in messages[2]["content"]


def test_a_bad_part_is_still_named_by_its_place() -> None:
    bad = {"role": "user", "content": [{"type": "input_image", "image_url": "ftp://x"}]}
    with pytest.raises(InvalidRequest) as caught:
        build(input=[ASKED, CALL, OUTPUT, bad])
    assert caught.value.param == "input[3].content[0].image_url"


def test_what_the_model_is_taught_to_write_is_found_again() -> None:
    recovery = CallRecovery(dialects_named("hermes"), {"weather": WEATHER["parameters"]})
    said: list[Chunk] = [TextDelta(f"So:\n{CALLED}"), Finished("stop")]
    chunks = list(recovery.feed(said))
    calls = [chunk for chunk in chunks if isinstance(chunk, CallStarted | CallDelta | CallFinished)]
    assert isinstance(calls[0], CallStarted)
    assert calls[0].name == "weather"
    assert "".join(chunk.arguments for chunk in calls if isinstance(chunk, CallDelta)) == '{"city":"Paris"}'


def test_the_manifest_says_so() -> None:
    features = chat_features(QUIRKS)
    for feature in ("function_tools", "tool_choice_required", "tool_choice_named", "parallel_tool_calls"):
        assert features[feature].level == "emulated"
    assert features["single_tool_calls"].level == "emulated"
