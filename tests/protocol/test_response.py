"""The members of a response that no parameter sets."""

import pytest

from tests.protocol.test_parse_create import echo


@pytest.mark.requirement("PROTOCOL/object-billing")
@pytest.mark.requirement("PROTOCOL/object-tool-usage")
@pytest.mark.requirement("PROTOCOL/object-conversation-absent")
def test_a_response_has_the_members_of_recorded_ones() -> None:
    made = echo()
    assert made["billing"] == {"payer": "developer"}
    assert (made["moderation"], "conversation" in made) == (None, False)
    nothing = {"image_tokens": 0, "text_tokens": 0}
    assert made["tool_usage"]["web_search"] == {"num_requests": 0}
    assert made["tool_usage"]["image_gen"] == {
        "input_tokens": 0,
        "input_tokens_details": nothing,
        "output_tokens": 0,
        "output_tokens_details": nothing,
        "total_tokens": 0,
    }
    assert echo(reasoning={"context": "all_turns"})["reasoning"]["context"] == "all_turns"
    assert echo(conversation="conv_1")["conversation"] == {"id": "conv_1"}
