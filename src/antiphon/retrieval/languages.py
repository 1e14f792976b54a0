"""The language of a file, by the end of its name."""

from pathlib import PurePosixPath

PLAIN = "plaintext"

_BY_EXTENSION = {
    ".cs": "csharp",
    ".css": "scss",
    ".go": "go",
    ".htm": "html",
    ".html": "html",
    ".java": "java",
    ".js": "javascript",
    ".json": "json",
    ".markdown": "markdown",
    ".md": "markdown",
    ".py": "python",
    ".pyi": "python",
    ".rs": "rust",
    ".scss": "scss",
    ".sh": "shell",
    ".sql": "sql",
    ".toml": "toml",
    ".ts": "typescript",
    ".tsx": "tsx",
    ".xml": "xml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


def language_of(path: str) -> str:
    """Its name as it stands after a fence; `plaintext` if it is not known."""
    return _BY_EXTENSION.get(PurePosixPath(path).suffix.lower(), PLAIN)
