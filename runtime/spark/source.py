"""Sources of a load (a Spark DataFrame, a path, or a table of Spark's catalog) and their checked casts.

Each column is cast to the table's type, or the row raises an error with its file, key and column: no value is
rounded, truncated or turned into NULL. Expressions are Spark SQL text, so a table takes one call to the JVM.
A
type that always fits has no check, and a row has one branch for all its checks.
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

INTEGER_TYPES: Final = ("byte", "short", "integer", "long")
"""Integer types in ascending order of their ranges."""
FLOAT_TYPES: Final = frozenset({"float", "double"})
TIMESTAMP_TYPES: Final = frozenset({"timestamp", "timestamp_ntz"})
NUMBER_TYPES: Final = frozenset(INTEGER_TYPES) | FLOAT_TYPES | {"decimal"}


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast as SQL text, and the condition under which a non-NULL value does not fit, if any."""

    value: str
    misfit: str | None = None


def message_prefix(table: str) -> str:
    """Return the beginning of a message about a table; empty for a table without a name."""
    return f"table {table}: " if table else ""


def resolve(frame: "DataFrame", schema: Schema, table: str) -> list[str]:
    """Return the frame's name of each column of the schema; names are case insensitive.

    Raises:
        ProgrammingError: For a column that is missing, extra, ambiguous or of a type that does not convert.
        NotSupportedError: For a type that cannot be loaded through Spark.
    """
    names_by_lower: dict[str, list[str]] = {}
    for name in frame.columns:
        names_by_lower.setdefault(name.lower(), []).append(name)
    names = []
    for column in schema.columns:
        candidates = names_by_lower.pop(column.name.lower(), [])
        if len(candidates) != 1:
            problem = "ambiguous" if candidates else "missing"
            raise ProgrammingError(
                f"{message_prefix(table)}column {column.name} {column.type} is {problem} in the Spark source",
                hint=f"found {', '.join(frame.columns)}",
            )
        source_type = frame.schema[candidates[0]].dataType
        if not is_convertible(column, source_type.typeName()):
            found_type = source_type.simpleString()
            raise ProgrammingError(
                f"{message_prefix(table)}column {column.name} has type {found_type}, expected {column.type}",
                hint=f"convert {column.name} to {column.type} before loading it",
            )
        names.append(candidates[0])
    if names_by_lower:
        extra = next(iter(names_by_lower.values()))[0]
        raise ProgrammingError(
            f"{message_prefix(table)}column {extra} of the Spark source is not in the table",
            hint=f"the columns are {', '.join(schema.names)}",
        )
    return names


def is_convertible(column: ColumnDef, source_type: str) -> bool:
    """Return whether a Spark type, by its ``typeName``, converts to the column's type, if the values fit."""
    match column.type.kind:
        case Kind.BOOLEAN:
            return source_type in {"boolean", "string", "void"}
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT | Kind.DECIMAL | Kind.REAL | Kind.DOUBLE:
            return source_type in NUMBER_TYPES | {"string", "void"}
        case Kind.DATE | Kind.TIMESTAMP:
            return source_type in TIMESTAMP_TYPES | {"date", "string", "void"}
        case Kind.CHAR | Kind.VARCHAR:
            return source_type in {"string", "void"} or source_type.startswith(("char", "varchar"))
        case _:
            raise NotSupportedError(
                f"column {column.name}: {column.type} cannot be loaded through Spark",
                hint="load it from parquet without Spark",
            )


def cast_columns(
    frame: "DataFrame", names: list[str], schema: Schema, table: str, with_file: bool
) -> "DataFrame":
    """Return the schema's columns in order, cast and checked; ``names`` is the result of :func:`resolve`.

    The settings of a load must be in force, since they determine how texts are parsed.
    """
    source_types = {field.name: field.dataType for field in frame.schema.fields}
    sources = [_quote_name(name) for name in names]
    casts = [
        make_cast(source, source_types[name], column.type)
        for source, name, column in zip(sources, names, schema.columns, strict=True)
    ]
    values = [made.value for made in casts]
    branches = [
        branch for i in range(len(casts)) for branch in _misfit_conditions(sources[i], casts[i], schema, i)
    ]
    if branches:
        # The first column carries the row's checks: all columns are written, so none is pruned.
        any_misfit = " OR ".join(f"({condition})" for condition, _ in branches)
        cases = " ".join(f"WHEN {condition} THEN {message}" for condition, message in branches)
        location = _location_expression(sources, schema, table, with_file)
        error = f"raise_error(concat({_quote_text(MARK)}, {location}, CASE {cases} END, {_quote_text(MARK)}))"
        values[0] = f"IF({any_misfit}, {error}, {values[0]})"
    expressions = [
        f"{value} AS {_quote_name(column.name)}" for value, column in zip(values, schema.columns, strict=True)
    ]
    return frame.selectExpr(*expressions)


