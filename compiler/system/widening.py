"""The catalogs with all of Postgres' columns: what is known of some, and what stands for nothing."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from kpg.compiler.catalog import Catalog
from kpg.compiler.system.nothing import NOTHING
from kpg.compiler.system.relations import Row, System, Value
from kpg.compiler.system.shapes import GIVEN, ROWS, SHAPES
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, OID, ONE_BYTE, REGPROC, SMALLINT, TEXT, Type, array
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import counted

KINDS: Final = {
    "i": INTEGER,
    "o": OID,
    "l": BIGINT,
    "b": BOOLEAN,
    "a": array(SMALLINT),
    "n": array(BIGINT),
    "v": array(SMALLINT),
    "w": array(BIGINT),
    "t": array(TEXT),
    "c": ONE_BYTE,
    "p": REGPROC,
    "": TEXT,
}
VECTORS: Final = ("v", "w")
"""What Postgres has in vectors, whose first element has the number 0."""
EMPTY: Final[dict[str, Value]] = {
    "i": 0,
    "o": 0,
    "l": 0,
    "b": 0,
    "c": "",
    "p": "-",
    "a": None,
    "n": None,
    "v": None,
    "w": None,
    "t": None,
    "": None,
}


@cache
def widened(name: str, narrow: System | None) -> System | None:
    """A catalog with all its columns, whatever of them ``narrow`` fills; None if there is no such catalog."""
    text = SHAPES.get(name) or NOTHING.get(name)
    if text is None:
        return narrow
    parts = [word.partition(":") for word in text.split()]
    columns = tuple((column, KINDS[kind]) for column, _, kind in parts)
    given = GIVEN.get(name, {})
    empty = tuple(given.get(column, EMPTY[kind]) for column, _, kind in parts)
    if narrow is None:
        fixed = tuple(
            tuple(row.get(column, value) for (column, _), value in zip(columns, empty, strict=True))
            for row in ROWS.get(name, ())
        )
        return System(columns, lambda _: iter(fixed))
    vectors = frozenset(place for place, (_, _, kind) in enumerate(parts) if kind in VECTORS)
    return System(columns, _filled(columns, empty, narrow, vectors))


def _filled(
    columns: tuple[tuple[str, Type], ...], empty: tuple[Value, ...], narrow: System, vectors: frozenset[int]
) -> Callable[[Catalog], Iterator[Row]]:
    """Rows with values in the places of the columns that ``narrow`` has."""
    known = [name for name, _ in narrow.columns]
    places = [known.index(name) if name in known else -1 for name, _ in columns]
    kinds = [type_ for _, type_ in columns]

    def rows(catalog: Catalog) -> Iterator[Row]:
        for row in narrow.rows(catalog):
            yield tuple(
                empty[i] if place < 0 else _value(row[place], kinds[i], i in vectors)
                for i, place in enumerate(places)
            )

    return rows


def _value(value: Value, type_: Type, from_zero: bool) -> Value:
    """A value as literals of the type have it: numbers in a text, ``1 2`` or ``{1,2}``, are an array."""
    if not type_.parts or not isinstance(value, str):
        return value
    codec = codec_of(type_)
    text = value if value.startswith("{") else "{" + ",".join(value.split()) + "}"
    found = codec.parse(text)
    return codec.encode(counted(found, (0,)) if from_zero and found.items else found)
