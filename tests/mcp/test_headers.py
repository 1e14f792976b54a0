"""Values of headers, as the official SDK reads them; and arguments that are repeated as headers."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import decode_header_value, mcp_param_headers, x_mcp_header_map

from antiphon.mcp.eras import header_value
from antiphon.mcp.listing import ListReader, param_headers
from antiphon.mcp.port import McpTool

PROPERTIES = {
    "region": {"type": "string", "x-mcp-header": "Region"},
    "page": {"type": "object", "properties": {"size": {"type": "integer", "x-mcp-header": "Page-Size"}}},
    "dry": {"type": "boolean", "x-mcp-header": "Dry"},
    "plain": {"type": "string"},
}
BAD = {"bad": {"type": "string", "x-mcp-header": "not a token"}}
SCHEMA = {"type": "object", "properties": PROPERTIES}


def tool_of(schema: object) -> McpTool:
    reader = ListReader("x")
    reader.add(msgspec.Raw(msgspec.json.encode({"tools": [{"name": "a", "inputSchema": schema}]})))
    return reader.finish().tools[0]


@given(st.one_of(st.text(), st.sampled_from(["=?base64?YQ==?=", " a", "a ", "a\tb", "ü", "a\r\nb: c", ""])))
def test_a_value_survives(text: str) -> None:
    value = header_value(text)
    assert value.isascii()
    assert "\r" not in value
    assert "\n" not in value
    assert decode_header_value(value) == text


def test_arguments_are_repeated_as_the_sdk_does() -> None:
    arguments = {"region": "Süd", "page": {"size": 3}, "dry": True, "plain": "x"}
    found = param_headers(tool_of({**SCHEMA, "properties": {**PROPERTIES, **BAD}}), arguments)
    expected = mcp_param_headers(x_mcp_header_map(SCHEMA), arguments)
    assert {name.lower(): value for name, value in found.items()} == {
        name.lower(): value for name, value in expected.items()
    }
    assert len(found) == 3


def test_arguments_that_are_absent_or_no_scalars_are_not_repeated() -> None:
    assert param_headers(tool_of(SCHEMA), {"region": None, "page": [1], "dry": {}}) == {}


def test_a_schema_without_end_is_read_to_a_limit() -> None:
    schema: dict[str, object] = {"x-mcp-header": "Deep"}
    for _ in range(50):
        schema = {"type": "object", "properties": {"a": schema}}
    assert tool_of(schema).param_headers == {}