def _location_expression(sources: list[str], schema: Schema, table: str, with_file: bool) -> str:
    """Return SQL text of a row's location: table, file, and primary key."""
    parts = [_quote_text(f"table {table}")] if table else []
    if with_file:
        parts.append("nullif(input_file_name(), '')")
    for position in schema.primary_key:
        name = _quote_text(f"key {schema.columns[position].name}=")
        parts.append(f"concat({name}, coalesce(CAST({sources[position]} AS string), 'NULL'))")
    return f"concat_ws(', ', {', '.join([*parts, _quote_text('')])})"


def _misfit_conditions(
    source: str, converted: Cast, schema: Schema, position: int
) -> Iterator[tuple[str, str]]:
    """Yield the conditions that reject a column's value, each with its message, as SQL text."""
    column = schema.columns[position]
    name = f"column {column.name}: "
    if not column.nullable or position in schema.primary_key:
        yield f"{source} IS NULL", _quote_text(f"{name}NULL in a NOT NULL column")
    if converted.misfit is not None:
        begin, end = _quote_text(f"{name}value '"), _quote_text(f"' does not fit {column.type}")
        yield (
            f"{source} IS NOT NULL AND ({converted.misfit})",
            f"concat({begin}, CAST({source} AS string), {end})",
        )


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quote_text(value: str) -> str:
    """Return a SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _match_expression(source: str, pattern: str) -> str:
    """Return SQL text that matches a whole text; ``pattern`` has no quotes."""
    return f"({source} RLIKE r'{pattern}')"


def make_cast(source: str, source_type: "DataType", target: Type) -> Cast:
    """Return the cast of a column to the type that is written for the target type; ``source`` is SQL text."""
    match target.kind:
        case Kind.CHAR | Kind.VARCHAR:
            return _to_text(source, target)
        case Kind.SMALLINT:
            return _to_integer(source, source_type, "short", "smallint")
        case Kind.INTEGER:
            return _to_integer(source, source_type, "integer", "int")
        case Kind.BIGINT:
            return _to_bigint(source, source_type)
        case Kind.DECIMAL:
            return _to_decimal(source, source_type, target)
        case Kind.REAL:
            return _to_float(source, source_type, "float")
        case Kind.DOUBLE:
            return _to_float(source, source_type, "double")
        case Kind.BOOLEAN:
            return _cast_with_pattern(source, source_type, "boolean", BOOLEAN_TEXT)
        case Kind.DATE:
            return _to_date(source, source_type)
        case Kind.TIMESTAMP:
            return _cast_with_pattern(source, source_type, "timestamp_ntz", TIMESTAMP_TEXT)
        case _:
            raise AssertionError(f"{target} does not come through Spark")


def _try_cast(source: str, target: str) -> str:
    return f"try_cast({source} AS {target})"


def _to_text(source: str, target: Type) -> Cast:
    value = f"CAST({source} AS string)"
    return Cast(value, f"char_length({value}) > {target.precision}" if target.precision else None)


def _to_integer(source: str, source_type: "DataType", name: str, target: str) -> Cast:
    kind = source_type.typeName()
    if kind in INTEGER_TYPES and INTEGER_TYPES.index(kind) <= INTEGER_TYPES.index(name):
        return Cast(f"CAST({source} AS {target})")
    value = _try_cast(source, target)
    misfit = f"{value} IS NULL"
    if kind in FLOAT_TYPES | {"decimal"}:
        misfit += f" OR {_try_cast(value, source_type.simpleString())} != {source}"
    return Cast(value, misfit)


def _to_bigint(source: str, source_type: "DataType") -> Cast:
    """Return a cast that rejects the words of NULL and ERROR; narrower integers do not reach them."""
    converted = _to_integer(source, source_type, "long", "bigint")
    if source_type.typeName() in INTEGER_TYPES[:-1]:
        return converted
    reserved = f"{converted.value} <= {ERROR}"
    return Cast(converted.value, f"{converted.misfit} OR {reserved}" if converted.misfit else reserved)


def _to_decimal(source: str, source_type: "DataType", target: Type) -> Cast:
    kind, name = source_type.typeName(), f"decimal({target.precision}, {target.scale})"
    value = _try_cast(source, name)
    misfit = f"{value} IS NULL"
    match kind:
        case "decimal":
            precision, scale = source_type.precision, source_type.scale
            if scale <= target.scale and precision - scale <= target.precision - target.scale:
                return Cast(f"CAST({source} AS {name})")
            misfit += f" OR {_try_cast(value, source_type.simpleString())} != {source}"
        case "float" | "double":
            limit = EXACT_FLOAT / 10.0**target.scale
            misfit += f" OR abs({source}) > {limit!r}D OR CAST({value} AS double) != {source}"
        case "string":
            fraction = rf"\.\d{{0,{target.scale}}}0*"
            number = rf"^\s*[+-]?(\d+({fraction})?|{fraction})\s*$"
            misfit += f" OR NOT {_match_expression(source, number)}"
    return Cast(value, misfit)


def _to_float(source: str, source_type: "DataType", target: str) -> Cast:
    if source_type.typeName() == target:
        return Cast(source)
    value = _try_cast(source, target)
    overflow = f"abs({value}) = double('infinity')"
    if source_type.typeName() == "string":
        overflow += f" AND NOT {_match_expression(source, '(?i)inf')}"
    else:
        overflow += f" AND abs(CAST({source} AS double)) != double('infinity')"
    return Cast(value, f"{value} IS NULL OR ({overflow})")


def _to_date(source: str, source_type: "DataType") -> Cast:
    converted = _cast_with_pattern(source, source_type, "date", DATE_TEXT)
    if source_type.typeName() in TIMESTAMP_TYPES:
        return Cast(
            converted.value,
            f"{converted.misfit} OR CAST({converted.value} AS {source_type.simpleString()}) != {source}",
        )
    return converted


def _cast_with_pattern(source: str, source_type: "DataType", target: str, pattern: str) -> Cast:
    """Return a cast that rejects texts which only Spark accepts, such as "2020" for a date."""
    if source_type.typeName() == target:
        return Cast(source)
    value = _try_cast(source, target)
    misfit = f"{value} IS NULL"
    if source_type.typeName() == "string":
        misfit += f" OR NOT {_match_expression(source, pattern)}"
    return Cast(value, misfit)


FORMATS_BY_SUFFIX: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".orc": "orc"}


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a table's rows: a Spark DataFrame, a path, or the name of a table in Spark's catalog.

    ``format`` and ``options`` are those of ``spark.read``, for paths; without a format, the suffix determines
    it. CSV is read with a header unless ``options`` say otherwise.
    """

    table: str
    data: Any
    schema: Schema
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_bytes(self) -> int | None:
        """Size of a local file; None for other sources, whose size is unknown."""
        path = None if is_frame(self.data) else Path(str(self.data))
        return path.stat().st_size if path is not None and path.is_file() else None


