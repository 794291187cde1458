"""The catalogs with all of Postgres' columns: what is known of some, and what stands for nothing."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from kpg.compiler.catalog import Catalog
from kpg.compiler.system.informed import INFORMED
from kpg.compiler.system.kinds import KINDS, NAME
from kpg.compiler.system.nothing import NOTHING
from kpg.compiler.system.relations import Row, System, Value
from kpg.compiler.system.shapes import GIVEN, ROWS, SHAPES
from kpg.runtime.types import Type, float_to_word
from kpg.runtime.values import codec_of

EMPTY: Final[dict[str, Value]] = {
    **dict.fromkeys(("b", "d", "f", "i", "l", "o", "s", "x"), 0),
    "c": "",
    "p": "-",
}
"""What stands for nothing in columns of a letter; NULL in others."""
INFORMATION: Final = KINDS | {"": NAME, "t": KINDS[""]}


@cache
def widened(name: str, narrow: System | None) -> System | None:
    """A catalog with all its columns, whatever of them ``narrow`` fills; None if there is no such catalog."""
    text = SHAPES.get(name) or NOTHING.get(name)
    if text is None:
        return narrow
    parts = [word.partition(":") for word in text.split()]
    columns = tuple((column, KINDS[kind]) for column, _, kind in parts)
    given = GIVEN.get(name, {})
    empty = tuple(given.get(column, EMPTY.get(kind)) for column, _, kind in parts)
    if narrow is None:
        fixed = tuple(
            tuple(row.get(column, value) for (column, _), value in zip(columns, empty, strict=True))
            for row in ROWS.get(name, ())
        )
        return System(columns, lambda _: iter(fixed))
    return System(columns, _filled(columns, empty, narrow), narrow.steady)


@cache
def informing(name: str, narrow: System | None) -> System | None:
    """As :func:`widened`, of a relation of ``information_schema``."""
    text = INFORMED.get(name)
    if text is None:
        return None
    parts = [word.partition(":") for word in text.split()]
    columns = tuple((column, INFORMATION[kind]) for column, _, kind in parts)
    if narrow is None:
        return System(columns, lambda _: iter(()))
    return System(columns, _filled(columns, (None,) * len(columns), narrow), narrow.steady)


def _filled(
    columns: tuple[tuple[str, Type], ...], empty: tuple[Value, ...], narrow: System
) -> Callable[[Catalog], Iterator[Row]]:
    """Rows with values in the places of the columns that ``narrow`` has."""
    known = [name for name, _ in narrow.columns]
    places = [known.index(name) if name in known else -1 for name, _ in columns]
    kinds = [type_ for _, type_ in columns]

    def rows(catalog: Catalog) -> Iterator[Row]:
        for row in narrow.rows(catalog):
            yield tuple(
                empty[i] if place < 0 else _value(row[place], kinds[i]) for i, place in enumerate(places)
            )

    return rows


def _value(value: Value, type_: Type) -> Value:
    """A value as literals of the type have it: numbers in a text, ``1 2`` or ``{1,2}``, are an array."""
    if type_.is_float and value is not None:
        return float_to_word(float(value))
    if not type_.parts or not isinstance(value, str):
        return value
    codec = codec_of(type_)
    text = value if value.startswith("{") or type_.name else "{" + ",".join(value.split()) + "}"
    return codec.encode(codec.parse(text))
