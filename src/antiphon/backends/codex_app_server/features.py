"""What codex serves as a model."""

from antiphon.backends.features import NATIVE, Features, Support

_ASKED = Support("emulated", "it is asked for in the prompt, checked, and asked for again if need be")
_NO_FIELD = Support("unsupported", "codex has no field for it")

FEATURES: Features = {
    "streaming": NATIVE,
    "usage": NATIVE,
    "function_tools": NATIVE,
    "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
    "grammars": Support(
        "emulated", "the model is told the grammar; its input is checked, and asked for again"
    ),
    "constrained_text": _NO_FIELD,
    "parallel_tool_calls": NATIVE,
    "single_tool_calls": Support("unsupported", "codex has no field that forbids several calls at once"),
    "tool_choice_required": _ASKED,
    "tool_choice_named": _ASKED,
    "structured_output": NATIVE,
    "json_mode": _ASKED,
    "reasoning": NATIVE,
    "reasoning_effort": NATIVE,
    "reasoning_replay": _NO_FIELD,
    "images": NATIVE,
    "files": _NO_FIELD,
    "audio": _NO_FIELD,
    "logprobs": _NO_FIELD,
    "prompt_caching": _NO_FIELD,
}
