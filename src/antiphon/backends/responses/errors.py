"""The errors of other servers of the Responses API."""

import re

from antiphon.backends.openai_errors import CONTEXT_LENGTH, CONTEXT_STATUSES, NO_MODEL, STATUS_OF, read_detail
from antiphon.backends.upstream_errors import ErrorDetail, ErrorTable
from antiphon.protocol.requests import CreateBody

_PARAMS = {"input", "tools", "tool_choice", *CreateBody.__struct_fields__}


def _param_of(_status: int, detail: ErrorDetail) -> str | None:
    # Positions in `input` are those of the complete history, not of what the caller has sent.
    param = re.split(r"[.\[]", detail.param)[0]
    return param if param in _PARAMS else None


ERRORS = ErrorTable(
    read=read_detail,
    context_length=CONTEXT_LENGTH,
    context_statuses=CONTEXT_STATUSES,
    no_model=NO_MODEL,
    no_path=re.compile(""),
    path="'/responses'; not every server has that",
    status_of=STATUS_OF,
    param_of=_param_of,
)
