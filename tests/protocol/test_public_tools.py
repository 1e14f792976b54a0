"""The public form of declared tools: secrets are omitted, everything else is unchanged."""

import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.item_lists import shown
from antiphon.protocol.parse_create import create_from, parse_create, without_items
from antiphon.protocol.parse_items import parse_item
from antiphon.protocol.parse_tools import parse_tools
from antiphon.protocol.public_tools import public_declaration
from antiphon.protocol.response import new_response
from antiphon.protocol.stored_items import item_to_text
from antiphon.protocol.tools import HostedTool, declaration

CANARY = "canary-51c2"
MCP = {
    "type": "mcp",
    "server_label": "dice",
    "server_url": f"https://dice.example/{CANARY}?key={CANARY}",
    "authorization": CANARY,
    "headers": {"X-Key": CANARY},
    "require_approval": "never",
}
PUBLIC = {
    "type": "mcp",
    "server_label": "dice",
    "server_url": "https://dice.example/<redacted>",
    "headers": None,
    "require_approval": "never",
}


def test_credentials_are_omitted() -> None:
    assert public_declaration(MCP) == PUBLIC


@pytest.mark.parametrize(
    "body",
    [
        {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
        {"type": "mcp", "server_label": "s", "server_url": "https://dice.example"},
        {"type": "mcp", "server_label": "s", "server_url": "https://dice.example:8443/"},
        {"type": "code_interpreter", "container": {"type": "auto", "network_policy": {"type": "disabled"}}},
        {"type": "code_interpreter", "container": "cntr_1"},
    ],
)
def test_tools_without_secrets_are_returned_unchanged(body: JsonObject) -> None:
    assert public_declaration(body) is body


@pytest.mark.parametrize(
    ("url", "shown_url"),
    [
        (f"https://user:{CANARY}@dice.example", "https://dice.example/<redacted>"),
        (f"https://dice.example:8443/mcp/{CANARY}", "https://dice.example:8443/<redacted>"),
        (f"https://dice.example?k={CANARY}", "https://dice.example/<redacted>"),
        (f"https://dice.example/#{CANARY}", "https://dice.example/<redacted>"),
        (f"https://[::1]:9/{CANARY}", "https://[::1]:9/<redacted>"),
        (f"https://[{CANARY}", "<redacted>"),
        (f"https://dice.example:{CANARY}/", "<redacted>"),
        (CANARY, "<redacted>"),
        ({"url": CANARY}, None),
    ],
)
def test_a_url_ends_after_its_host(url: object, shown_url: str | None) -> None:
    assert public_declaration({"type": "mcp", "server_url": url})["server_url"] == shown_url


@pytest.mark.parametrize("place", ["container", "environment"])
def test_secrets_of_a_container_have_no_values(place: str) -> None:
    secret = {"domain": "a.example", "name": "KEY", "value": CANARY}
    policy = {"type": "allowlist", "allowed_domains": ["a.example"], "domain_secrets": [secret, CANARY]}
    public = public_declaration({"type": "x", place: {"type": "auto", "network_policy": policy}})
    assert public[place]["network_policy"] == {
        **policy,
        "domain_secrets": [{"domain": "a.example", "name": "KEY"}],
    }


def test_a_declared_tool_has_its_secrets_apart() -> None:
    (tool,) = parse_tools([MCP], Definitions())
    assert isinstance(tool, HostedTool)
    assert (tool.body, tool.complete) == (PUBLIC, MCP)
    assert declaration(tool) == PUBLIC
    assert CANARY not in repr(tool)
    echoed = new_response(create_from(model="m", input="x", tools=[MCP]), id="resp_1", created_at=1)
    assert echoed.tools == [PUBLIC]


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output"])
def test_an_item_is_listed_and_stored_without_them(kind: str) -> None:
    item = parse_item({"type": kind, "id": "x", "tools": [MCP]}, Definitions(), "input[0]")
    assert CANARY not in repr(shown(item))
    assert CANARY not in item_to_text(item)
    assert "dice.example" in item_to_text(item)


def test_the_public_form_is_rejected_as_a_declaration() -> None:
    with pytest.raises(InvalidRequest, match="Send the complete URL") as caught:
        parse_tools([PUBLIC], Definitions())
    assert caught.value.param == "tools[0].server_url"


def test_a_stored_request_has_neither_items_nor_tools() -> None:
    body = (
        b'{"model": "m", "input": "canary-51c2", "tools": [{"type": "mcp", "server_label": "s", '
        b'"authorization": "canary-51c2"}], "mcp_servers": [{"authorization_token": "canary-51c2"}], '
        b'"unknown": "canary-51c2", "temperature": 0.5, "seed": null, "tool_choice": "required"}'
    )
    stored = without_items(body)
    assert CANARY.encode() not in stored
    again, first = parse_create(stored, input_optional=True), parse_create(body)
    assert (again.params.temperature, again.tool_choice) == (0.5, "required")
    assert again.foreign_params == first.foreign_params == ("mcp_servers",)
