"""What a model of this dialect serves."""

from antiphon.backends.anthropic_messages.models import Traits
from antiphon.backends.features import NATIVE, Feature, Features, Support
from antiphon.backends.registry import Quirks

_ASKED = Support("emulated", "it is asked for in the prompt, checked, and asked for again if need be")
_DOES_NOT_THINK = Support("unsupported", "the model does not think before it answers")


def message_features(quirks: Quirks, traits: Traits) -> Features:
    """Every feature."""
    forced = NATIVE if traits.forced else _ASKED
    thinks = NATIVE if traits.thinking is not None else _DOES_NOT_THINK
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE,
        "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
        "grammars": Support(
            "emulated", "the model is told the grammar; its input is checked, and asked for again"
        ),
        "constrained_text": Support("unsupported", "the API takes no grammars"),
        "parallel_tool_calls": NATIVE,
        "single_tool_calls": NATIVE,
        "tool_choice_required": forced,
        "tool_choice_named": forced,
        "structured_output": NATIVE if traits.schemas else _ASKED,
        "json_mode": _ASKED,
        "reasoning": thinks,
        "reasoning_effort": thinks,
        "reasoning_replay": thinks,
        "images": NATIVE,
        "files": NATIVE,
        "audio": Support("unsupported", "the API does not take sound"),
        "logprobs": Support("unsupported", "the API does not send them"),
        "prompt_caching": NATIVE
        if quirks.prompt_cache == "automatic"
        else Support("native", "only at the breakpoints that the caller sets"),
    }
    return features
