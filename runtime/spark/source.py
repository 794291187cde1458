"""Sources of a load (a Spark DataFrame, a path, or a table of Spark's catalog) and their checked casts.

Each column is cast to the table's type, or the row raises an error with its file, key and column: no value is
rounded, truncated or turned into NULL. Expressions are Spark SQL text, so a table takes one call to the JVM.
A type that always fits has no check, and a row has one branch for all its checks.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import NotSupportedError, OperationalError, ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.types import ERROR, ColumnDef, Kind, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType


MARK: Final = "kpg\N{RIGHTWARDS ARROW}"
MARKED: Final = re.compile(f"{MARK}(.*?){MARK}", re.DOTALL)

DATE_TEXT: Final = r"^\s*\d{4}-\d{2}-\d{2}\s*$"
TIMESTAMP_TEXT: Final = r"^\s*\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?Z?)?\s*$"
BOOLEAN_TEXT: Final = r"(?i)^\s*(true|false|0|1)\s*$"
EXACT_FLOAT: Final = 2.0**53

INTEGERS: Final = ("byte", "short", "integer", "long")
"""Each fits into those after it."""
FLOATS: Final = frozenset({"float", "double"})
TIMESTAMPS: Final = frozenset({"timestamp", "timestamp_ntz"})
NUMBERS: Final = frozenset(INTEGERS) | FLOATS | {"decimal"}


@dataclass(frozen=True, slots=True)
class Cast:
    """A column's value as SQL text, and when its (non-NULL) source does not fit; None if it always does."""

    value: str
    misfit: str | None = None


def label(table: str) -> str:
    """How a message about a table begins; nothing for one without name."""
    return f"table {table}: " if table else ""


def resolve(frame: "DataFrame", schema: Schema, table: str) -> list[str]:
    """For each column of the schema, the frame's name for it; names match in any case.

    Raises ProgrammingError for a column that is missing, extra, ambiguous or of a type that does not
    convert, NotSupportedError for a type that does not come through Spark.
    """
    found: dict[str, list[str]] = {}
    for name in frame.columns:
        found.setdefault(name.lower(), []).append(name)
    names = []
    for column in schema.columns:
        candidates = found.pop(column.name.lower(), [])
        if len(candidates) != 1:
            what = "ambiguous" if candidates else "missing"
            raise ProgrammingError(
                f"{label(table)}column {column.name} {column.type} is {what} in the Spark source",
                hint=f"found {', '.join(frame.columns)}",
            )
        given = frame.schema[candidates[0]].dataType
        if not accepts(column, given.typeName()):
            found_type = given.simpleString()
            raise ProgrammingError(
                f"{label(table)}column {column.name} has type {found_type}, expected {column.type}",
                hint=f"convert {column.name} to {column.type} before loading it",
            )
        names.append(candidates[0])
    if found:
        extra = next(iter(found.values()))[0]
        raise ProgrammingError(
            f"{label(table)}column {extra} of the Spark source is not in the table",
            hint=f"the columns are {', '.join(schema.names)}",
        )
    return names


def accepts(column: ColumnDef, given: str) -> bool:
    """Whether a Spark type, by its ``typeName``, converts to the column's, values permitting."""
    match column.type.kind:
        case Kind.BOOLEAN:
            return given in {"boolean", "string", "void"}
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.DECIMAL | Kind.REAL | Kind.DOUBLE:
            return given in NUMBERS | {"string", "void"}
        case Kind.DATE | Kind.TIMESTAMP:
            return given in TIMESTAMPS | {"date", "string", "void"}
        case Kind.CHAR | Kind.VARCHAR:
            return given in {"string", "void"} or given.startswith(("char", "varchar"))
        case _:
            raise NotSupportedError(
                f"column {column.name}: {column.type} cannot be loaded through Spark",
                hint="load it from parquet without Spark",
            )


