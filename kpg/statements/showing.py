"""SHOW TABLES, DESCRIBE and EXPLAIN VIEW."""

from typing import TYPE_CHECKING

from kpg.compiler.catalog.entries import KEYS, TableEntry
from kpg.compiler.sql.parse import statements as ast
from kpg.engine.engine import Engine
from kpg.result import Result, listing
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import BIGINT, BOOLEAN, TEXT

if TYPE_CHECKING:
    from kpg.compiler.explain import Shown


def show_tables(engine: Engine) -> Result:
    """Every table and view: its name, what it is, and its rows if it has any of its own."""
    names, kinds = [], []
    rows: list[int | None] = []
    for entry in engine.catalog:
        if entry.name.startswith(KEYS):
            continue
        names.append(entry.name)
        if isinstance(entry, TableEntry):
            kinds.append("table")
            rows.append(engine.executor.count(entry.name))
        else:
            maintained = engine.views.get(entry.name)
            kinds.append("view" if maintained is None else "materialized view")
            rows.append(None if maintained is None else maintained.count())
    return listing({"name": (TEXT, names), "kind": (TEXT, kinds), "rows": (BIGINT, rows)})


def describe(engine: Engine, name: str) -> Result:
    """The columns of a relation."""
    schema = engine.catalog.get(name).schema
    return listing(
        {
            "column": (TEXT, list(schema.names)),
            "type": (TEXT, [str(type_) for type_ in schema.types]),
            "nullable": (BOOLEAN, [column.nullable for column in schema.columns]),
            "key": (BOOLEAN, [index in schema.primary_key for index in range(len(schema.columns))]),
        }
    )


def explain_view(engine: Engine, statement: ast.ExplainView, stage: str) -> "Shown":
    """The plan by which a view is kept; of one that is not kept, that of all its rows. ProgrammingError if it
    is no view.
    """
    from kpg.compiler.sql.parse.parser import parse
    from kpg.queries.planning import explain, explain_export

    entry = engine.catalog.get(statement.relation, statement.place)
    if isinstance(entry, TableEntry):
        hint = f"the plan of a query: EXPLAIN SELECT * FROM {statement.relation}"
        raise ProgrammingError(f'"{entry.name}" is a table', span=statement.place, hint=hint)
    kept = engine.views.get(entry.name)
    if kept is not None and kept.plan is not None:
        return explain_export(
            kept.name, kept.plan, stage, engine.catalog, engine.statistics, costs=statement.how.costs
        )
    text = f"SELECT * FROM {statement.relation}" if kept is None else f"CREATE VIEW v AS {kept.sql}"
    (query,) = parse(text)
    assert isinstance(query, ast.Explained)
    return explain(query, stage, engine.reading_catalog, engine.statistics, costs=statement.how.costs)
