"""Two distinct features: calling several tools at once, and being limited to one call."""

import pytest

from antiphon.backends.anthropic_messages.client import message_features
from antiphon.backends.anthropic_messages.models import traits_of as claude
from antiphon.backends.codex_app_server.backend import FEATURES as CODEX
from antiphon.backends.features import Features
from antiphon.backends.gemini.client import gemini_features
from antiphon.backends.gemini.models import traits_of as gemini
from antiphon.backends.local.backend import FEATURES as LOCAL
from antiphon.backends.registry import Quirks


@pytest.mark.requirement("PROTOCOL/divergence-parallel")
@pytest.mark.parametrize(
    ("features", "several", "single"),
    [
        pytest.param(message_features(Quirks(), claude("claude-opus-4-6")), "native", "native", id="claude"),
        pytest.param(gemini_features(gemini("gemini-2.5-pro")), "native", "unsupported", id="gemini"),
        pytest.param(CODEX, "native", "unsupported", id="codex"),
        pytest.param(LOCAL, "unsupported", "native", id="local"),
    ],
)
def test_parallel_calls_and_a_limit_of_one_call(features: Features, several: str, single: str) -> None:
    assert (features["parallel_tool_calls"].level, features["single_tool_calls"].level) == (several, single)


def test_only_an_engine_of_ours_holds_text_to_a_grammar_here() -> None:
    assert LOCAL["constrained_text"].level == "native"
    assert CODEX["constrained_text"].level == "unsupported"
