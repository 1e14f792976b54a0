"""Runs of code as calls of a function: the code, and the output that the model saw."""

import msgspec

from antiphon.protocol.items import FunctionCall, FunctionCallOutput
from antiphon.protocol.stored_items import item_id
from antiphon.protocol.tool_items import CodeInterpreterCall

PYTHON = "python"
"""The name that models know the tool by."""
_LOST = "The output of this run is not available any more. Run the code again if you need it."
_NOTHING = "The code has run, without output."


def show_code_run(
    item: CodeInterpreterCall, name: str, position: int
) -> tuple[FunctionCall, FunctionCallOutput]:
    """A run as a call and its output; `position` is that of the call among the shown items."""
    call_id = item_id(item) or f"call_python_{position}"
    arguments = msgspec.json.encode({"code": item.code if isinstance(item.code, str) else ""}).decode()
    call = FunctionCall(call_id=call_id, name=name, arguments=arguments)
    return call, FunctionCallOutput(call_id=call_id, output=_output(item))


def _output(item: CodeInterpreterCall) -> str:
    if not isinstance(item.outputs, list):
        return _LOST
    logs = [str(output["logs"]) for output in item.outputs if output.get("logs")]
    return "\n".join(logs) or _NOTHING
