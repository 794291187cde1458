"""Columns of a Spark DataFrame checked and cast to a table's types, in the executors.

Every column becomes the cast value, or raises an error that names the file, the row's key and the column:
a value is never rounded, cut or made NULL on the way.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.types import ERROR, ColumnDef, Kind, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

MARK: Final = "kpg\N{RIGHTWARDS ARROW}"
MARKED: Final = re.compile(f"{MARK}(.*?){MARK}", re.DOTALL)

DATE_TEXT: Final = r"^\s*\d{4}-\d{2}-\d{2}\s*$"
TIMESTAMP_TEXT: Final = r"^\s*\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?Z?)?\s*$"
BOOLEAN_TEXT: Final = r"(?i)^\s*(true|false|0|1)\s*$"
EXACT_FLOAT: Final = 2.0**53

INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
FLOATS: Final = frozenset({"float", "double"})
TIMESTAMPS: Final = frozenset({"timestamp", "timestamp_ntz"})
NUMBERS: Final = INTEGERS | FLOATS | {"decimal"}


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast column, and the condition under which its (non-NULL) source value does not fit."""

    value: "Column"
    misfit: "Column"


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
        case Kind.INTERVAL_MONTH | Kind.INTERVAL_DAY | Kind.ROWID | Kind.NULL:
            raise NotSupportedError(
                f"column {column.name}: {column.type} cannot be loaded through Spark",
                hint="load it from parquet without Spark",
            )
        case _:
            assert_never(column.type.kind)


def project(frame: "DataFrame", names: list[str], schema: Schema, table: str, with_file: bool) -> "DataFrame":
    """The schema's columns in order, each cast and checked; ``names`` as :func:`resolve` gives them."""
    from pyspark.sql import functions as F

    place = [F.lit(f"table {table}")] if table else []
    if with_file:
        place.append(F.nullif(F.input_file_name(), F.lit("")))
    for position in schema.primary_key:
        shown = F.coalesce(_source(names[position]).cast("string"), F.lit("NULL"))
        place.append(F.concat(F.lit(f"key {schema.columns[position].name}="), shown))
    where = F.concat_ws(", ", *place)
    columns = []
    for i, column in enumerate(schema.columns):
        required = not column.nullable or i in schema.primary_key
        given = frame.schema[names[i]].dataType
        columns.append(_checked(_source(names[i]), given, column, where, required).alias(column.name))
    return frame.select(*columns)


def _source(name: str) -> "Column":
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def _checked(
    source: "Column", given: "DataType", column: ColumnDef, where: "Column", required: bool
) -> "Column":
    from pyspark.sql import functions as F

    made = cast(source, given, column.type)
    place = F.concat(F.lit(MARK), where, F.lit(f", column {column.name}: "))
    shown = F.concat(F.lit("value '"), source.cast("string"), F.lit(f"' does not fit {column.type}{MARK}"))
    checked = F.when(made.misfit, F.raise_error(F.concat(place, shown))).otherwise(made.value)
    if not required:
        return F.when(source.isNotNull(), checked)
    null = F.raise_error(F.concat(place, F.lit(f"NULL in a NOT NULL column{MARK}")))
    return F.when(source.isNull(), null).otherwise(checked)


def cast(source: "Column", given: "DataType", target: Type) -> Cast:
    """The column cast to what the target type is written as."""
    match target.kind:
        case Kind.CHAR | Kind.VARCHAR:
            return _to_text(source, target)
        case Kind.SMALLINT:
            return _to_integer(source, given, "smallint")
        case Kind.INTEGER:
            return _to_integer(source, given, "int")
        case Kind.BIGINT:
            made = _to_integer(source, given, "bigint")
            return Cast(made.value, made.misfit | (made.value <= ERROR))
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
        case Kind.INTERVAL_MONTH | Kind.INTERVAL_DAY | Kind.ROWID | Kind.NULL:
            raise AssertionError(f"{target} does not come through Spark")
        case _:
            assert_never(target.kind)


def _to_text(source: "Column", target: Type) -> Cast:
    from pyspark.sql import functions as F

    value = source.cast("string")
    return Cast(value, F.char_length(value) > target.precision if target.precision else F.lit(False))


def _to_integer(source: "Column", given: "DataType", target: str) -> Cast:
    value = source.try_cast(target)
    misfit = value.isNull()
    if given.typeName() in FLOATS | {"decimal"}:
        misfit = misfit | (value.try_cast(given) != source)
    return Cast(value, misfit)


def _to_decimal(source: "Column", given: "DataType", target: Type) -> Cast:
    from pyspark.sql import functions as F

    value = source.try_cast(f"decimal({target.precision}, {target.scale})")
    misfit = value.isNull()
    if given.typeName() == "decimal":
        misfit = misfit | (value.try_cast(given) != source)
    elif given.typeName() in FLOATS:
        large = F.abs(source) > EXACT_FLOAT / 10.0**target.scale
        misfit = misfit | large | (value.cast("double") != source)
    elif given.typeName() == "string":
        digits = rf"\.\d{{0,{target.scale}}}0*"
        misfit = misfit | ~source.rlike(rf"^\s*[+-]?(\d+({digits})?|{digits})\s*$")
    return Cast(value, misfit)


def _to_float(source: "Column", given: "DataType", target: str) -> Cast:
    from pyspark.sql import functions as F

    value = source.try_cast(target)
    overflow = F.abs(value) == float("inf")
    if given.typeName() == "string":
        overflow = overflow & ~source.rlike("(?i)inf")
    else:
        overflow = overflow & (F.abs(source.cast("double")) != float("inf"))
    return Cast(value, value.isNull() | overflow)


def _to_date(source: "Column", given: "DataType") -> Cast:
    made = _by_pattern(source, given, "date", DATE_TEXT)
    if given.typeName() in TIMESTAMPS:
        return Cast(made.value, made.misfit | (made.value.cast(given) != source))
    return made


def _by_pattern(source: "Column", given: "DataType", target: str, pattern: str) -> Cast:
    """A cast that takes more spellings from text than we do, as "2020" for a date."""
    value = source.try_cast(target)
    misfit = value.isNull()
    if given.typeName() == "string":
        misfit = misfit | ~source.rlike(pattern)
    return Cast(value, misfit)
