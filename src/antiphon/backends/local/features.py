"""What the embedded model serves: whatever its engine can hold it to."""

from antiphon.backends.features import NATIVE, Features, Support

_CONSTRAINED = Support("emulated", "the model chooses a tool, and writes the arguments by their schema")
_NOT_THIS_MODEL = Support("unsupported", "the embedded model knows text only")

FEATURES: Features = {
    "streaming": NATIVE,
    "usage": NATIVE,
    "function_tools": _CONSTRAINED,
    "custom_tools": Support("emulated", "shown to the model as functions with one text parameter"),
    "grammars": NATIVE,
    "constrained_text": NATIVE,
    "parallel_tool_calls": Support("unsupported", "the model calls one tool at a time"),
    "single_tool_calls": NATIVE,
    "tool_choice_required": _CONSTRAINED,
    "tool_choice_named": _CONSTRAINED,
    "structured_output": NATIVE,
    "json_mode": NATIVE,
    "reasoning": Support("unsupported", "the embedded model does not reason"),
    "reasoning_effort": Support("unsupported", "the embedded model does not reason"),
    "reasoning_replay": Support("unsupported", "the embedded model does not reason"),
    "images": _NOT_THIS_MODEL,
    "files": _NOT_THIS_MODEL,
    "audio": _NOT_THIS_MODEL,
    "logprobs": NATIVE,
    "prompt_caching": Support("unsupported", "its engine keeps the beginning of a prompt by itself"),
}
