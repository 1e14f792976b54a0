"""The body of `POST /v1/embeddings`."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.embeddings import EmbeddingsRequest, parse_embeddings


def parse(**members: Any) -> EmbeddingsRequest:
    return parse_embeddings(msgspec.json.encode({"model": "m", **members}))


@pytest.mark.parametrize(
    ("sent", "inputs"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        (["x"] * 2048, ["x"] * 2048),
        ([0] * 8192, [[0] * 8192]),
    ],
)
def test_texts_and_token_ids(sent: object, inputs: object) -> None:
    assert parse(input=sent).inputs == inputs


def test_members_and_their_defaults() -> None:
    assert parse(input="a") == EmbeddingsRequest("m", ["a"], "float", None)
    sent = parse(input="a", encoding_format="base64", dimensions=256, user="u", unknown=1)
    assert sent == EmbeddingsRequest("m", ["a"], "base64", 256)
    assert parse(input="a", encoding_format=None, dimensions=None, user=None) == parse(input="a")


@pytest.mark.parametrize(
    ("members", "param", "code"),
    [
        ({"input": ""}, "input", "empty_string"),
        ({"input": []}, "input", "empty_array"),
        ({"input": ["a", ""]}, "input[1]", "empty_string"),
        ({"input": [[1], []]}, "input[1]", "empty_array"),
        ({"input": ["a"] * 2049}, "input", "array_above_max_length"),
        ({"input": [[1]] * 2049}, "input", "array_above_max_length"),
        ({"input": [0] * 8193}, "input", "context_length_exceeded"),
        ({"input": [[1], [0] * 8193]}, "input[1]", "context_length_exceeded"),
        ({"input": None}, "input", "invalid_type"),
        ({"input": {"text": "a"}}, "input", "invalid_type"),
        ({"input": 1}, "input", "invalid_type"),
        ({"input": ["a", 1]}, "input[1]", "invalid_type"),
        ({"input": [1, "a"]}, "input[1]", "invalid_type"),
        ({"input": [True]}, "input[0]", "invalid_type"),
        ({"input": [1, 1.5]}, "input[1]", "invalid_type"),
        ({"input": [[1], "a"]}, "input[1]", "invalid_type"),
        ({"input": [None]}, "input[0]", "invalid_type"),
        ({"input": [-1]}, "input[0]", "invalid_value"),
        ({"input": [[2**31]]}, "input[0][0]", "invalid_value"),
        ({"input": "a", "dimensions": 0}, "dimensions", "invalid_value"),
        ({"input": "a", "dimensions": "x"}, "dimensions", "invalid_type"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format", "invalid_value"),
        ({"input": "a", "model": 1}, "model", "invalid_type"),
        ({}, "input", "missing_required_parameter"),
    ],
)
def test_bad_input_names_the_parameter(members: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**members)
    assert (caught.value.param, caught.value.code) == (param, code)


def test_a_request_without_a_model_says_so() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_embeddings(b'{"input": "a"}')
    assert caught.value.param == "model"
