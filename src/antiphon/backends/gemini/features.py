"""What a model of this dialect serves."""

from antiphon.backends.features import NATIVE, Feature, Features, Support
from antiphon.backends.gemini.models import Traits

_SUMMARIES = Support("native", "as summaries, when they are asked for: the API shows nothing else")
_DOES_NOT_THINK = Support("unsupported", "the model does not think before it answers")
_CHECKED = "the model is told the grammar; its input is checked, and asked for again"


def gemini_features(traits: Traits) -> Features:
    """Every feature."""
    thinks = traits.thinking is not None
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE,
        "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
        "grammars": Support("emulated", _CHECKED),
        "constrained_text": Support("unsupported", "the API takes no grammars"),
        "parallel_tool_calls": NATIVE,
        "single_tool_calls": Support("unsupported", "the API cannot forbid several calls at once"),
        "tool_choice_required": NATIVE,
        "tool_choice_named": NATIVE,
        "structured_output": NATIVE
        if traits.json_with_tools
        else Support("native", "beside tools it is asked for in the prompt and checked"),
        "json_mode": NATIVE,
        "reasoning": _SUMMARIES if thinks else _DOES_NOT_THINK,
        "reasoning_effort": NATIVE if thinks else _DOES_NOT_THINK,
        "reasoning_replay": NATIVE,
        "images": NATIVE,
        "files": NATIVE,
        "audio": NATIVE,
        "logprobs": NATIVE
        if traits.logprobs
        else Support("unsupported", "the API sends none for models later than 2.5"),
        "prompt_caching": Support("unsupported", "the server caches by itself, and takes no breakpoints"),
    }
    return features
