"""Files that a model's server does not take as they are: the service sends their text or content instead."""

from collections.abc import Callable

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import InputFile, InputImage

TEXT_OF_FILES = "the text of files is extracted, and sent instead of them"


class FileNotTaken(Unsupported):
    """This model's server does not take this file, or does not have it: it is stored here."""

    code = "unsupported_content"

    def __init__(
        self,
        message: str,
        *,
        param: str,
        takes: Callable[[InputFile], bool] | None = None,
        stores_files: bool = False,
    ) -> None:
        super().__init__(message, param=param)
        self.takes: Callable[[InputFile], bool] = takes or (lambda part: False)
        """Whether the server takes a file as it is; without it, the server takes none."""
        self.stores_files = stores_files
        """Whether the server has files of its own, with other ids than ours."""


def no_content(
    part: InputFile | InputImage, path: str, takes: Callable[[InputFile], bool] | None = None
) -> InvalidRequest:
    """The error for a part without content: it names a stored file, or nothing."""
    member = "image_url" if isinstance(part, InputImage) else "file_data"
    if part.file_id is None:
        message = f"Missing required parameter: '{path}.{member}'."
        return InvalidRequest(message, param=f"{path}.{member}", code="missing_required_parameter")
    message = f"This model's server has no file '{part.file_id}'. Send the content itself in '{member}'."
    return FileNotTaken(message, param=f"{path}.file_id", takes=takes)
