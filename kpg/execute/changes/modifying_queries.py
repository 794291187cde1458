"""Data-modifying WITH queries: the rows that a part returns become a relation of the rest."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.sql.bind.eager_subexpressions import named_rows, with_rows
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.dml import Changes, Returned, check_there
from kpg.execute.changes.pipeline import prepared
from kpg.execute.queries.query_plan import explain, plan, returned_shape
from kpg.runtime.errors import DataError, ProgrammingError
from kpg.runtime.types import ColumnDef, Schema
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.explain import Shown

Words = NDArray[np.int64]


def run_modifying(engine: Engine, statement: ast.Modifying) -> Result:
    """Run all parts over the tables as they are; only then let the changes be made."""
    try:
        return _run(engine, statement)
    finally:
        engine.release_attached()


def _run(engine: Engine, statement: ast.Modifying) -> Result:
    changes: list[Changes] = []
    known: dict[str, str] = {}
    claimed: dict[str, Words] = {}
    for name, columns, part in statement.parts:
        reading = with_rows(part, known)
        assert not isinstance(reading, ast.Select)
        found = _unclaimed(prepared(engine, reading), reading, claimed)
        changes.append(found)
        if found.returned is not None:
            known[name] = _attached(engine, name, columns, found.returned)
    main = with_rows(statement.main, known)
    if isinstance(main, ast.Select):
        planned = plan(main, engine.reading_catalog, engine.statistics)
        result = planned.reader(engine.executor.dictionary).result(*engine.run(planned))
    else:
        changes.append(_unclaimed(prepared(engine, main), main, claimed))
        result = changes[-1].result()
    # Rows that were attached are no change of the statement's.
    for one in changes:
        check_there(engine, one)
        one.apply()
    return result


def _unclaimed(changes: Changes, part: ast.Change, claimed: dict[str, Words]) -> Changes:
    """The changes without the rows that earlier parts of the statement change, which are ``claimed``.

    DataError for an INSERT or a MERGE that would change such a row.
    """
    if type(changes) is not Changes:  # of several tables, or made row by row already
        return changes
    name = changes.table.name
    taken, rowids = claimed.get(name, np.empty(0, np.int64)), changes.rowids
    claimed[name] = np.concatenate((taken, rowids))
    if not np.isin(rowids, taken).any():
        return changes
    if isinstance(part, ast.Insert | ast.Merge):
        error = DataError(
            f'a row of table "{name}" was already changed by another part of the statement', span=part.span
        )
        error.sqlstate = "21000"
        raise error
    kept = np.flatnonzero(~np.isin(rowids, taken))
    returned = changes.returned
    if returned is not None:
        returned = replace(returned, words=np.ascontiguousarray(returned.words[:, kept]))
    if changes.updated is not None:
        words = np.ascontiguousarray(changes.updated[1][:, kept])
        return replace(changes, updated=(rowids[kept], words), returned=returned)
    return replace(changes, deleted=rowids[kept], returned=returned)


def explain_modifying(engine: Engine, statement: ast.Modifying, *, costs: bool) -> "Shown":
    """The plans of all parts, each over the rows of those before it as if these had none."""
    known: dict[str, str] = {}
    parts = []
    try:
        for name, columns, part in statement.parts:
            reading = with_rows(part, known)
            assert not isinstance(reading, ast.Select)
            shown = explain(reading, "physical", engine.reading_catalog, engine.statistics, costs=costs)
            parts.append((name, shown))
            if not isinstance(reading, ast.Merge) and reading.returning:
                names, types = returned_shape(reading, engine.reading_catalog)
                none = np.empty((len(types), 0), np.int64)
                known[name] = _attached(engine, name, columns, Returned(names, types, none))
        main = with_rows(statement.main, known)
        last = explain(main, "physical", engine.reading_catalog, engine.statistics, costs=costs)
    finally:
        engine.release_attached()
    return replace(last, parts=tuple(parts))


def _attached(engine: Engine, name: str, columns: tuple[str, ...], returned: Returned) -> str:
    names = (*columns, *returned.names[len(columns) :])
    if len({one.lower() for one in names}) < len(names):
        raise ProgrammingError(f'WITH query "{name}" has two columns of one name', hint="name its columns")
    schema = Schema(tuple(ColumnDef(one, type_) for one, type_ in zip(names, returned.types, strict=True)))
    attached = engine.tables.attach(named_rows(name), schema)
    engine.table(attached).insert(np.ascontiguousarray(returned.words))
    return attached
