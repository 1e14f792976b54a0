"""Stop sequences of a compatible endpoint, checked. The answer is cut by a stage of the service."""

from collections.abc import Sequence

from antiphon.errors import InvalidRequest

MAX_STOP_CHARACTERS = 512
"""Length of a sequence: every piece of an answer is compared with it."""


def read_stops(given: Sequence[str], param: str, most: int) -> tuple[str, ...]:
    """The sequences of a request; at most `most` of them are accepted."""
    if len(given) > most:
        message = f"'{param}' holds {len(given)} sequences; at most {most} are accepted."
        raise InvalidRequest(message, param=param, code="array_above_max_length")
    if "" in given:
        raise InvalidRequest("A stop sequence must not be empty.", param=param, code="invalid_value")
    if max(map(len, given), default=0) > MAX_STOP_CHARACTERS:
        message = f"A stop sequence has at most {MAX_STOP_CHARACTERS} characters."
        raise InvalidRequest(message, param=param, code="string_above_max_length")
    return tuple(given)