def is_frame(data: Any) -> bool:
    """Return whether a value is a Spark DataFrame, without importing pyspark."""
    return type(data).__module__.startswith("pyspark.sql.") and hasattr(data, "sparkSession")


def read_frame(spark: "SparkSession", source: Source) -> "DataFrame":
    """Return the source as a Spark DataFrame.

    Raises:
        OperationalError: If Spark cannot read it.
    """
    if is_frame(source.data):
        return source.data
    from pyspark.errors import PySparkException  # lazy: an optional dependency

    name, format_ = str(source.data), format_of(source)
    try:
        if format_ is None:
            return spark.table(name)
        options = {"mode": "FAILFAST", **({"header": "true"} if format_ == "csv" else {}), **source.options}
        frame = spark.read.format(format_).options(**options).load(name)
    except PySparkException as error:
        raise OperationalError(
            f"{message_prefix(source.table)}Spark cannot read {name}: {first_line(error)}",
            hint="give an existing path (and format=), a table of Spark's catalog, or a DataFrame",
        ) from error
    has_names = options.get("header", "true").lower() == "true"
    if has_names or len(frame.columns) != len(source.schema.columns):
        return frame
    return frame.toDF(*source.schema.names)


def format_of(source: Source) -> str | None:
    """Return the format of a path, as given or by its suffix; None for the name of a table."""
    return source.format or format_by_suffix(Path(str(source.data)))


def format_by_suffix(path: Path) -> str | None:
    """Return the format by a path's suffix, or for a folder by that of the first file with a known one."""
    if path.suffix.lower() in FORMATS_BY_SUFFIX or not path.is_dir():
        return FORMATS_BY_SUFFIX.get(path.suffix.lower())
    suffixes = (file.suffix.lower() for file in sorted(path.rglob("*")))
    return next((FORMATS_BY_SUFFIX[suffix] for suffix in suffixes if suffix in FORMATS_BY_SUFFIX), None)


def first_line(error: Exception) -> str:
    """Return the message of a Spark error without its stack."""
    return str(error).strip().split("\n", 1)[0]
