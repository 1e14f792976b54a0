"""The last expression of code is found without parsing the code."""

import pytest

from antiphon.sandbox.last_value import MAX_CHARACTERS, show_last_value


def ran(code: str) -> list[str]:
    """What the code prints."""
    printed: list[str] = []
    exec(show_last_value(code), {"print": printed.append})
    return printed


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("1 + 1", ["2"]),
        ("x = 1\nx", ["1"]),
        ("x = 1\nx  # the value\n\n# end\n", ["1"]),
        ("max(\n    1,\n    2,\n)\n", ["2"]),
        ("'''a\nb'''", ["'a\\nb'"]),
        ("not 1", ["False"]),
        ("{'a': 1}['a']", ["1"]),
        ("dict(a=1)", ["{'a': 1}"]),
        ("(y := 3)", ["3"]),
        ("x = 5; x", []),
        ("None", []),
        ("x = 1", []),
        ("x: int = 1", []),
        ("x = 1\nx += 1", []),
        ("x = 1\nx <<= 1", []),
        ("x = 1\nx >>= 1", []),
        ("lambda: 1; x = 2", []),
        ("x = '\u2028'; y = '\u0085'\nx + y", ["'\\u2028\\x85'"]),
        ("x = 1  # \f \v \u2028\ny = 2\nx + y", ["3"]),
        ("for n in []:\n    n\n", []),
        ("if True:\n    1", []),
        ("import os", []),
        ("pass", []),
        ("", []),
        ("# nothing", []),
    ],
)
def test_the_last_value_is_printed(code: str, printed: list[str]) -> None:
    assert ran(code) == printed


def test_a_lambda_is_an_expression() -> None:
    assert "lambda" in ran("lambda x: x")[0]
    assert "lambda" in ran("lambda x=1: x")[0]


@pytest.mark.parametrize("code", ["y := 3", "lambda: 1; x", "'" + "\\'" * 100])
def test_what_is_no_expression_stays_as_it_is(code: str) -> None:
    assert show_last_value(code) == code


@pytest.mark.parametrize("code", ["def f(:", "x = (", "'''", "  1\n 2", "@decorated"])
def test_code_that_cannot_be_read_stays_as_it_is(code: str) -> None:
    assert show_last_value(code) == code


def test_very_long_code_stays_as_it_is() -> None:
    assert MAX_CHARACTERS == 10_000
    code = "1\n" * 5_001
    assert show_last_value(code) == code


def test_lines_keep_their_numbers() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        exec(show_last_value("x = 1\n\nx / 0\n"), {})
    assert caught.traceback[-1].lineno == 2
