"""Table pipeline: the stages that the rows of a table pass before they are applied.

Every way in for a row makes ``Changes``: rowids, and columns of words. INSERT, UPDATE, MERGE, upserts, COPY,
loads and referential actions run the same stages on new rows, in this order:

1. ``lengths``: texts fit their columns.
2. ``generated columns``.
3. Stages of extensions, such as ``row policies``.
4. ``checks``: CHECK constraints. Rows of an UPDATE pass it when they are applied, since a row may move to
   another partition first.

ON CONFLICT and WITH CHECK OPTION, which depend on the statement, follow. Keys, NOT NULL and foreign keys are
checked when rows are applied. A *router* takes over the statements of a table whose rows are stored in other
tables: its partitions.

A pipeline is assembled once per table and version of the catalog. That of a plain table has no stages, and
the cached plan of an INSERT makes its changes directly.
"""

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.parse import statements as ast
from kpg.runtime.errors import DataError
from kpg.runtime.handles import LoadRules
from kpg.runtime.records import dataclass
from kpg.runtime.types import ERROR, ColumnDef, Kind
from kpg.runtime.values.arrays import fit_elements
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.words import UnrepresentableValue
from kpg.session.base_table import Changes, Table
from kpg.session.engine import ACTION_CHECKS, Engine

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Write:
    """A write of rows to a table by a statement.

    Without a statement, an INSERT is by a load, and an UPDATE by a referential action of a foreign key.
    """

    engine: Engine
    table: Table
    statement: ast.Insert | ast.Update | ast.Merge | None
    command: str


class Router(Protocol):
    """Distributes the changes of a table over the tables that store its rows."""

    def prepare(self, engine: Engine, statement: ast.Change) -> Changes | None:
        """Return the changes of a statement; None if it changes only the table itself."""

    def route(self, engine: Engine, name: str, words: Words) -> Changes:
        """Return the changes of appending rows ``int64[width, n]`` to the table of a name."""


def _pass_rows(write: Write, words: Words) -> Words:
    return words


def _pass_rowids(write: Write, rowids: Words, command: str) -> None:
    pass


class Stage:
    """A check or completion of the rows that statements write.

    ``new_rows`` returns the rows, completed, or raises an error if one must not be written. ``existing_rows``
    raises an error if an upsert or a MERGE must not UPDATE or DELETE the rows with some rowids.
    """

    __slots__ = ("existing_rows", "name", "new_rows", "router")

    def __init__(
        self,
        name: str,
        new_rows: Callable[[Write, Words], Words] = _pass_rows,
        existing_rows: Callable[[Write, Words, str], None] = _pass_rowids,
        router: Router | None = None,
    ) -> None:
        self.name = name
        self.new_rows = new_rows
        self.existing_rows = existing_rows
        self.router = router


Applies = Callable[[Catalog, TableEntry], bool]
_registrations: Final[list[tuple[Applies, Callable[[], Stage]]]] = []


def register_stage(applies: Applies, load: Callable[[], Stage]) -> None:
    """Add a stage to the pipelines of some tables; ``load`` returns it when one of them is written."""
    _registrations.append((applies, load))


class TablePipeline:
    """The stages of a table, for one version of the catalog."""

    __slots__ = ("definitions", "has_added_stages", "router", "stages", "version")

    def __init__(self, engine: Engine, table: Table) -> None:
        catalog = engine.catalog
        entry = catalog.table(table.name)
        added = [load() for applies, load in _registrations if applies(catalog, entry)]
        self.version, self.definitions = catalog.version, engine.plan_cache.invalidations
        self.has_added_stages = bool(added)
        """Whether extensions check the rows, so that they need this process and their statement."""
        self.router = next((stage.router for stage in added if stage.router is not None), None)
        self.stages: tuple[Stage, ...] = (
            *([LENGTHS] if any(type_.has_length_limit for type_ in entry.schema.types) else []),
            *(
                [GENERATED]
                if any(rule.generated or rule.digits >= 0 for rule in entry.constraints.rules)
                else []
            ),
            *added,
            *([CHECKS] if entry.constraints.checks else []),
        )

    def check_new_rows(self, write: Write, words: Words) -> Words:
        """Return new rows after all stages."""
        for stage in self.stages:
            words = stage.new_rows(write, words)
        return words

    def check_existing_rows(self, write: Write, rowids: Words, command: str) -> None:
        """Check the existing rows that an upsert or a MERGE changes."""
        for stage in self.stages:
            stage.existing_rows(write, rowids, command)


def pipeline_of(engine: Engine, table: Table) -> TablePipeline:
    """Return the pipeline of a table."""
    found = table.pipeline
    if (
        not isinstance(found, TablePipeline)
        or found.version != engine.catalog.version
        or found.definitions != engine.plan_cache.invalidations
    ):
        table.pipeline = found = TablePipeline(engine, table)
    return found


