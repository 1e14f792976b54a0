"""JSON bodies: the repairs that are tried, and the resulting arguments."""

import pytest

from tests.turn.text_calls.feeding import Result, feed_text


def body(text: str) -> Result:
    return feed_text(f"<tool_call>{text}</tool_call>")


@pytest.mark.parametrize(
    ("broken", "arguments"),
    [
        ('{"name":"look","arguments":{"a":1},}', '{"a":1}'),
        ('{"name":"look","arguments":"{}",}', "{}"),
        ('{"name":"look","arguments":{}}>', "{}"),
        ('{"name":"look","arguments":{"a":{}}}}', '{"a":{}}'),
        ('{"name":"look","arguments":{}}]', "{}"),
        ('{"name":"look","arguments":{"a":1} , }  >', '{"a":1}'),
        ('{"name":"look","arguments":{"a":1},}}', '{"a":1}'),
        ('{"name":"look","arguments":{}},]', "{}"),
        ('{"name":"look","arguments":{}}}>', "{}"),
        ('{"name":"look","arguments":{}},', "{}"),
        ('{"name":"look","arguments":{"a":1}},\n', '{"a":1}'),
    ],
)
def test_a_body_is_repaired(broken: str, arguments: str) -> None:
    assert body(broken) == Result("", [("look", arguments)])


@pytest.mark.parametrize(
    ("broken", "arguments"),
    [
        ('{"name":"look","arguments":{"a":[1,2,],"b":{"c":1,},},}', '{"a":[1,2],"b":{"c":1}}'),
        ('{"name":"look","arguments":{"a":",}","b":",]>}",},}', '{"a":",}","b":",]>}"}'),
        ('{"name":"look","arguments":{"a":"\\\\",},}', '{"a":"\\\\"}'),
    ],
)
def test_a_repair_touches_no_string(broken: str, arguments: str) -> None:
    assert body(broken) == Result("", [("look", arguments)])


@pytest.mark.parametrize("end", ["}]", "} ]", "},]", "}}]"])
def test_a_list_is_repaired_at_its_end(end: str) -> None:
    assert feed_text('[TOOL_CALLS][{"name":"look","arguments":{"a":"}}]"}' + end) == Result(
        "", [("look", '{"a":"}}]"}')]
    )


@pytest.mark.parametrize(
    "broken",
    [
        '{"name":"look","arguments":{}}}}',
        '{"name":"look","arguments":{"a":1}',
        '{"name":"look","arguments":{"a":"x\ny"}}',
        '{"name":"look","arguments":{"a":\'x\'}}',
        '{"name":"look",,"arguments":{}}',
        '{"name":"look","arguments":3}',
        '{"name":7,"arguments":{}}',
        '{"name":"look","arguments":{"a":[1}]}}',
        '{"name":"look","arguments":"Paris"}',
        '{"name":"look","arguments":"[1]"}',
        '{"name":"look","arguments":"{broken"}',
        '{"name":"weather","arguments":"Paris"}',
    ],
)
def test_an_unrepairable_body_is_text(broken: str) -> None:
    assert body(broken) == Result(f"<tool_call>{broken}</tool_call>", [])


@pytest.mark.parametrize(
    ("members", "arguments"),
    [
        ('"arguments":{"b": 1.10, "a": [true, null]}', '{"b": 1.10, "a": [true, null]}'),
        ('"arguments":"{\\"a\\": 1}"', '{"a": 1}'),
        ('"arguments":null', "{}"),
        ('"arguments":""', "{}"),
        ('"parameters":{"a":1}', '{"a":1}'),
        ('"id":"x","arguments":{}', "{}"),
        ('"arguments":{"n":12345678901234567890123}', '{"n":12345678901234567890123}'),
    ],
)
def test_arguments_are_json_text_that_is_encoded_once(members: str, arguments: str) -> None:
    assert body(f'{{"name":"look",{members}}}') == Result("", [("look", arguments)])


@pytest.mark.parametrize(
    ("emitted", "arguments"),
    [
        ('"*** Begin\\n"', '{"input":"*** Begin\\n"}'),
        ('"[1]"', '{"input":"[1]"}'),
        ('"{\\"input\\": \\"x\\"}"', '{"input": "x"}'),
        ('{"input":"x"}', '{"input":"x"}'),
        ("null", "{}"),
    ],
)
def test_a_tool_with_only_an_input_parameter_accepts_plain_text(emitted: str, arguments: str) -> None:
    assert body(f'{{"name":"patch","arguments":{emitted}}}') == Result("", [("patch", arguments)])


def test_a_call_without_arguments_has_the_empty_object() -> None:
    assert body('{"name":"look"}') == Result("", [("look", "{}")])


def test_a_missing_quote_affects_only_its_own_call() -> None:
    broken = '<tool_call>{"name":"look","arguments":{"a":"b}}</tool_call>'
    good = '<tool_call>{"name":"look","arguments":{"a":"b"}}</tool_call>'
    assert feed_text(f"{broken}\n{good}") == Result(f"{broken}\n", [("look", '{"a":"b"}')])
    assert feed_text(f"{broken} {good}") == Result(f"{broken} ", [("look", '{"a":"b"}')])


def test_a_body_nested_too_deeply_is_text() -> None:
    text = '<tool_call>{"name":"look","arguments":{"a":' + "[" * 50_000 + "]" * 50_000 + "}}</tool_call>"
    assert feed_text(text) == Result(text, [])
