"""The statements of ``sql/queries.sql`` in the dialect of a database.

They are written once, for PostgreSQL: parameters are ``$1``, casts are ``::type``, and ``{now}`` and
``{instant}`` are the database's own clock in seconds since the epoch; `{instant}` is the same throughout a
statement, so that an index can be searched for it. For SQLite the few differences are written out here; its
clock is `steady_clock.py`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

Dialect = Literal["sqlite", "postgres"]

_NOW: Mapping[Dialect, str] = {
    "sqlite": "steady_now()",
    "postgres": "extract(epoch from clock_timestamp())::float8",
}
_INSTANT: Mapping[Dialect, str] = {
    "sqlite": _NOW["sqlite"],
    "postgres": "extract(epoch from statement_timestamp())::float8",
}
_ROW_LOCKS = " FOR UPDATE SKIP LOCKED"
"""SQLite needs no row locks: one transaction writes at a time."""
_HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@cache
def load_statements(dialect: Dialect) -> Mapping[str, str]:
    """All statements by their names."""
    text = (files("antiphon.store") / "sql" / "queries.sql").read_text("utf-8")
    _, *parts = _HEADER.split(text)
    names, bodies = parts[::2], parts[1::2]
    return {name: _translate(body, dialect) for name, body in zip(names, bodies, strict=True)}


def _translate(body: str, dialect: Dialect) -> str:
    text = _COMMENT.sub("", body).strip().removesuffix(";")
    if dialect == "sqlite":
        text = re.sub(r"::\w+", "", re.sub(r"\$(\d+)", r"?\1", text)).replace(_ROW_LOCKS, "")
        text = text.replace("octet_length(", "length(")  # it has none before 3.43; these are characters
    return text.replace("{now}", _NOW[dialect]).replace("{instant}", _INSTANT[dialect])
