"""Results: rows that were read once, in the forms that Python programs want.

:class:`Rows` turns any Arrow table into tuples, frames and text; :class:`Result` is a fixed one with a
cursor; ``kpg.view.View`` is one whose table is the view's present contents.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kpg import display
from kpg.runtime.errors import OperationalError
from kpg.runtime.types import BIGINT, TEXT, Kind, Type

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Row = tuple[Any, ...]
Description = tuple[str, Type, None, None, int | None, int | None, bool | None]


class Rows:
    """What can be read as rows: subclasses give ``columns``, ``types`` and ``arrow()``."""

    @property
    def columns(self) -> list[str]:
        """The column names."""
        raise NotImplementedError

    @property
    def types(self) -> list[Type]:
        """The SQL types of the columns."""
        raise NotImplementedError

    def arrow(self) -> "pyarrow.Table":
        """All rows as a ``pyarrow.Table``."""
        raise NotImplementedError

    @property
    def description(self) -> list[Description]:
        """The columns as the DB-API has them: (name, type, None, None, precision, scale, None)."""
        return [_describe(name, type_) for name, type_ in zip(self.columns, self.types, strict=True)]

    def df(self) -> "pandas.DataFrame":
        """All rows as a pandas DataFrame."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise _missing("pandas", "df()") from error
        return self.arrow().to_pandas()

    def pl(self) -> "polars.DataFrame":
        """All rows as a polars DataFrame."""
        try:
            import polars
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
        return iter(tuples(self.arrow()))

    def __len__(self) -> int:
        return int(self.arrow().num_rows)

    def __bool__(self) -> bool:
        """True, also without rows: ask ``len`` for those."""
        return True

    def __repr__(self) -> str:
        return display.box(self.columns, self.types, self.arrow())

    def _repr_html_(self) -> str:
        return display.html(self.columns, self.types, self.arrow())


class Result(Rows):
    """The rows of one statement, in the order that its ORDER BY asked for.

    ``fetchone``, ``fetchmany`` and ``fetchall`` move a cursor, as in the DB-API; iteration and the other
    forms give all rows each time.
    """

    affected: int | None = None
    """For a statement that changes a table, the number of rows inserted, deleted or updated."""

    def __init__(self, columns: Sequence[str], types: Sequence[Type], table: "pyarrow.Table") -> None:
        self._columns = list(columns)
        self._types = list(types)
        self._table = table
        self._rows: list[Row] | None = None
        self._position = 0

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    @property
    def types(self) -> list[Type]:
        return list(self._types)

    @property
    def rowcount(self) -> int:
        """The number of rows affected, or given, as the DB-API names it."""
        return len(self) if self.affected is None else self.affected

    def arrow(self) -> "pyarrow.Table":
        return self._table

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next ``size`` rows, fewer at the end."""
        if self._rows is None:
            self._rows = tuples(self._table)
        rows = self._rows[self._position : self._position + size]
        self._position += len(rows)
        return rows

    def fetchall(self) -> list[Row]:
        """All rows that were not fetched yet."""
        return self.fetchmany(len(self))


class Affected(Result):
    """The result of a statement that changes a table: one row with the count of rows."""

    def __init__(self, count: int) -> None:
        import pyarrow

        # not from a list of Python's: for one, pyarrow imports pandas, which takes longer than the statement
        word = pyarrow.py_buffer(count.to_bytes(8, "little", signed=True))
        counts = pyarrow.Array.from_buffers(pyarrow.int64(), 1, [None, word])
        super().__init__(["count"], [BIGINT], pyarrow.table({"count": counts}))
        self.affected = count


class Explanation(Result):
    """A plan as text, one row a line."""

    def __init__(self, text: str) -> None:
        import pyarrow

        lines = pyarrow.array(text.splitlines(), pyarrow.string())
        super().__init__(["plan"], [TEXT], pyarrow.table({"plan": lines}))
        self.text = text

    def __repr__(self) -> str:
        return self.text


def tuples(table: "pyarrow.Table") -> list[Row]:
    """The rows of an Arrow table as Python tuples."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _describe(name: str, type_: Type) -> Description:
    if type_.kind is Kind.DECIMAL:
        return (name, type_, None, None, type_.precision, type_.scale, None)
    return (name, type_, None, None, type_.precision or None, None, None)


def _missing(package: str, method: str) -> OperationalError:
    return OperationalError(f"{method} needs {package}", hint=f"pip install {package}")
