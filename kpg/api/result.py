"""Query results as tuples, Arrow, data frames and text.

``Rows`` is the common interface, ``Result`` a fixed set of rows with a cursor, and ``View`` the present
contents of a view. Reading tuples does not import Arrow.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

from kpg.gc_pause import LazyModule
from kpg.runtime.errors import OperationalError
from kpg.runtime.types import BIGINT, TEXT, Kind, Type

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from kpg.api import display
    from kpg.runtime.convert import arrow
else:
    display = LazyModule("kpg.api.display")
    arrow = LazyModule("kpg.runtime.convert.arrow")

Row = tuple[Any, ...]
Description = tuple[str, Type, None, None, int | None, int | None, bool | None]


_cursor_lock: Final = Lock()
"""Held for an instant while the cursor of any result moves: threads that share one get each row once."""


class Rows:
    """What can be read as rows: subclasses give ``columns``, ``types``, ``arrow()`` and ``part()``."""

    @property
    def columns(self) -> list[str]:
        """The column names."""
        raise NotImplementedError

    @property
    def types(self) -> list[Type]:
        """The SQL types of the columns."""
        raise NotImplementedError

    def arrow(self) -> "pyarrow.Table":
        """All rows as a ``pyarrow.Table``.

        A column's type follows from its SQL type, never from its rows: DECIMAL(p, s) and NUMERIC(p, s) are
        decimals of that precision and scale, NUMERIC without a scale is ``string``.
        """
        raise NotImplementedError

    def part(self, start: int = 0, stop: int | None = None) -> list[Row]:
        """The rows from ``start`` to before ``stop``, or to the last, as tuples."""
        raise NotImplementedError

    @property
    def description(self) -> list[Description]:
        """The columns as the DB-API has them: (name, type, None, None, precision, scale, None)."""
        return [_describe(name, type_) for name, type_ in zip(self.columns, self.types, strict=True)]

    def df(self) -> "pandas.DataFrame":
        """All rows as a pandas DataFrame.

        DATE, TIMESTAMP and TIMESTAMPTZ are ``datetime64``, with NaT for NULL. Integers and BOOLEAN with NULLs
        are what pandas makes of them: ``float64``, and objects with None. DECIMAL, NUMERIC and TIME are
        objects, of ``Decimal`` and ``datetime.time``: pandas has no type that holds them.
        """
        try:
            import pandas  # lazy: pandas is an optional dependency
        except ImportError as error:
            raise _missing("pandas", "df()") from error
        table = self.arrow()
        frame = table.to_pandas(date_as_object=False)
        for place, (type_, field) in enumerate(zip(self.types, table.schema, strict=True)):
            if type_.kind is Kind.NUMERIC and str(field.type) == "string":
                numbers = [None if text is None else Decimal(text) for text in frame.iloc[:, place]]
                frame.isetitem(place, pandas.Series(numbers, frame.index, object))
        return frame

    def pl(self) -> "polars.DataFrame":
        """All rows as a polars DataFrame."""
        try:
            import polars  # lazy: polars is an optional dependency
        except ImportError as error:
            raise _missing("polars", "pl()") from error
        frame = polars.from_arrow(self.arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow C stream of all rows: pyarrow, polars, DuckDB and others read it without a copy."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Row]:
        """All rows as tuples, from the first one, whatever was fetched before."""
        return iter(self.part())

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __bool__(self) -> bool:
        """True, also without rows: ask ``len`` for those."""
        return True

    def __repr__(self) -> str:
        return display.box(self.columns, self.types, display.Ends.of(self))

    def _repr_html_(self) -> str:
        return display.html(self.columns, self.types, display.Ends.of(self))


class Contents(Protocol):
    """Rows that no commit changes any more."""

    def __len__(self) -> int: ...

    def arrow(self) -> "pyarrow.Table":
        """As :meth:`Rows.arrow`."""

    def part(self, start: int, stop: int | None) -> list[Row]:
        """As :meth:`Rows.part`."""


class Result(Rows):
    """The rows of one statement, in the order that its ORDER BY asked for.

    ``fetchone``, ``fetchmany`` and ``fetchall`` move a cursor, as in the DB-API; iteration and the other
    forms give all rows each time.
    """

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[Type],
        contents: Contents,
        origins: tuple[tuple[str, int], ...] = (),
        *,
        count: int | None = None,
        text: str | None = None,
    ) -> None:
        self.origins = origins
        """The names of relations and the places of columns there that the columns are, if that is known."""
        self.affected = count
        """For a statement that changes a table, the number of rows inserted, deleted or updated."""
        self.is_count = count is not None
        """Whether the number of affected rows is all that it gives: RETURNING gives rows, too."""
        self.text = text
        """For EXPLAIN, the whole text, which is how the result prints."""
        self._columns = list(columns)
        self._types = list(types)
        self._contents = contents
        self._table: pyarrow.Table | None = None
        self._rows: list[Row] | None = None
        self._position = 0

    def again(self) -> "Result":
        """The same rows, with a cursor before the first one."""
        count = self.affected if self.is_count else None
        made = Result(self._columns, self._types, self._contents, self.origins, count=count, text=self.text)
        made.affected = self.affected
        return made

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    @property
    def types(self) -> list[Type]:
        return list(self._types)

    @property
    def contents(self) -> Contents:
        """What the rows are made of."""
        return self._contents

    @property
    def rowcount(self) -> int:
        """The number of rows affected, or given, as the DB-API names it."""
        return len(self) if self.affected is None else self.affected

    def __len__(self) -> int:
        return len(self._contents)

    def arrow(self) -> "pyarrow.Table":
        if self._table is None:
            self._table = self._contents.arrow()
        return self._table

    def part(self, start: int = 0, stop: int | None = None) -> list[Row]:
        return self._contents.part(start, stop)

    def __repr__(self) -> str:
        return super().__repr__() if self.text is None else self.text

    def _repr_html_(self) -> str:
        if self.text is None:
            return super()._repr_html_()
        from html import escape  # lazy: the start does without it

        return f"<pre>{escape(self.text)}</pre>"

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next ``size`` rows, fewer at the end."""
        rows = self._rows
        if rows is None:
            rows = self._rows = self.part()
        with _cursor_lock:
            found = rows[self._position : self._position + size]
            self._position += len(found)
        return found

    def fetchall(self) -> list[Row]:
        """All rows that were not fetched yet."""
        return self.fetchmany(len(self))


