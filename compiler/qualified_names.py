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
USUAL_PATH: Final = (USER, "public")
ONLY_PUBLIC: Final = ("public",)


class Resolved(str):
    """A relation's whole name: of one in ``public`` without a schema, of any other with it and a dot."""

    __slots__ = ()

    def lower(self) -> "Resolved":
        """In lower case, as the catalog's keys are."""
        return Resolved(str.lower(self))


def resolve(record: T, *fields: str) -> T:
    """Have names that a frozen record was given, in those of the fields that it has, be known as resolved.

    For its ``__post_init__``, or for a record of the catalog that was read from a file.
    """
    for field in fields:
        name = getattr(record, field, None)
        if type(name) is str:
            object.__setattr__(record, field, Resolved(name))
    return record


def beside(name: str, plain: str) -> Resolved:
    """A name in the schema of another one."""
    schema = name.rpartition(".")[0]
    return Resolved(f"{schema}.{plain}" if schema else plain)


def untaken(name: str, is_taken: Callable[[str], bool]) -> Resolved:
    """A name, or that with a number behind it, that is not taken."""
    names = (Resolved(f"{name} ({number})" if number else name) for number in count())
    return next(free for free in names if not is_taken(free))


def quote_name(name: str) -> str:
    """A name as SQL reads it in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def written(name: str) -> str:
    """How a text of SQL names a relation of the catalog, whatever the search path is."""
    schema, _, plain = name.rpartition(".")
    return ".".join(map(quote_name, (schema or "public", plain)))


def path_of(setting: str) -> tuple[str, ...]:
    """The schemas of a setting ``search_path``, of which ``$user`` is that with the name of who asks."""
    names = (value.strip().strip('"').lower() for value in setting.split(","))
    return tuple(name for name in names if name and name != "pg_catalog")


def path_for(path: tuple[str, ...], user: str, schemas: Container[str]) -> tuple[str, ...]:
    """A path as it is for a user; without any schema, as in dumps, ``public`` is looked into."""
    own = (user,) if user in schemas else ()
    found = (own if one == USER else (one,) for one in path)
    return tuple(one for each in found for one in each) or ONLY_PUBLIC
