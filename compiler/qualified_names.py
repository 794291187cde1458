"""Qualified names: the catalog's name of a relation, as opposed to a name in SQL text.

A ``t`` in SQL text is resolved along ``search_path``, after temporary tables. A ``t`` in a catalog entry,
plan or constraint always means ``public.t``, whatever the session's path. Both are strings, and most code
need not tell them apart. Catalog names therefore have their own string type, which ``Catalog.find`` looks up
without the path. Postgres uses OIDs here.
"""

from collections.abc import Callable, Container
from itertools import count
from typing import Final, TypeVar

T = TypeVar("T")
DATABASE: Final = "kpg"
"""The name of every database."""
USER: Final = "$user"
"""Element of a search path that stands for the schema with the session user's name."""
DEFAULT_SEARCH_PATH: Final = (USER, "public")
PUBLIC_SEARCH_PATH: Final = ("public",)


class QualifiedName(str):
    """Qualified name of a relation: ``schema.name``, or ``name`` alone in the schema ``public``."""

    __slots__ = ()

    def lower(self) -> "QualifiedName":
        """Return the name in lower case, as a key of the catalog."""
        return QualifiedName(str.lower(self))


def mark_qualified(record: T, *fields: str) -> T:
    """Convert the named string fields of a frozen record to QualifiedName; return the record.

    Fields that the record lacks are skipped. For ``__post_init__`` and for catalog records read from a
    file.
    """
    for field in fields:
        name = getattr(record, field, None)
        if type(name) is str:
            object.__setattr__(record, field, QualifiedName(name))
    return record


def sibling_name(name: str, base_name: str) -> QualifiedName:
    """Return the qualified name of ``base_name`` in the schema of ``name``."""
    schema = name.rpartition(".")[0]
    return QualifiedName(f"{schema}.{base_name}" if schema else base_name)


def unused_name(name: str, is_taken: Callable[[str], bool]) -> QualifiedName:
    """Return the name, or the first of "name (1)", "name (2)", ... that is not taken."""
    names = (QualifiedName(f"{name} ({number})" if number else name) for number in count())
    return next(free for free in names if not is_taken(free))


def quote_name(name: str) -> str:
    """Quote an identifier for SQL text."""
    return '"' + name.replace('"', '""') + '"'


def quote_qualified_name(name: str) -> str:
    """Return a catalog name as SQL text: schema and name in double quotes, for any search path."""
    schema, _, plain = name.rpartition(".")
    return ".".join(map(quote_name, (schema or "public", plain)))


def parse_search_path(setting: str) -> tuple[str, ...]:
    """Return the schemas of a ``search_path`` setting, in lower case and without ``pg_catalog``.

    ``$user`` stays as it is: see :func:`effective_search_path`.
    """
    names = (value.strip().strip('"').lower() for value in setting.split(","))
    return tuple(name for name in names if name and name != "pg_catalog")


def effective_search_path(path: tuple[str, ...], user: str, schemas: Container[str]) -> tuple[str, ...]:
    """Return a search path for a user: ``$user`` is replaced by the user's schema, or dropped without one.

    An empty path, as in dumps, becomes ``public``.
    """
    own = (user,) if user in schemas else ()
    found = (own if one == USER else (one,) for one in path)
    return tuple(one for each in found for one in each) or PUBLIC_SEARCH_PATH
