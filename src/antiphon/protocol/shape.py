"""The form of a response on the wire. The object in memory is always the same; a profile changes its JSON."""

from typing import Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from antiphon.errors import AntiphonError, BackendError
from antiphon.protocol.events import (
    Event,
    ResponseCompleted,
    ResponseCreated,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInProgress,
    ResponseQueued,
)
from antiphon.protocol.items import is_for_client
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.protocol.requests import StreamOptions
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Response, Usage

FinishWord = Literal["stop", "tool_calls", "length", "content_filter", "error", "cancelled"]

NO_USAGE = Usage(0, InputTokensDetails(), 0, OutputTokensDetails(), 0)
WITH_RESPONSE = (
    ResponseCreated,
    ResponseInProgress,
    ResponseCompleted,
    ResponseIncomplete,
    ResponseFailed,
    ResponseQueued,
)

_encode = msgspec.json.encode


class Shape:
    """Encodes responses and events in the form of one profile. `stream`: the options of the stream."""

    __slots__ = ("_includes_usage", "_profile", "plain")

    def __init__(self, profile: Profile = OPENAI, stream: StreamOptions | None = None) -> None:
        self._profile = profile
        self._includes_usage = profile.usage != "absent" or stream is None or stream.include_usage is True
        self.plain = (
            not profile.created
            and profile.usage == "null"
            and profile.finish_reason != "body"
            and profile.truncated == "incomplete"
        )
        """Whether the profile changes nothing."""

    def encode(self, response: Response) -> bytes:
        """A response as JSON."""
        return _encode(response if self.plain else self._changed(response))

    def shaped(self, response: Response) -> Response:
        """A response whose JSON has this form."""
        return response if self.plain else self._changed(response)

    def encode_event(self, event: Event) -> tuple[str, bytes]:
        """An event as JSON, and its type."""
        if not self.plain and isinstance(event, WITH_RESPONSE):
            if self._profile.truncated == "completed" and isinstance(event, ResponseIncomplete):
                event = ResponseCompleted(event.sequence_number, event.response)
            event = replace(event, response=self._changed(event.response))
        return str(event.__struct_config__.tag), _encode(event)

    def _changed(self, response: Response) -> Response:
        profile, changes = self._profile, dict[str, object]()
        if profile.created:
            changes["created"] = response.created_at
        if profile.usage == "zeros":
            changes["usage"] = response.usage or NO_USAGE
        elif profile.usage == "absent" and (response.usage is None or not self._includes_usage):
            changes["usage"] = UNSET  # msgspec omits UNSET for every type
        if profile.finish_reason == "body" and (reason := finish_reason(response)) is not None:
            changes["debug"] = {"finish_reason": reason}
        return replace(response, **changes)


def finish_reason(response: Response) -> FinishWord | None:
    """The finish reason of a response, as chat completions name it; None while it is unfinished."""
    match response.status:
        case "completed":
            called = any(is_for_client(item) for item in response.output)
            return "tool_calls" if called else "stop"
        case "incomplete":
            details = response.incomplete_details
            return "content_filter" if details and details.reason == "content_filter" else "length"
        case "failed":
            return "error"
        case "cancelled":
            return "cancelled"
        case "queued" | "in_progress":
            return None


def error_wire(error: AntiphonError, profile: Profile) -> tuple[int, dict[str, str | None]]:
    """The status and the error object of the profile."""
    wire = error.to_wire()
    hidden = isinstance(error, BackendError) or type(error) is AntiphonError
    if profile.server_errors == "internal" and error.status >= 500 and hidden:
        return 500, {**wire, "type": "internal_error"}
    return error.status, wire
