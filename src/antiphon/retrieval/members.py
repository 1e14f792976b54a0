"""Reading the JSON of a filter: objects with known members in any case, and the full name of every place."""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import cast

from msgspec import Struct

from antiphon.errors import InvalidRequest

Scalar = str | int | float | bool


class Member(Struct, frozen=True):
    """A value, and where it stands: `ragScopeFilter.must[0].match`."""

    place: str
    value: object

    def refused(self, wanted: str) -> InvalidRequest:
        """The error that says what should stand here."""
        return InvalidRequest(f"`{self.place}` must be {wanted}.", param=self.place)

    def members(self, known: Collection[str]) -> dict[str, "Member"]:
        """The members of an object by their plain names. Null is as good as absent."""
        if not isinstance(self.value, Mapping):
            raise self.refused(f"an object with members of: {', '.join(known)}")
        names = {plain(name): name for name in known}
        found: dict[str, Member] = {}
        for key, value in cast("Mapping[object, object]", self.value).items():
            member = Member(f"{self.place}.{key}", value)
            name = names.get(plain(str(key)))
            if name is None:
                raise InvalidRequest(
                    f"`{member.place}` is not known. Known here: {', '.join(known)}.", param=member.place
                )
            if name in found:
                raise InvalidRequest(f"`{member.place}` is there twice.", param=member.place)
            if value is not None:
                found[name] = member
        return found

    def has_one_of(self, names: Iterable[str]) -> bool:
        """Whether it is an object with one of these members."""
        if not isinstance(self.value, Mapping):
            return False
        found = {plain(str(key)) for key in cast("Mapping[object, object]", self.value)}
        return not found.isdisjoint(map(plain, names))

    def elements(self) -> list["Member"]:
        """The elements of an array."""
        if not isinstance(self.value, list | tuple):
            raise self.refused("an array")
        listed = cast("list[object]", self.value)
        return [Member(f"{self.place}[{index}]", value) for index, value in enumerate(listed)]

    def scalar(self) -> Scalar:
        """A string, a number or a truth value."""
        if not isinstance(self.value, str | int | float):  # a bool is an int
            raise self.refused("a string, a number, true or false")
        return self.value

    def scalars(self) -> tuple[Scalar, ...]:
        """An array of them, with at least one."""
        listed = tuple(element.scalar() for element in self.elements())
        if not listed:
            raise self.refused("an array with at least one value")
        return listed

    def text(self) -> str:
        """A string with something in it."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.refused("a string that is not blank")
        return self.value

    def number(self) -> float:
        """A number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.refused("a number")
        return self.value

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.refused("true or false")
        return self.value


@lru_cache(maxsize=1024)
def plain(name: str) -> str:
    """A name without its case: `must_not`, `mustNot` and `MustNot` are one."""
    return name.replace("_", "").lower()
