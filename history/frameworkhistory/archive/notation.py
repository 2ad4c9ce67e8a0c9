"""How a version of the tables is written down, and made by SQLAlchemy Core, for SQLite and PostgreSQL alike."""

import zlib
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Column, Dialect, ForeignKey, Index, MetaData, Table, types


class Words(types.TypeDecorator[str]):
    """Text that no value can break: of at most so many characters, without NUL, which PostgreSQL does not store.

    Both databases compare it by code points, so that an index serves the search for a beginning.
    """

    impl = types.Text
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__()
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> Any:  # noqa: D102 -- SQLAlchemy's
        kind = types.Text if self.length is None else types.String
        return kind(self.length, collation="C" if dialect.name == "postgresql" else None)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002, D102 -- SQLAlchemy's
        return None if value is None else value[: self.length].replace("\0", "\N{REPLACEMENT CHARACTER}")


class Document(types.TypeDecorator[bytes]):
    """Bytes that the database has compressed by zlib, and a program plain."""

    impl = types.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002, D102 -- SQLAlchemy's
        return None if value is None else zlib.compress(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002, D102 -- SQLAlchemy's
        return None if value is None else zlib.decompress(value)


# SQLite gives out numbers for this type alone.
_NUMBER: Final = types.BigInteger().with_variant(types.Integer, "sqlite")
_KINDS: Final[dict[str, tuple[Any, object]]] = {
    "id": (_NUMBER, None),
    "framework": (_NUMBER, None),
    "int": (types.Integer, 0),
    "big": (types.BigInteger, 0),
    "double": (types.Double, 0.0),
    "boolean": (types.Boolean, True),
    "text": (Words(), ""),
    "document": (Document, None),
}
"""The types of columns, and what a row has there that does not name them."""


def metadata(tables: Mapping[str, str], indices: Mapping[str, str]) -> MetaData:
    """Return tables that are written down as `name:kind` for each column, and indices that are columns.

    A kind that is a number is the length of a text. After a name, `!` says that the column is part of the primary key,
    `^` that it is unique, `?` that it may be NULL, and `=` that a row need not name it. An index has the name of its
    table before the first `_`.
    """
    made = MetaData()
    for name, columns in tables.items():
        # SQLite stores small rows in the order of their keys, and not a second time.
        is_small = not any(mark in columns for mark in ("id!:id", "document:"))
        Table(name, made, *map(_column, columns.split()), sqlite_with_rowid=not is_small)
    for name, columns in indices.items():
        table = made.tables[name.partition("_")[0]]
        Index(name, *(table.c[column] for column in columns.split()))
    return made


def _column(said: str) -> Column[Any]:
    name, kind = said.split(":")
    type_, empty = _KINDS.get(kind) or (Words(int(kind)), "")
    others = [ForeignKey("frameworks.id", ondelete="CASCADE")] if kind == "framework" else []
    rules: dict[str, Any] = {"primary_key": "!" in name, "nullable": "?" in name, "unique": "^" in name or None}
    rules |= {"default": empty} if "=" in name else {}
    return Column(name.rstrip("!?^="), type_, *others, autoincrement=kind == "id", **rules)