def project(frame: "DataFrame", names: list[str], schema: Schema, table: str, with_file: bool) -> "DataFrame":
    """The schema's columns in order, each cast and checked; ``names`` as :func:`resolve` gives them.

    The settings of a load must be in force, as they say how the text is read.
    """
    given = {field.name: field.dataType for field in frame.schema.fields}
    sources = [_quoted(name) for name in names]
    casts = [
        cast(source, given[name], column.type)
        for source, name, column in zip(sources, names, schema.columns, strict=True)
    ]
    values = [made.value for made in casts]
    branches = [branch for i in range(len(casts)) for branch in _checks(sources[i], casts[i], schema, i)]
    if branches:
        # The first column stands for its row: every column is written, so none is pruned with its check.
        found = " OR ".join(f"({condition})" for condition, _ in branches)
        told = " ".join(f"WHEN {condition} THEN {message}" for condition, message in branches)
        place = _place(sources, schema, table, with_file)
        error = f"raise_error(concat({_text(MARK)}, {place}, CASE {told} END, {_text(MARK)}))"
        values[0] = f"IF({found}, {error}, {values[0]})"
    expressions = [
        f"{value} AS {_quoted(column.name)}" for value, column in zip(values, schema.columns, strict=True)
    ]
    return frame.selectExpr(*expressions)


def _place(sources: list[str], schema: Schema, table: str, with_file: bool) -> str:
    """SQL text of where a row is: table, file, and primary key."""
    parts = [_text(f"table {table}")] if table else []
    if with_file:
        parts.append("nullif(input_file_name(), '')")
    for position in schema.primary_key:
        name = _text(f"key {schema.columns[position].name}=")
        parts.append(f"concat({name}, coalesce(CAST({sources[position]} AS string), 'NULL'))")
    return f"concat_ws(', ', {', '.join([*parts, _text('')])})"


def _checks(source: str, made: Cast, schema: Schema, position: int) -> Iterator[tuple[str, str]]:
    """The conditions under which a column's value is refused, each with the message, as SQL text."""
    column = schema.columns[position]
    name = f"column {column.name}: "
    if not column.nullable or position in schema.primary_key:
        yield f"{source} IS NULL", _text(f"{name}NULL in a NOT NULL column")
    if made.misfit is not None:
        begin, end = _text(f"{name}value '"), _text(f"' does not fit {column.type}")
        yield f"{source} IS NOT NULL AND ({made.misfit})", f"concat({begin}, CAST({source} AS string), {end})"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _matches(source: str, pattern: str) -> str:
    """Whether a whole text matches; ``pattern`` has no quotes."""
    return f"({source} RLIKE r'{pattern}')"


def cast(source: str, given: "DataType", target: Type) -> Cast:
    """The column cast to what the target type is written as; ``source`` is SQL text."""
    match target.kind:
        case Kind.CHAR | Kind.VARCHAR:
            return _to_text(source, target)
        case Kind.SMALLINT:
            return _to_integer(source, given, "short", "smallint")
        case Kind.INTEGER:
            return _to_integer(source, given, "integer", "int")
        case Kind.BIGINT:
            return _to_bigint(source, given)
        case Kind.DECIMAL:
            return _to_decimal(source, given, target)
        case Kind.REAL:
            return _to_float(source, given, "float")
        case Kind.DOUBLE:
            return _to_float(source, given, "double")
        case Kind.BOOLEAN:
            return _by_pattern(source, given, "boolean", BOOLEAN_TEXT)
        case Kind.DATE:
            return _to_date(source, given)
        case Kind.TIMESTAMP:
            return _by_pattern(source, given, "timestamp_ntz", TIMESTAMP_TEXT)
        case _:
            raise AssertionError(f"{target} does not come through Spark")


def _tried(source: str, target: str) -> str:
    return f"try_cast({source} AS {target})"


def _to_text(source: str, target: Type) -> Cast:
    value = f"CAST({source} AS string)"
    return Cast(value, f"char_length({value}) > {target.precision}" if target.precision else None)


def _to_integer(source: str, given: "DataType", name: str, target: str) -> Cast:
    kind = given.typeName()
    if kind in INTEGERS and INTEGERS.index(kind) <= INTEGERS.index(name):
        return Cast(f"CAST({source} AS {target})")
    value = _tried(source, target)
    misfit = f"{value} IS NULL"
    if kind in FLOATS | {"decimal"}:
        misfit += f" OR {_tried(value, given.simpleString())} != {source}"
    return Cast(value, misfit)


def _to_bigint(source: str, given: "DataType") -> Cast:
    """The smallest words stand for NULL and errors; narrower integers do not reach them."""
    made = _to_integer(source, given, "long", "bigint")
    if given.typeName() in INTEGERS[:-1]:
        return made
    reserved = f"{made.value} <= {ERROR}"
    return Cast(made.value, f"{made.misfit} OR {reserved}" if made.misfit else reserved)


