"""What of a turn a dialect emulates or leaves out."""


class Notes(list[str]):
    """Downgrades, each said once."""

    def add(self, note: str) -> None:
        """Remember it, unless it was said already."""
        if note not in self:
            self.append(note)
