"""What an endpoint of this dialect serves. Where its models differ, what the newest ones take."""

from antiphon.backends.features import NATIVE, Feature, Features, Support
from antiphon.backends.registry import Quirks


def message_features(quirks: Quirks) -> Features:
    """Every feature."""
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE,
        "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
        "grammars": Support(
            "emulated", "the model is told the grammar; its input is checked, and asked for again"
        ),
        "parallel_tool_calls": NATIVE,
        "tool_choice_required": NATIVE,
        "tool_choice_named": NATIVE,
        "structured_output": NATIVE,
        "json_mode": Support(
            "emulated", "it is asked for in the prompt, checked, and asked for again if need be"
        ),
        "reasoning": NATIVE,
        "reasoning_effort": NATIVE,
        "reasoning_replay": NATIVE,
        "images": NATIVE,
        "files": NATIVE,
        "audio": Support("unsupported", "the API does not take sound"),
        "logprobs": Support("unsupported", "the API does not send them"),
        "prompt_caching": NATIVE
        if quirks.prompt_cache == "automatic"
        else Support("native", "only at the breakpoints that the caller sets"),
    }
    return features
