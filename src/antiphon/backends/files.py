"""Files that a model's server does not take as they are: the service sends their text instead."""

from collections.abc import Callable

from antiphon.errors import Unsupported
from antiphon.protocol.content import InputFile

TEXT_OF_FILES = "the text of files is extracted, and sent instead of them"


class FileNotTaken(Unsupported):
    """This model's server does not take this file."""

    code = "unsupported_content"

    def __init__(self, message: str, *, param: str, takes: Callable[[InputFile], bool] | None = None) -> None:
        super().__init__(message, param=param)
        self.takes: Callable[[InputFile], bool] = takes or (lambda part: False)
        """Whether the server takes a file as it is; without it, the server takes none."""
