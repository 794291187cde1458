"""Loads into workers: Spark casts and checks rows, tells whose each is, and its tasks send them there."""

from functools import partial
from typing import TYPE_CHECKING, Final

from kpg.runtime.handles import Berth
from kpg.runtime.spark import landing_task
from kpg.runtime.spark.session import opened
from kpg.runtime.spark.slots import taken
from kpg.runtime.spark.source import Source, is_frame
from kpg.runtime.spark.write import prepared, translated
from kpg.runtime.types import Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER: Final = "kpg owner"
LONG_DIGITS: Final = 18
"""Of decimals that are one word."""


def send(source: Source, berth: Berth) -> list[int]:
    """Have Spark's tasks send the rows to where they go; the attempts that have, in order of partitions.

    Raises as ``load.load_tables``.
    """
    from pyspark import cloudpickle

    with opened(_session(source)) as spark:
        cloudpickle.register_pickle_by_value(landing_task)
        group = f"kpg-load-{berth.load}"
        frame = prepared(spark, source, group)
        owner = owner_of(frame.columns[berth.home], source.schema.columns[berth.home].type, berth)
        sending = partial(landing_task.send, berth.places, berth.secret)
        owned = frame.selectExpr("*", f"{owner} AS `{OWNER}`")
        try:
            told = owned.mapInArrow(sending, "attempt long, rows long").collect()
        except BaseException as error:
            spark.sparkContext.cancelJobGroup(group)
            if isinstance(error, Exception):
                raise translated(error) from error
            raise
    return [row.attempt for row in told]


def _session(source: Source) -> "SparkSession | None":
    """The frame's, else that of the workers, if they are on one."""
    if is_frame(source.data):
        return source.data.sparkSession
    return next(reversed(taken.values())).session if taken else None


def owner_of(column: str, type_: Type, berth: Berth) -> str:
    """Whose a row is, by its column of a type, as SQL text; 0 where Spark cannot tell."""
    name = "`" + column.replace("`", "``") + "`"
    word = _word(name, type_)
    if word is None:
        return "0"
    hashed = f"CAST(pmod(xxhash64({word}), {len(berth.places)}) AS int)"
    return f"IF({name} IS NULL, {berth.nulls}, {hashed})"


def _word(name: str, type_: Type) -> str | None:
    """What of a column is hashed: what Spark hashes as it would a BIGINT of kpg's word, or the text."""
    match type_.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return f"CAST({name} AS bigint)"
        case Kind.DECIMAL if (type_.precision or LONG_DIGITS) <= LONG_DIGITS:
            return name
        case Kind.DATE:
            return f"CAST(unix_date({name}) AS bigint)"
        case Kind.BOOLEAN:
            return f"CAST(CAST({name} AS int) AS bigint)"
        case Kind.TIMESTAMP | Kind.CHAR | Kind.VARCHAR:
            return name
        case _:
            return None
