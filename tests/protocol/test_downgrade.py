"""Downgrades as data, and how they are rendered."""

from pathlib import Path
from typing import get_args

import pytest

from antiphon.protocol.downgrade import Downgrade, DowngradeCode, Downgrades, rendered

HTTP_API = Path(__file__).parents[2] / "docs" / "reference" / "http-api.md"
NAMES = {"max_output_tokens": "max_tokens", "reasoning.effort": "output_config.effort"}


def test_a_downgrade_names_its_parameters() -> None:
    one = Downgrade("not_sent", "'{param}' is not sent", ("max_output_tokens",))
    assert one.render() == "'max_output_tokens' is not sent"
    assert one.render(NAMES) == "'max_tokens' is not sent"
    two = Downgrade("not_sent", "not sent: {param}", ("reasoning.effort", "user"))
    assert rendered([one, two], NAMES) == ["'max_tokens' is not sent", "not sent: output_config.effort, user"]


def test_only_fields_are_renamed() -> None:
    """A word in the text that looks like a parameter is not renamed."""
    found = Downgrade("fallback_model", "{param}: 'max_output_tokens' answers", ("model",))
    assert found.render(NAMES) == "model: 'max_output_tokens' answers"


@pytest.mark.parametrize("text", ["{0} {name} {", "'{param}'"])
def test_a_text_without_parameters_is_rendered_as_it_is(text: str) -> None:
    assert Downgrade("emulated", text).render(NAMES) == text


def test_a_downgrade_is_listed_once() -> None:
    found = Downgrades()
    for _ in range(2):
        found.add("not_sent", "a", "x")
        found.add("not_sent", "a", "y")
    assert [(each.text, each.params) for each in found] == [("a", ("x",)), ("a", ("y",))]


def test_every_code_is_documented() -> None:
    text = HTTP_API.read_text(encoding="utf-8")
    table = text.partition("### Downgrades")[2].partition("\n## ")[0]
    documented = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert documented == sorted(get_args(DowngradeCode))
