"""What an endpoint of this dialect serves, as its row has it."""

from antiphon.backends.features import NATIVE, Feature, Features, Support
from antiphon.backends.registry import Endpoint

_PASSED = Support("native", "as far as the model behind that server has it")


def response_features(endpoint: Endpoint) -> Features:
    """Every feature, for an endpoint with these quirks."""
    quirks, custom = endpoint.quirks, "custom" in endpoint.natives
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE,
        "custom_tools": NATIVE
        if custom
        else Support("emulated", "shown to the model as functions with one text parameter"),
        "grammars": NATIVE
        if custom
        else Support("emulated", "the model is told the grammar; its input is checked, and asked for again"),
        "constrained_text": Support("unsupported", "the dialect has no field for it"),
        "parallel_tool_calls": NATIVE,
        "single_tool_calls": NATIVE,
        "tool_choice_required": NATIVE,
        "tool_choice_named": NATIVE
        if quirks.tool_choice == "named"
        else Support("emulated", "no other tool is shown"),
        "structured_output": NATIVE,
        "json_mode": NATIVE,
        "reasoning": NATIVE,
        "reasoning_effort": NATIVE,
        "reasoning_replay": NATIVE,
        "images": _PASSED,
        "files": _PASSED if quirks.files else Support("unsupported", "the server does not take files"),
        "audio": _PASSED if quirks.audio else Support("unsupported", "the server does not take sound"),
        "logprobs": _PASSED,
        "prompt_caching": NATIVE
        if quirks.prompt_cache
        else Support("unsupported", "breakpoints may not be understood"),
    }
    return features
