"""The errors of OpenAI-compatible endpoints."""

import re

from antiphon.backends.openai_errors import CONTEXT_LENGTH, CONTEXT_STATUSES, NO_MODEL, STATUS_OF, read_detail
from antiphon.backends.upstream_errors import ErrorDetail, ErrorTable

_PARAM_OF = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    **{name: name for name in ("model", "temperature", "top_p", "tools", "tool_choice", "top_logprobs")},
}


def _param_of(_status: int, detail: ErrorDetail) -> str | None:
    return _PARAM_OF.get(re.split(r"[.\[]", detail.param)[0])


ERRORS = ErrorTable(
    read=read_detail,
    context_length=CONTEXT_LENGTH,
    context_statuses=CONTEXT_STATUSES,
    no_model=NO_MODEL,
    no_path=re.compile(r"^\W*(?:404)?\W*(?:page )?(?:not found)?\W*$", re.IGNORECASE),
    path="'/chat/completions' and usually ends in '/v1'",
    status_of=STATUS_OF,
    param_of=_param_of,
)