class Listed:
    """Contents that are Python values: for each column its name, its type, and a list of values."""

    def __init__(self, names: Sequence[str], types: Sequence[Type], values: Sequence[Sequence[Any]]) -> None:
        self._names = names
        self._types = types
        self._values = values

    def __len__(self) -> int:
        return len(self._values[0])

    def arrow(self) -> "pyarrow.Table":
        import pyarrow  # lazy: it takes a tenth of the start

        columns = zip(self._types, self._values, strict=True)
        arrays = [pyarrow.array(values, arrow.arrow_type(type_)) for type_, values in columns]
        return pyarrow.Table.from_arrays(arrays, names=list(self._names))

    def part(self, start: int, stop: int | None) -> list[Row]:
        return list(zip(*(values[start:stop] for values in self._values), strict=True))


def listing(columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> Result:
    """A result made of Python values, a type and a list of values for each column."""
    names = list(columns)
    types = [type_ for type_, _ in columns.values()]
    return Result(names, types, Listed(names, types, [values for _, values in columns.values()]))


def row_count(count: int) -> Result:
    """The result of a statement that changes a table: one row with the count of rows."""
    return Result(["count"], [BIGINT], Listed(["count"], [BIGINT], [[count]]), count=count)


PLAN: Final = "QUERY PLAN"
"""What Postgres calls the column of EXPLAIN."""


def explanation(text: str, name: str = PLAN, *, type_: Type = TEXT, whole: bool = False) -> Result:
    """The result of EXPLAIN: a row for each line of a text, or one for the ``whole``; in one column."""
    rows = [text] if whole else text.splitlines()
    return Result([name], [type_], Listed([name], [type_], [rows]), text=text)


def _describe(name: str, type_: Type) -> Description:
    if type_.kind is Kind.DECIMAL:
        return (name, type_, None, None, type_.precision, type_.scale, None)
    return (name, type_, None, None, type_.precision or None, None, None)


def _missing(package: str, method: str) -> OperationalError:
    return OperationalError(f"{method} needs {package}", hint=f"pip install {package}")