def _to_decimal(source: str, given: "DataType", target: Type) -> Cast:
    kind, name = given.typeName(), f"decimal({target.precision}, {target.scale})"
    value = _tried(source, name)
    misfit = f"{value} IS NULL"
    match kind:
        case "decimal":
            precision, scale = given.precision, given.scale
            if scale <= target.scale and precision - scale <= target.precision - target.scale:
                return Cast(f"CAST({source} AS {name})")
            misfit += f" OR {_tried(value, given.simpleString())} != {source}"
        case "float" | "double":
            limit = EXACT_FLOAT / 10.0**target.scale
            misfit += f" OR abs({source}) > {limit!r}D OR CAST({value} AS double) != {source}"
        case "string":
            fraction = rf"\.\d{{0,{target.scale}}}0*"
            number = rf"^\s*[+-]?(\d+({fraction})?|{fraction})\s*$"
            misfit += f" OR NOT {_matches(source, number)}"
    return Cast(value, misfit)


def _to_float(source: str, given: "DataType", target: str) -> Cast:
    if given.typeName() == target:
        return Cast(source)
    value = _tried(source, target)
    overflow = f"abs({value}) = double('infinity')"
    if given.typeName() == "string":
        overflow += f" AND NOT {_matches(source, '(?i)inf')}"
    else:
        overflow += f" AND abs(CAST({source} AS double)) != double('infinity')"
    return Cast(value, f"{value} IS NULL OR ({overflow})")


def _to_date(source: str, given: "DataType") -> Cast:
    made = _by_pattern(source, given, "date", DATE_TEXT)
    if given.typeName() in TIMESTAMPS:
        return Cast(made.value, f"{made.misfit} OR CAST({made.value} AS {given.simpleString()}) != {source}")
    return made


def _by_pattern(source: str, given: "DataType", target: str, pattern: str) -> Cast:
    """A cast that takes more spellings from text than we do, as "2020" for a date."""
    if given.typeName() == target:
        return Cast(source)
    value = _tried(source, target)
    misfit = f"{value} IS NULL"
    if given.typeName() == "string":
        misfit += f" OR NOT {_matches(source, pattern)}"
    return Cast(value, misfit)


FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".orc": "orc"}


@dataclass(frozen=True, slots=True)
class Source:
    """What to load into a table: a Spark DataFrame, a path, or the name of a table in Spark's catalog.

    ``format`` and ``options`` are those of ``spark.read``, for paths; the format is told by the suffix if
    not given. CSV is read with a header unless ``options`` say otherwise.
    """

    table: str
    data: Any
    schema: Schema
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_bytes(self) -> int | None:
        """The size of a local file; None for anything else, whose size is not known beforehand."""
        path = None if is_frame(self.data) else Path(str(self.data))
        return path.stat().st_size if path is not None and path.is_file() else None


def is_frame(data: Any) -> bool:
    """Whether something is a Spark DataFrame, without importing pyspark."""
    return type(data).__module__.startswith("pyspark.sql.") and hasattr(data, "sparkSession")


def frame_of(spark: "SparkSession", source: Source) -> "DataFrame":
    """The source as Spark reads it. OperationalError if it does not."""
    if is_frame(source.data):
        return source.data
    from pyspark.errors import PySparkException  # lazy: an optional dependency

    name, form = str(source.data), format_of(source)
    try:
        if form is None:
            return spark.table(name)
        options = {"mode": "FAILFAST", **({"header": "true"} if form == "csv" else {}), **source.options}
        frame = spark.read.format(form).options(**options).load(name)
    except PySparkException as error:
        raise OperationalError(
            f"{label(source.table)}Spark cannot read {name}: {first_line(error)}",
            hint="give an existing path (and format=), a table of Spark's catalog, or a DataFrame",
        ) from error
    has_names = options.get("header", "true").lower() == "true"
    if has_names or len(frame.columns) != len(source.schema.columns):
        return frame
    return frame.toDF(*source.schema.names)


def format_of(source: Source) -> str | None:
    """The format of a path, as given or by its suffix; None for the name of a table."""
    return source.format or by_ending(Path(str(source.data)))


def by_ending(path: Path) -> str | None:
    """The format that a path's ending tells, or in a folder the first file's that tells one."""
    if path.suffix.lower() in FORMATS or not path.is_dir():
        return FORMATS.get(path.suffix.lower())
    suffixes = (file.suffix.lower() for file in sorted(path.rglob("*")))
    return next((FORMATS[suffix] for suffix in suffixes if suffix in FORMATS), None)


def first_line(error: Exception) -> str:
    """What an error of Spark says, without its stack."""
    return str(error).strip().split("\n", 1)[0]