def load_changes(engine: Engine, table: Table, words: Words) -> Changes:
    """Return the changes of appending complete rows, as COPY and loads do."""
    pipeline = pipeline_of(engine, table)
    if pipeline.router is not None:
        return pipeline.router.route(engine, table.name, words)
    if pipeline.stages:
        words = pipeline.check_new_rows(Write(engine, table, None, "INSERT"), words)
    return Changes(table, inserted=words)


def check_action_rows(engine: Engine, table: Table, words: Words) -> Words:
    """Return the rows that a referential action updates after all stages. Row policies do not apply."""
    return pipeline_of(engine, table).check_new_rows(Write(engine, table, None, "UPDATE"), words)


ACTION_CHECKS.append(check_action_rows)


def load_rows(engine: Engine, table: Table, words: Words) -> int:
    """Append complete rows of a bulk load, and return their number."""
    changes = load_changes(engine, table, words)
    table.begin_load()
    changes.apply()
    return changes.count


def load_rules(engine: Engine, table: Table) -> LoadRules | None:
    """Return the rules that workers can check for loaded rows; None if some stage needs this process."""
    return None if pipeline_of(engine, table).has_added_stages else table.rules


def _check_lengths(write: Write, words: Words) -> Words:
    # The encoders of loads have checked them.
    is_load = write.statement is None and write.command == "INSERT"
    return words if is_load else fit_lengths(words, write.table)


def _complete(write: Write, words: Words) -> Words:
    guard = write.table.guard
    return words if guard is None else guard.complete(words)


def _check_constraints(write: Write, words: Words) -> Words:
    guard = write.table.guard
    if guard is not None and write.command == "INSERT":
        guard.check(words)
    return words


LENGTHS: Final = Stage("lengths", _check_lengths)
GENERATED: Final = Stage("generated columns", _complete)
CHECKS: Final = Stage("checks", _check_constraints)


def check_computed(words: Words, table: Table) -> None:
    """Raise DataError if a value of computed rows is ERROR."""
    if (words == ERROR).any():
        place = int(np.argmax((words[: len(table.schema.columns)] == ERROR).any(axis=1)))
        column = table.schema.columns[place]
        raise DataError(f"the value for column {column.name} of table {table.name} failed to compute")


def fit_lengths(words: Words, table: Table) -> Words:
    """Return rows without blanks beyond the lengths of their columns; DataError for a longer text."""
    for index, column in enumerate(table.schema.columns):
        if column.type.has_length_limit:
            values = words[index]
            cut = _truncate_texts(values, column, table)
            if cut:
                words = words.copy()
                for word, shorter in cut.items():
                    words[index, values == word] = shorter
    return words


def _truncate_texts(values: Words, column: ColumnDef, table: Table) -> dict[int, int]:
    """Return the texts with excess trailing blanks, and their truncation; DataError if one is too long."""
    limit = column.type.precision
    cut: dict[int, int] = {}
    codes = distinct(values)
    for word, text in zip(codes.tolist(), table.dictionary.decode(codes), strict=True):
        if text is None:
            continue
        if column.type.kind is Kind.ARRAY:
            codec = codec_of(column.type)
            try:
                fitting = codec.encode(fit_elements(codec.decode(text), column.type.parts[0]))
            except UnrepresentableValue:
                shown = codec.show(codec.decode(text))
                raise _too_long(shown, column, table) from None
            if fitting != text:
                cut[word] = table.dictionary.code(fitting)
            continue
        if column.type.kind is Kind.CHAR and text.endswith(" "):
            cut[word] = table.dictionary.code(text.rstrip(" "))
        if len(text) <= limit:
            continue
        if len(text.rstrip(" ")) > limit:
            raise _too_long(text, column, table)
        shorter = text.rstrip(" ") if column.type.kind is Kind.CHAR else text[:limit]
        cut[word] = table.dictionary.code(shorter)
    return cut


def _too_long(text: str, column: ColumnDef, table: Table) -> DataError:
    error = DataError(
        f"value '{text}' is too long for column {column.name} {column.type} of table {table.name}"
    )
    is_bit_array = column.type.kind is Kind.ARRAY and column.type.parts[0].kind is Kind.BIT
    error.sqlstate = "22026" if is_bit_array else "22001"
    return error


def distinct(words: Words) -> Words:
    """Return the distinct words of ``int64[n]``, sorted.

    ``np.unique`` first imports numpy's masked arrays, which takes longer than a statement.
    """
    ordered = np.sort(words)
    first = np.ones(ordered.shape[0], np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
