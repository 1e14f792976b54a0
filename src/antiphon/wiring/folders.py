"""Where things are kept on this machine, and the secret that is made there once."""

import os
import secrets
from pathlib import Path

import platformdirs

from antiphon.errors import SettingsError
from antiphon.settings import Settings

SEAL_KEY_FILE = "seal.key"
STORE_FILE = "antiphon.db"


def data_folder() -> Path:
    """Where what must last is kept."""
    return Path(platformdirs.user_data_dir("antiphon"))


def models_folder() -> Path:
    """Where weights are kept; they can be fetched again."""
    return Path(platformdirs.user_cache_dir("antiphon")) / "models"


def store_path(settings: Settings) -> Path:
    """The file of an SQLite store."""
    given = settings.store.url.removeprefix("sqlite:")
    return Path(given).expanduser() if given else data_folder() / STORE_FILE


def seal_secret(settings: Settings, folder: Path) -> bytes:
    """The configured secret, or one that was made once and is kept in a file that only we can read."""
    if settings.seal.key:
        return settings.seal.key.encode()
    path = folder / SEAL_KEY_FILE
    try:
        return path.read_bytes() if path.exists() else _make_secret(path)
    except OSError as error:
        raise SettingsError(
            f"Cannot keep the sealing key at {path}: {error.strerror}. "
            "Make the folder writable, or set seal.key."
        ) from None


def _make_secret(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.touch(mode=0o600)
    fresh.write_bytes(secrets.token_bytes(32))
    try:
        os.link(fresh, path)  # whoever comes first wins, and nobody reads half a key
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return path.read_bytes()
