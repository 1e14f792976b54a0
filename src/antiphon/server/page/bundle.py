"""The files of the page, as the build has written them: `index.html`, hashed files in `assets/`, and each
file compressed beside it.

All are read once, at the start; a request names a key of a dictionary, never a path of the file system.
"""

from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from msgspec import Struct

MEDIA_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "map": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
}
_ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""By preference. A compressed file is beside the file itself, with this ending."""
NOT_BUILT = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Antiphon</title></head>
<body><h1>Antiphon</h1>
<p>This server runs. Its page was not built: run <code>make web</code> in the source tree,
then restart the server.</p>
<p>The API is at <code>/v1</code>.</p></body></html>
"""


class EncodedFile(NamedTuple):
    """The bytes of a file, and how they are encoded."""

    body: bytes
    encoding: str | None = None


class PageFile(Struct, frozen=True):
    """One file of the page in all its encodings; the first one is preferred, the last one is plain."""

    media_type: str
    encoded: tuple[EncodedFile, ...]

    def best(self, accept_encoding: str) -> EncodedFile:
        """The encoding that a client with this header is sent."""
        accepted = _accepted(accept_encoding)
        return next(
            (each for each in self.encoded if each.encoding is None or each.encoding in accepted),
            self.encoded[-1],
        )


class Bundle(Struct, frozen=True):
    """The document, and the other files by their names."""

    index: PageFile
    assets: Mapping[str, PageFile]


def load_bundle(folder: Traversable | None = None) -> Bundle:
    """The files of the page; a note how to build it if it was not built."""
    folder = files("antiphon.server.page") / "bundle" if folder is None else folder
    index, assets = folder / "index.html", folder / "assets"
    if not index.is_file():
        return Bundle(PageFile(MEDIA_TYPES["html"], (EncodedFile(NOT_BUILT),)), {})
    return Bundle(_file(folder, "index.html"), _files(assets) if assets.is_dir() else {})


def _files(folder: Traversable) -> dict[str, PageFile]:
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    return {name: _file(folder, name) for name in names if not name.endswith(tuple(_ENCODINGS.values()))}


def _file(folder: Traversable, name: str) -> PageFile:
    compressed = ((encoding, folder / f"{name}{ending}") for encoding, ending in _ENCODINGS.items())
    encoded = [EncodedFile(path.read_bytes(), encoding) for encoding, path in compressed if path.is_file()]
    encoded.append(EncodedFile((folder / name).read_bytes()))
    media_type = MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return PageFile(media_type, tuple(encoded))


def _accepted(header: str) -> frozenset[str]:
    """The encodings in an `Accept-Encoding` that are not excluded by a quality of 0."""
    found: set[str] = set()
    for part in header.split(","):
        name, _, parameter = part.partition(";")
        quality = parameter.strip().lower().removeprefix("q=").strip()
        if quality.strip("0.") or not quality:
            found.add(name.strip().lower())
    return frozenset(found)
