"""Folders and files on this machine, and the sealing secret in one of them."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

import platformdirs

from antiphon.errors import SettingsError
from antiphon.settings import Settings

SEAL_KEY_FILE = "seal.key"
STORE_FILE = "antiphon.db"
FILES_SUFFIX = "-files"


def data_folder() -> Path:
    """The folder for data that must persist."""
    return Path(platformdirs.user_data_dir("antiphon"))


def models_folder() -> Path:
    """The folder for weights, which can be downloaded again."""
    return Path(platformdirs.user_cache_dir("antiphon")) / "models"


def vectors_path() -> Path:
    """The file with the vectors of the agent's documents, which can be computed again."""
    return Path(platformdirs.user_cache_dir("antiphon")) / "vectors.db"


def store_path(settings: Settings) -> Path:
    """The file of an SQLite store."""
    given = settings.store.url.removeprefix("sqlite:")
    return Path(given).expanduser() if given else data_folder() / STORE_FILE


def files_folder(settings: Settings) -> Path:
    """The folder of files: the configured one, or one beside the file of an SQLite store."""
    given = settings.files.url.removeprefix("file://")
    if given:
        return Path(given).expanduser()
    file = store_path(settings)
    return file.with_name(f"{file.name}{FILES_SUFFIX}")


def seal_secret(settings: Settings, folder: Path) -> bytes:
    """The configured secret; without one, a generated secret in a file with mode 600."""
    if settings.seal.key:
        return settings.seal.key.encode()
    path = folder / SEAL_KEY_FILE
    try:
        if not path.exists():
            return _make_secret(path)
        with suppress(PermissionError):  # it belongs to another user, who lets this one read it
            path.chmod(0o600)
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"Cannot store the sealing key at {path}: {error.strerror}. "
            "Make the folder writable, or set seal.key."
        ) from None


def _make_secret(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.touch(mode=0o600)
    fresh.write_bytes(secrets.token_bytes(32))
    try:
        os.link(fresh, path)  # atomic: the first process wins, and no process reads an incomplete key
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_bytes()
