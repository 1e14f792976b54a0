"""What an endpoint of this dialect serves. Where its models differ, what the newest ones take."""

from antiphon.backends.features import NATIVE, Feature, Features, Support

_CHECKED = "the model is told the grammar; its input is checked, and asked for again"


def gemini_features() -> Features:
    """Every feature."""
    features: dict[Feature, Support] = {
        "streaming": NATIVE,
        "usage": NATIVE,
        "function_tools": NATIVE,
        "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
        "grammars": Support("emulated", _CHECKED),
        "parallel_tool_calls": Support("unsupported", "the API cannot forbid several calls at once"),
        "tool_choice_required": NATIVE,
        "tool_choice_named": NATIVE,
        "structured_output": NATIVE,
        "json_mode": NATIVE,
        "reasoning": Support("native", "as summaries, when they are asked for: the API shows nothing else"),
        "reasoning_effort": NATIVE,
        "reasoning_replay": NATIVE,
        "images": NATIVE,
        "files": NATIVE,
        "audio": NATIVE,
        "logprobs": Support("unsupported", "the API sends none for models later than 2.5"),
        "prompt_caching": Support("unsupported", "the server caches by itself, and takes no breakpoints"),
    }
    return features
