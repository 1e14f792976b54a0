"""Requests from Python values, for callers in the same process."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.errors import InvalidRequest
from antiphon.protocol.parse_create import create_from, parse_create


def test_python_values_are_parsed_like_json() -> None:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    params: dict[str, Any] = {
        "model": "m",
        "input": ({"role": "user", "content": "hi"},),
        "tools": [{"type": "function", "name": "f", "parameters": parameters}],
        "temperature": 1,
        "metadata": {"a": "b"},
    }
    parsed = parse_create(msgspec.json.encode(params))
    assert create_from(**params) == replace(parsed, input_bytes=0)


def test_python_values_are_copied() -> None:
    content = [{"type": "input_text", "text": "hi"}]
    request = create_from(model="m", input=[{"role": "user", "content": content}])
    before = msgspec.json.encode(request.items)
    content[0]["text"] = "changed"
    assert msgspec.json.encode(request.items) == before


def test_python_values_are_checked_by_name() -> None:
    for params, param in (
        ({"input": "hi", "temperature": "warm"}, "temperature"),
        ({"input": "hi", "temperature": float("nan")}, "temperature"),
        ({"input": ("hi",)}, "input[0]"),
        ({}, "input"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            create_from(model="m", **params)
        assert caught.value.param == param
