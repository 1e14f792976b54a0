"""`require_approval` and `allowed_tools` in all their forms."""

import pytest

from antiphon.errors import InvalidRequest
from antiphon.mcp.approval import allowed, parse_allowed_tools, parse_require_approval
from antiphon.mcp.port import McpTool

READ = McpTool("read", {}, read_only=True)
WRITE = McpTool("write", {})
TOOLS = (READ, WRITE)


NONE: set[str] = set()
APPROVALS: list[tuple[object, set[str]]] = [
    (None, {"read", "write"}),
    ("always", {"read", "write"}),
    ("never", NONE),
    ({}, {"read", "write"}),
    ({"never": None, "always": None}, {"read", "write"}),
    ({"never": {"tool_names": ["read"]}}, {"write"}),
    ({"never": {"tool_names": ["read", "write"]}}, NONE),
    ({"never": {"tool_names": []}}, {"read", "write"}),
    ({"never": {"read_only": True}}, {"write"}),
    ({"never": {"read_only": False}}, {"read"}),
    ({"never": {}}, {"read", "write"}),
    ({"never": {"tool_names": ["write"], "read_only": True}}, {"read", "write"}),
    ({"always": {"tool_names": ["write"]}}, {"read", "write"}),
    ({"always": {"tool_names": ["write"]}, "never": {"tool_names": ["read", "write"]}}, {"write"}),
    ({"always": {}, "never": {"read_only": True}}, {"write"}),
    ({"always": {"read_only": True}, "never": {"tool_names": ["read", "write"]}}, {"read"}),
]


@pytest.mark.parametrize(("value", "asked"), APPROVALS)
def test_calls_that_need_an_approval(value: object, asked: set[str]) -> None:
    policy = parse_require_approval(value, "tools[0].require_approval")
    assert {tool.name for tool in TOOLS if policy.needs_approval(tool)} == asked


ALLOWED: list[tuple[object, set[str]]] = [
    (None, {"read", "write"}),
    ({}, {"read", "write"}),
    ([], NONE),
    (["write", "other"], {"write"}),
    ({"tool_names": ["read"]}, {"read"}),
    ({"read_only": True}, {"read"}),
    ({"read_only": False}, {"write"}),
    ({"tool_names": ["write"], "read_only": True}, NONE),
    ({"tool_names": None, "read_only": None}, {"read", "write"}),
]


@pytest.mark.parametrize(("value", "names"), ALLOWED)
def test_tools_that_are_allowed(value: object, names: set[str]) -> None:
    found = allowed(TOOLS, parse_allowed_tools(value, "tools[0].allowed_tools"))
    assert {tool.name for tool in found} == names


@pytest.mark.parametrize(
    "value",
    ["sometimes", 3, True, [], {"ask": {}}, {"never": ["read"]}, {"never": {"tool_names": "read"}},
     {"never": {"names": []}}, {"always": {"read_only": "yes"}}],
)  # fmt: skip
def test_other_forms_of_approval_are_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="must be 'always', 'never', or an object") as caught:
        parse_require_approval(value, "tools[0].require_approval")
    assert caught.value.param == "tools[0].require_approval"


@pytest.mark.parametrize("value", ["read", 3, [3], {"names": []}, {"tool_names": "read"}, {"read_only": 1}])
def test_other_forms_of_allowed_tools_are_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="must be a list of names, or an object") as caught:
        parse_allowed_tools(value, "tools[0].allowed_tools")
    assert caught.value.param == "tools[0].allowed_tools"


def test_filters_are_bounded() -> None:
    names = [str(number) for number in range(1001)]
    with pytest.raises(InvalidRequest, match="at most 1000 names"):
        parse_allowed_tools(names, "tools[0].allowed_tools")
    with pytest.raises(InvalidRequest, match="at most 1000 names"):
        parse_require_approval({"never": {"tool_names": names}}, "tools[0].require_approval")
