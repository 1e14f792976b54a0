"""Query parameters: the error for an invalid value names the parameter, unknown parameters are ignored."""

from typing import Literal, get_args
from urllib.parse import parse_qsl

from antiphon.errors import InvalidRequest
from antiphon.protocol.requests import Includable
from antiphon.store.base import Page

MAX_PARAMETERS = 100
MAX_LIMIT = 100
_INCLUDABLE = frozenset(get_args(Includable))
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class Query:
    """The parameters of one request."""

    def __init__(self, raw: bytes) -> None:
        try:
            pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
        except ValueError:
            message = f"The URL has more than {MAX_PARAMETERS} query parameters."
            raise InvalidRequest(message, code="invalid_query") from None
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.removesuffix("[]"), []).append(value)

    def text(self, name: str) -> str | None:
        """A parameter as it is; None if it is not there."""
        values = self._values.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise _refusal(name, f"'{name}' is given {len(values)} times; send it once.")
        return values[0]

    def flag(self, name: str) -> bool:
        """A boolean; false if it is not there."""
        value = self.text(name)
        if value is None:
            return False
        if value.lower() not in _FLAGS:
            raise _refusal(name, f"Invalid value for '{name}': '{value[:100]}'; use true or false.")
        return _FLAGS[value.lower()]

    def number(self, name: str, *, least: int, most: int | None = None) -> int | None:
        """An integer within bounds; None if it is not there."""
        value = self.text(name)
        if value is None:
            return None
        number = int(value) if value.isascii() and value.isdigit() and len(value) <= 18 else least - 1
        if number < least or (most is not None and number > most):
            bounds = f"from {least} to {most}" if most is not None else f"of at least {least}"
            raise _refusal(name, f"Invalid value for '{name}': '{value[:100]}'; use an integer {bounds}.")
        return number

    def check_include(self) -> None:
        """Reject unknown values of `include`. Known ones have no effect: the stored response contains what
        was requested."""
        for value in self._values.get("include", ()):
            if value not in _INCLUDABLE:
                known = ", ".join(f"'{name}'" for name in sorted(_INCLUDABLE))
                raise _refusal(
                    "include", f"Invalid value for 'include': '{value[:100]}'; use one of {known}."
                )

    def page(self) -> Page:
        """The requested part of a list."""
        self.check_include()
        limit = self.number("limit", least=1, most=MAX_LIMIT)
        return Page(
            after=self.text("after"),
            before=self.text("before"),
            limit=Page().limit if limit is None else limit,
            order=self.order(),
        )

    def order(self) -> Literal["asc", "desc"]:
        """The order of a list; newest first if it is not there."""
        order = self.text("order") or "desc"
        if order not in ("asc", "desc"):
            raise _refusal("order", f"Invalid value for 'order': '{order[:100]}'; use 'asc' or 'desc'.")
        return order


def _refusal(name: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, param=name, code="invalid_value")
