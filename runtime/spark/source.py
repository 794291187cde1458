"""What a load is given: a Spark DataFrame, a path that Spark reads, or a table of its catalog."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kpg.runtime.errors import OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.spark.cast import label
from kpg.runtime.types import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    from pyspark.errors import PySparkException

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
