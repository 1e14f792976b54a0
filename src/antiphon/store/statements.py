"""The statements of ``sql/queries.sql`` in the dialect of a database.

They are written once, for PostgreSQL: parameters are ``$1``, casts are ``::type``, and ``{now}`` and
``{instant}`` are the database's own clock in seconds since the epoch; `{instant}` is the same throughout a
statement, so that an index can be searched for it. `{json_texts}` makes rows of a JSON array. For SQLite the
few differences are written out here; its clock is `steady_clock.py`. Only the search for words and vectors is
written for each database, in ``sql/sqlite_search.sql`` and ``sql/postgres_search.sql``.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

Dialect = Literal["sqlite", "postgres"]

INDEXED_DIMENSIONS = (384, 512, 768, 1024, 1536)
"""The dimensions of vectors for which PostgreSQL has an index, and a statement that uses it."""

_NOW: Mapping[Dialect, str] = {
    "sqlite": "steady_now()",
    "postgres": "extract(epoch from clock_timestamp())::float8",
}
_INSTANT: Mapping[Dialect, str] = {
    "sqlite": _NOW["sqlite"],
    "postgres": "extract(epoch from statement_timestamp())::float8",
}
_JSON_TEXTS: Mapping[Dialect, str] = {"sqlite": "json_each", "postgres": "jsonb_array_elements_text"}
_ROW_LOCKS = " FOR UPDATE SKIP LOCKED"
"""SQLite needs no row locks: one transaction writes at a time."""
_HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@cache
def load_statements(dialect: Dialect) -> Mapping[str, str]:
    """All statements by their names."""
    folder = files("antiphon.store") / "sql"
    texts = [(folder / name).read_text("utf-8") for name in ("queries.sql", f"{dialect}_search.sql")]
    _, *parts = _HEADER.split("\n".join(texts))
    names, bodies = parts[::2], parts[1::2]
    statements = {name: _translate(body, dialect) for name, body in zip(names, bodies, strict=True)}
    return {name: text for pair in statements.items() for name, text in _with_dimensions(*pair)}


def _with_dimensions(name: str, text: str) -> list[tuple[str, str]]:
    """The statement, or, if it has `{dimensions}`, one for each of `INDEXED_DIMENSIONS`."""
    if "{dimensions}" not in text:
        return [(name, text)]
    return [(f"{name}_{each}", text.replace("{dimensions}", str(each))) for each in INDEXED_DIMENSIONS]


def _translate(body: str, dialect: Dialect) -> str:
    text = _COMMENT.sub("", body).strip().removesuffix(";")
    if dialect == "sqlite":
        text = re.sub(r"::\w+", "", re.sub(r"\$(\d+)", r"?\1", text)).replace(_ROW_LOCKS, "")
        text = text.replace("octet_length(", "length(")  # it has none before 3.43; these are characters
    text = text.replace("{json_texts}", _JSON_TEXTS[dialect])
    return text.replace("{now}", _NOW[dialect]).replace("{instant}", _INSTANT[dialect])
