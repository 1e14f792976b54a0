"""The scenarios that every client must support.

A scenario is a request to a client's program and the expected outcome: in the client, at the model (the
requests that the upstream received) and in the store. The programs know their client; the expectations are
only here.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

JsonObject = dict[str, Any]

PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MODELS = ["echo", "agent", "json", "forced", "transcript", "reasoning", "refuses", "breaks"]
REASONING = "Let me think."


@dataclass(frozen=True)
class Seen:
    """The requests and the server's state after a scenario."""

    requests: list[JsonObject]
    """The requests that the model received."""
    get: Callable[[str], tuple[int, JsonObject]]
    """The status and the body of `GET {path}` on the server."""


Check = Callable[[JsonObject, Seen], None]


@dataclass(frozen=True)
class Scenario:
    """A scenario, by the name of its cell in the table."""

    name: str
    check: Check
    params: JsonObject = field(default_factory=dict[str, Any])


def messages_of(request: JsonObject) -> list[tuple[str, str]]:
    """Role and text of each message of a request to the model."""
    return [(message["role"], _plain(message["content"])) for message in request["messages"]]


def _plain(content: str | list[JsonObject] | None) -> str:
    if isinstance(content, list):
        return " ".join(part.get("text", part["type"]) for part in content)
    return content or ""


def check_text(result: JsonObject, seen: Seen) -> None:
    assert result["text"] == "You said: hello"
    assert [messages_of(request) for request in seen.requests] == [
        [("system", "Be brief."), ("user", "hello")]
    ]


def check_streaming(result: JsonObject, seen: Seen) -> None:
    check_text(result, seen)
    assert len(result["deltas"]) > 1
    assert "".join(result["deltas"]) == "You said: hello"
    assert seen.requests[0]["stream"] is True


def check_tools(result: JsonObject, seen: Seen) -> None:
    """Two calls at once, then one more, then the answer; every output reaches the model."""
    assert result["text"] == "I was told one."
    assert sorted(result["called"], key=json.dumps) == [
        ["read_lines", {}],
        ["write_line", {"text": "one"}],
        ["write_line", {"text": "two"}],
    ]
    assert len(seen.requests) == 3
    assert [(role, text) for role, text in messages_of(seen.requests[-1]) if role == "tool"] == [
        ("tool", "written"),
        ("tool", "one"),
        ("tool", "written"),
    ]
    offered = [{tool["function"]["name"] for tool in request["tools"]} for request in seen.requests]
    assert offered == [{"write_line", "read_lines"}] * 3


def check_tools_streamed(result: JsonObject, seen: Seen) -> None:
    check_tools(result, seen)
    assert all(request["stream"] for request in seen.requests)


def check_forced(result: JsonObject, seen: Seen) -> None:
    assert [arguments for _name, arguments in result["called"]] == [{"name": "Ada", "year": 1815}]
    assert seen.requests[0]["tool_choice"] != "auto"


def check_structured(result: JsonObject, seen: Seen) -> None:
    assert result["parsed"] == {"name": "Ada", "year": 1815}
    form = seen.requests[0]["response_format"]
    assert form["type"] == "json_schema"
    assert sorted(form["json_schema"]["schema"]["properties"]) == ["name", "year"]


def check_structured_streamed(result: JsonObject, seen: Seen) -> None:
    check_structured(result, seen)
    assert seen.requests[0]["stream"] is True


def check_transcript(result: JsonObject, seen: Seen) -> None:
    """The model received both turns, each once."""
    assert json.loads(result["text"]) == ["hello", '["hello"]', "again"]
    assert len(seen.requests) == 2


def check_second_turn(result: JsonObject, seen: Seen) -> None:
    check_transcript(result, seen)
    status, stored = seen.get(f"/responses/{result['id']}")
    assert (status, stored["previous_response_id"]) == (200, None)


def check_not_stored(result: JsonObject, seen: Seen) -> None:
    check_transcript(result, seen)
    assert seen.get(f"/responses/{result['id']}")[0] == 404


def check_previous(result: JsonObject, seen: Seen) -> None:
    check_transcript(result, seen)
    assert seen.get(f"/responses/{result['id']}")[1]["previous_response_id"]


def check_conversation(result: JsonObject, seen: Seen) -> None:
    check_transcript(result, seen)
    conversation = seen.get(f"/responses/{result['id']}")[1]["conversation"]["id"]
    items = cast("list[JsonObject]", seen.get(f"/conversations/{conversation}/items?order=asc")[1]["data"])
    assert [item["role"] for item in items] == ["user", "assistant", "user", "assistant"]


def check_reasoning(result: JsonObject, seen: Seen) -> None:
    """The reasoning of the first turn is sent to the model again in the second."""
    assert result["text"] == "Done."
    assert [text for _role, text in messages_of(seen.requests[-1])] == ["hello", "Done.", "again"]
    assert seen.requests[-1]["messages"][1]["reasoning"] == REASONING


def check_reasoning_sealed(result: JsonObject, seen: Seen) -> None:
    check_reasoning(result, seen)
    assert seen.get(f"/responses/{result['id']}")[0] == 404


def check_image(result: JsonObject, seen: Seen) -> None:
    assert result["text"] == "You said: What is this? image_url"
    parts = seen.requests[0]["messages"][-1]["content"]
    assert [part["image_url"]["url"] for part in parts if part["type"] == "image_url"] == [PICTURE]


def raises(status: int | None, *message: str) -> Check:
    """The client raised its own exception with this message."""

    def check(result: JsonObject, _seen: Seen) -> None:
        for part in message:
            assert part in result["error"]
        if status is not None:
            assert result["status"] == status

    return check


def check_rate_limited(result: JsonObject, _seen: Seen) -> None:
    """The upstream's own error; a client that tries again gets that of an upstream which is paused."""
    assert "you are too fast" in result["error"] or "at its own request" in result["error"]
    assert result["status"] == 429


def check_socket(result: JsonObject, seen: Seen) -> None:
    """Two turns on one socket; nothing is stored, and yet the second has the history of the first."""
    check_transcript(result, seen)
    assert seen.get(f"/responses/{result['id']}")[0] == 404


def check_embedded(result: JsonObject, seen: Seen) -> None:
    """The small model's answers are wrong but well formed."""
    assert result["text"].strip()
    assert set(result["parsed"]) == {"name", "year"}
    assert isinstance(result["parsed"]["year"], int)
    assert seen.requests == []


SCENARIOS = [
    Scenario("text", check_text),
    Scenario("streaming", check_streaming),
    Scenario("tools", check_tools),
    Scenario("tools while streaming", check_tools_streamed),
    Scenario("a forced tool", check_forced),
    Scenario("structured output", check_structured),
    Scenario("structured output while streaming", check_structured_streamed),
    Scenario("a second turn", check_second_turn),
    Scenario("a second turn, nothing stored", check_not_stored),
    Scenario("previous_response_id", check_previous),
    Scenario("conversation", check_conversation),
    Scenario("reasoning", check_reasoning),
    Scenario("reasoning, nothing stored", check_reasoning_sealed),
    Scenario("images", check_image, {"picture": PICTURE}),
    Scenario("unknown model", raises(404, "no-such-model")),
    Scenario("bad request", raises(400, "temperature")),
    Scenario("upstream refuses", check_rate_limited),
    Scenario("upstream breaks off", raises(502, "broke off")),
    Scenario("upstream breaks off while streaming", raises(None, "broke off")),
    Scenario("WebSocket", check_socket),
    Scenario("embedded model", check_embedded),
]
