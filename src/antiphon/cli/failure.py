"""How a command fails: one red line on standard error, and an exit code."""

from typing import IO, Any

import click

from antiphon.cli.terminal import errors
from antiphon.errors import AntiphonError, RequestError, SettingsError

FAILED = 1
USAGE = 2
INCOMPLETE = 3
INTERRUPTED = 130


class Failure(click.ClickException):
    """The command failed."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        print_error(self.message)


class WrongUsage(Failure):
    """The options, the input or the configuration must be changed before the command can succeed."""

    exit_code = USAGE


def failure_of(error: AntiphonError | OSError) -> Failure:
    """The failure with which a command reports this error."""
    if isinstance(error, RequestError | SettingsError):
        return WrongUsage(error.message)
    if isinstance(error, AntiphonError):
        return Failure(error.message)
    where = f" ({error.filename})" if error.filename else ""
    return Failure(f"{error.strerror or error}{where}.")


def print_error(message: str) -> None:
    """Print one red line. It is not wrapped, so that it stays one line in a pipe."""
    errors().print(f"Error: {message}", style="red", markup=False, soft_wrap=True)
