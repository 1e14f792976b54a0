"""Parameters of other APIs: a request for another endpoint is rejected, with the name of that endpoint."""

from collections.abc import Iterable, Mapping

from antiphon.errors import InvalidRequest
from antiphon.protocol.downgrade import Downgrade

CHAT = "POST /v1/chat/completions"
MESSAGES = "POST /v1/messages"
RESPONSES = "POST /v1/responses"

RESPONSES_ONLY = (
    "input",
    "instructions",
    "previous_response_id",
    "conversation",
    "max_output_tokens",
    "max_tool_calls",
    "background",
    "truncation",
    "include",
    "text",
    "prompt",
)
MESSAGES_ONLY = (
    "system",
    "stop_sequences",
    "anthropic_version",
    "output_config",
    "output_format",
    "mcp_servers",
    "container",
)
CHAT_ONLY = (
    "modalities",
    "audio",
    "prediction",
    "verbosity",
    "web_search_options",
    "top_logprobs",
    "max_completion_tokens",
    "response_format",
    "functions",
    "function_call",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "n",
    "parallel_tool_calls",
    "reasoning_effort",
    "seed",
    "stop",
    "stream_options",
)


def refuse_foreign_params(given: Iterable[str], here: str, foreign: Mapping[str, Iterable[str]]) -> None:
    """Refuse a body with a parameter of another endpoint. `foreign`: endpoints and their parameters."""
    members = frozenset(given)
    for endpoint, names in foreign.items():
        for name in names:
            if name in members:
                message = (
                    f"'{name}' is a parameter of {endpoint}, and this is {here}. Send the request there."
                )
                raise InvalidRequest(message, param=name, code="wrong_endpoint")


def unused_params(given: Iterable[str], known: frozenset[str]) -> tuple[Downgrade, ...]:
    """The downgrade for members that nothing here reads."""
    unused = sorted(set(given) - known)
    return (not_used(*unused),) if unused else ()


def not_used(*params: str) -> Downgrade:
    """The downgrade for parameters without effect."""
    return Downgrade("not_used", "not used here: {param}", params)
