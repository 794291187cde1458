"""Query results as tuples, Arrow, data frames and text.

``Rows`` is the common interface, ``Result`` a fixed set of rows with a cursor, and ``View`` the present
contents of a view. Reading tuples does not import Arrow.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

from kpg.runtime.errors import OperationalError
from kpg.runtime.gc_pause import LazyModule
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
"""Held while the cursor of any result moves: threads that share a result get each row once."""


class Rows:
    """Base of readable rows. Subclasses define ``columns``, ``types``, ``arrow()`` and ``part()``."""

    @property
    def columns(self) -> list[str]:
        """Column names."""
        raise NotImplementedError

    @property
    def types(self) -> list[Type]:
        """SQL types of the columns."""
        raise NotImplementedError

    def arrow(self) -> "pyarrow.Table":
        """Return all rows as a ``pyarrow.Table``.

        DECIMAL(p, s) and NUMERIC(p, s) are decimals of that precision and scale. NUMERIC without a precision
        is the smallest decimal type that holds all values; without values, or with NaN, infinity or too many
        digits, it is ``string``.
        """
        raise NotImplementedError

    def part(self, start: int = 0, stop: int | None = None) -> list[Row]:
        """Return the rows from ``start`` to before ``stop``, by default to the last, as tuples."""
        raise NotImplementedError

    @property
    def description(self) -> list[Description]:
        """The columns in the form of the DB-API: (name, type, None, None, precision, scale, None)."""
        return [_describe(name, type_) for name, type_ in zip(self.columns, self.types, strict=True)]

    def df(self) -> "pandas.DataFrame":
        """Return all rows as a pandas DataFrame.

        DATE, TIMESTAMP and TIMESTAMPTZ are ``datetime64``, with NaT for NULL. Integers with
        NULLs become ``float64``, BOOLEAN with NULLs objects with None, as pandas does it. DECIMAL, NUMERIC
        and TIME are objects, of ``Decimal`` and ``datetime.time``: pandas has no type that holds them.
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
        """Return all rows as a polars DataFrame."""
        try:
            import polars  # lazy: polars is an optional dependency
        except ImportError as error:
            raise _missing("polars", "pl()") from error
        frame = polars.from_arrow(self.arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the Arrow C stream of all rows, which pyarrow, polars and DuckDB read without a copy."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over all rows as tuples, independent of the cursor."""
        return iter(self.part())

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __bool__(self) -> bool:
        """Return True, also without rows: use ``len`` to count them."""
        return True

    def __repr__(self) -> str:
        return display.box(self.columns, self.types, display.Ends.from_rows(self))

    def _repr_html_(self) -> str:
        return display.html(self.columns, self.types, display.Ends.from_rows(self))


class Contents(Protocol):
    """Rows that no commit changes."""

    def __len__(self) -> int: ...

    def arrow(self) -> "pyarrow.Table":
        """Return all rows; see :meth:`Rows.arrow`."""

    def part(self, start: int, stop: int | None) -> list[Row]:
        """Return some rows; see :meth:`Rows.part`."""


class Result(Rows):
    """The rows of one statement, in the order of its ORDER BY.

    ``fetchone``, ``fetchmany`` and ``fetchall`` move a cursor, as in the DB-API; iteration and the
    other forms return all rows each time.
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
        """Relation and column position from which each column comes, if known."""
        self.affected = count
        """Number of rows inserted, deleted or updated, for a statement that changes a table."""
        self.is_count = count is not None
        """Whether the row count is the only result; RETURNING gives rows, too."""
        self.text = text
        """For EXPLAIN the whole text, which is also how the result prints."""
        self._columns = list(columns)
        self._types = list(types)
        self._contents = contents
        self._table: pyarrow.Table | None = None
        self._rows: list[Row] | None = None
        self._position = 0

    def with_new_cursor(self) -> "Result":
        """Return the same rows with a cursor before the first one."""
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
        """Source of the rows."""
        return self._contents

    @property
    def rowcount(self) -> int:
        """Number of rows affected or returned, as the DB-API names it."""
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
        """Return the next row, or None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """Return the next ``size`` rows, fewer at the end."""
        rows = self._rows
        if rows is None:
            rows = self._rows = self.part()
        with _cursor_lock:
            found = rows[self._position : self._position + size]
            self._position += len(found)
        return found

    def fetchall(self) -> list[Row]:
        """Return all rows that have not been fetched."""
        return self.fetchmany(len(self))


class ColumnContents:
    """Contents of Python values: the name, the type and the values of each column."""

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
    """Return a result of Python values: a type and a list of values for each column."""
    names = list(columns)
    types = [type_ for type_, _ in columns.values()]
    return Result(names, types, ColumnContents(names, types, [values for _, values in columns.values()]))


def row_count_result(count: int) -> Result:
    """Return the result of a statement that changes a table: one row with the row count."""
    return Result(["count"], [BIGINT], ColumnContents(["count"], [BIGINT], [[count]]), count=count)


PLAN_COLUMN: Final = "QUERY PLAN"
"""Name of EXPLAIN's column in Postgres."""


def plan_result(
    text: str, name: str = PLAN_COLUMN, *, type_: Type = TEXT, in_one_row: bool = False
) -> Result:
    """Return the result of EXPLAIN in a column ``name``: a row per line, or one with ``in_one_row``."""
    rows = [text] if in_one_row else text.splitlines()
    return Result([name], [type_], ColumnContents([name], [type_], [rows]), text=text)


def _describe(name: str, type_: Type) -> Description:
    if type_.kind is Kind.DECIMAL:
        return (name, type_, None, None, type_.precision, type_.scale, None)
    return (name, type_, None, None, type_.precision or None, None, None)


def _missing(package: str, method: str) -> OperationalError:
    return OperationalError(f"{method} needs {package}", hint=f"pip install {package}")
