"""Private sides: sealed, opened, and substituted for the public side."""

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.items import Message, OpaqueItem
from antiphon.protocol.parse_items import parse_item
from antiphon.protocol.parse_tools import parse_tools, read_tools
from antiphon.protocol.tool_items import FileSearchCall
from antiphon.protocol.tools import declaration
from antiphon.turn.private_sides import model_sides, open_tools, public_side, seal_tools
from antiphon.turn.sealing import SealKey

CANARY = "canary-0d1e"
MCP = {"type": "mcp", "server_label": "a", "server_url": "https://a.example", "authorization": CANARY}
WITH_HEADERS = {**MCP, "server_url": "https://a.example/mcp", "headers": {"X-Key": CANARY}}
TOOLS = [
    {"type": "function", "name": "look"},
    MCP,
    {**MCP, "authorization": "other"},
    {"type": "web_search"},
    WITH_HEADERS,
]
SEALER = SealKey(b"secret", lambda count: b"\0" * count).sealer("acme")
OTHER = SealKey(b"another", lambda count: b"\0" * count).sealer("acme")


def test_stored_tools_get_their_secrets_back() -> None:
    tools = parse_tools(TOOLS, Definitions())
    envelope = seal_tools(tools, SEALER)
    assert envelope is not None
    assert CANARY not in envelope
    stored = read_tools([declaration(tool) for tool in tools])
    assert stored != tools
    assert open_tools(stored, envelope, SEALER, "previous_response_id") == tools


def test_tools_without_secrets_need_no_envelope() -> None:
    tools = parse_tools([TOOLS[0], TOOLS[3]], Definitions())
    assert seal_tools(tools, SEALER) is None
    assert open_tools(tools, None, SEALER, "previous_response_id") is tools


def test_secrets_that_cannot_be_opened_are_to_be_sent_again() -> None:
    tools = parse_tools(TOOLS, Definitions())
    with pytest.raises(InvalidRequest, match="Send 'tools' again") as caught:
        open_tools(tools, seal_tools(tools, OTHER), SEALER, "previous_response_id")
    assert (caught.value.param, caught.value.code) == ("tools", "invalid_encrypted_content")
    assert CANARY not in caught.value.message


def test_an_item_that_declares_tools_has_two_sides() -> None:
    item = parse_item({"type": "additional_tools", "id": "at_1", "tools": TOOLS}, Definitions(), "input[0]")
    public, private = public_side(item, SEALER)
    assert private is not None
    assert CANARY not in repr(public) + private
    assert list(model_sides([public], {"at_1": private}, SEALER)) == [item]
    with pytest.raises(InvalidRequest, match="send the tools again"):
        model_sides([public], {"at_1": private}, OTHER)


def test_an_item_without_secrets_has_one_side() -> None:
    message = Message(role="user", content="hi")
    assert public_side(message, SEALER) == (message, None)


def test_the_model_sees_the_members_of_the_private_side() -> None:
    search = FileSearchCall(id="fs_1", status="completed", queries=["q"])
    private = msgspec.json.encode({"results": [{"text": "found"}]}).decode()
    opaque = OpaqueItem("acme:item", {"type": "acme:item", "id": "x_1", "a": 1})
    items = [Message(id="msg_1", role="user", content="hi"), search, opaque]
    seen = model_sides(items, {"fs_1": private, "x_1": '{"b": 2}'}, SEALER)
    assert seen == [
        items[0],
        FileSearchCall(id="fs_1", status="completed", queries=["q"], results=[{"text": "found"}]),
        OpaqueItem("acme:item", {"type": "acme:item", "id": "x_1", "a": 1, "b": 2}),
    ]
    assert model_sides(items, {}, SEALER) is items


def test_an_envelope_of_another_kind_is_not_opened_as_a_private_side() -> None:
    assert SEALER.open_private(SEALER.seal_summary("s")) is None
    assert SEALER.open_summary(SEALER.seal_private({"a": 1})) is None
    assert SEALER.open(SEALER.seal_private({"a": 1})) is None


def test_a_request_is_sealed_for_the_store() -> None:
    envelope = SEALER.seal_request(f'{{"instruction": "ü {CANARY}"}}'.encode())
    assert CANARY.encode() not in envelope
    assert SEALER.open_request(envelope) == f'{{"instruction": "ü {CANARY}"}}'.encode()
    assert OTHER.open_request(envelope) is None
