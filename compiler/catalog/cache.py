"""Catalog query cache: rows of system relations, and results of queries over them alone.

Tools read the system catalogs repeatedly, and rebuilding the rows costs far more than checking that nothing
changed. An entry is valid while every part of the catalog has the version it had when the entry was stored,
and while the session state that it read is equal. :class:`Noted` is a dict whose globally unique ``version``
changes on every mutation, so the check does not compare contents. The cache holds at most ``MOST`` entries
and evicts the least recently used.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from itertools import count
from typing import Any, Final, TypeVar

from kpg.compiler.catalog.constraints import AsWritten, Spelling
from kpg.runtime.records import dataclass

K = TypeVar("K")
V = TypeVar("V")
_NUMBERS: Final = count(1)


class Noted(dict[K, V]):
    """A dict with a ``version``, which no other has, and it has not had, whenever it may have changed."""

    __slots__ = ("version",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.version = next(_NUMBERS)


def _noting(name: str) -> Callable[..., Any]:
    plain = getattr(dict, name)

    def method(self: "Noted[Any, Any]", *given: Any, **named: Any) -> Any:
        self.version = next(_NUMBERS)
        return plain(self, *given, **named)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


CHANGING: Final = (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
)  # fmt: skip
for _name in CHANGING:
    setattr(Noted, _name, _noting(_name))


Catalog = Any
"""What the catalog is: it knows this module, not the other way round."""

MOST: Final = 256
Told = dict[str, tuple[tuple[int | str | None, ...], ...]]
"""What the session told meanwhile, by kinds."""


class Keeping:
    """Values by key, all of one state of the catalog."""

    __slots__ = ("_seen", "_values")

    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._values: OrderedDict[Hashable, tuple[Any, Told]] = OrderedDict()

    def get(self, catalog: Catalog, key: Hashable) -> Any:
        """What is kept under a key; None if there is nothing, or it may be another by now."""
        if self._seen != _parts(catalog):
            self._values.clear()
            return None
        found = self._values.get(key)
        if found is None:
            return None
        value, told = found
        if any(tuple(catalog.consulted.session(kind)) != rows for kind, rows in told.items()):
            del self._values[key]
            return None
        self._values.move_to_end(key)
        return value

    def put(self, catalog: Catalog, key: Hashable, value: Any, told: Told) -> None:
        """Keep a value that was made of the catalog as it is, and of what the session ``told``."""
        parts = _parts(catalog)
        if self._seen != parts:
            self._values.clear()
            self._seen = tuple(dict(one) if isinstance(one, dict) else one for one in parts)
        self._values[key] = value, told
        if len(self._values) > MOST:
            self._values.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()


def viewpoint(catalog: Catalog) -> Hashable:
    """What else the rows of the system depend on: who looks, from where, and how texts are written."""
    asker = catalog.asker
    # A path that was set to nothing is the schema public, too, but its names are shown with that schema.
    path = catalog.path, catalog.settings.get("search_path")
    return asker.user, asker.login, asker.shown, catalog.temporary, path, catalog.style


@contextmanager
def noting(catalog: Catalog) -> Iterator[Told]:
    """What the session tells within the context."""
    consulted, told = catalog.consulted, Told()
    plain: Callable[[str], Any] = consulted.session

    def session(kind: str) -> Any:
        rows = tuple(plain(kind))
        told[kind] = rows
        return rows

    consulted.session = session
    try:
        yield told
    finally:
        consulted.session = plain


def _parts(catalog: Catalog) -> tuple[object, ...]:
    """All of the catalog that rows of the system are made of; what knows its version stands for itself."""
    rights = catalog.rights
    parts = (
        *(catalog.entries, catalog.sequences, catalog.schemas, catalog.comments, catalog.indexes),
        *(catalog.types, catalog.routines, catalog.others),
        *(rights.roles, rights.owners, rights.lists, rights.defaults),
    )
    return tuple(one.version if isinstance(one, Noted) else one for one in parts)


@dataclass(slots=True)
class Consulted:
    """How often statements have asked for what may be another at any time: the time, or what there is."""

    times: int = 0
    spelling: Spelling = field(default_factory=AsWritten)
    steady: int = 0
    """How often for what is the same until the catalog is another, or what the session tells."""
    kept: Keeping = field(default_factory=Keeping)
    """Rows of the system's relations."""
    session: Callable[[str], Iterable[tuple[int | str | None, ...]]] = lambda _kind: ()
