"""Migrations: numbered files that bring a database from any earlier version to this one.

A released file is never changed. Its checksum is recorded when it is applied; a database with another
checksum or a later file is rejected.
"""

import hashlib
from collections.abc import Sequence
from importlib.resources import files

from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.store.statements import Dialect


class Migration(Struct, frozen=True):
    """One step: its number, its name, its statements and the SHA-256 of them."""

    version: int
    name: str
    sql: str
    checksum: str


def load_migrations(dialect: Dialect) -> list[Migration]:
    """All known migrations, in order: the files ``sql/DIALECT/NNNN_name.sql``."""
    folder = files("antiphon.store") / "sql" / dialect
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".sql")), key=lambda it: it.name)
    return [_migration(path.name, path.read_text("utf-8")) for path in paths]


def _migration(file_name: str, sql: str) -> Migration:
    number, _, name = file_name.removesuffix(".sql").partition("_")
    return Migration(int(number), name, sql, hashlib.sha256(sql.encode()).hexdigest())


def pending(known: Sequence[Migration], applied: Sequence[tuple[int, str]]) -> list[Migration]:
    """The migrations to apply; `applied` holds the versions and checksums of the others."""
    by_version = {migration.version: migration for migration in known}
    for version, checksum in applied:
        if version not in by_version:
            raise SettingsError(
                f"The database has version {version}, but this Antiphon supports versions up to "
                f"{max(by_version, default=0)} only. Use the newer Antiphon, or another database."
            )
        if by_version[version].checksum != checksum:
            raise SettingsError(
                f"Version {version} of the database was made by another version of "
                f"{version:04}_{by_version[version].name}.sql than this Antiphon has. Install an unaltered "
                "Antiphon, or use another database."
            )
    done = {version for version, _ in applied}
    return [migration for migration in known if migration.version not in done]
