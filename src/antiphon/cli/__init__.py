"""The command line: one file per command."""

from antiphon.cli.root import main

__all__ = ["main"]
