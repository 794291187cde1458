"""Names of relations as the catalog has them, apart from names as somebody has written them.

``t`` written in a text is looked up along the ``search_path``, behind temporary tables. ``t`` of an entry
of the catalog, of a plan or of a constraint is the ``t`` of ``public``, whatever is ahead of it for who
asks. Both are texts, and most code handles names without caring which: so the second are a type of their
own, which ``Catalog.find`` looks up as they are. Postgres has numbers for that.
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


def written(name: str) -> str:
    """How a text of SQL names a relation of the catalog, whatever the search path is."""
    schema, _, plain = name.rpartition(".")
    return ".".join('"' + part.replace('"', '""') + '"' for part in (schema or "public", plain))


def path_of(setting: str) -> tuple[str, ...]:
    """The schemas of a setting ``search_path``, of which ``$user`` is that with the name of who asks."""
    names = (value.strip().strip('"').lower() for value in setting.split(","))
    return tuple(name for name in names if name and name != "pg_catalog")


def path_for(path: tuple[str, ...], user: str, schemas: Container[str]) -> tuple[str, ...]:
    """A path as it is for a user; without any schema, as in dumps, ``public`` is looked into."""
    own = (user,) if user in schemas else ()
    found = (own if one == USER else (one,) for one in path)
    return tuple(one for each in found for one in each) or ONLY_PUBLIC
