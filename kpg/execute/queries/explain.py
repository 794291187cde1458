"""EXPLAIN of statements and views, SHOW TABLES and DESCRIBE.

EXPLAIN prints the plan that would run now, as text or in Postgres' other formats: JSON, YAML and XML of one
tree. The check of a view recomputes it from scratch, without shared arrangements, and compares the contents.
"""

import json
import re
from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from kpg.api.result import Result, explanation, listing
from kpg.api.view import Maintained
from kpg.compiler.catalog.entries import KEYS, TableEntry, ViewEntry
from kpg.compiler.sql.frontend import check_relation, lower_query
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.generic_plans import named
from kpg.compiler.sql.parse.parser import parse, parse_query
from kpg.execute.changes.modifying_queries import explain_modifying
from kpg.execute.queries.query_plan import explain, explain_export, plan_bound, plan_view_entry
from kpg.runtime.errors import Error, InterfaceError, InternalError, NotSupportedError, ProgrammingError
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import BIGINT, BOOLEAN, JSON, TEXT, Type
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.explain import Shown


def run_explain(engine: Engine, statement: ast.Explain | ast.ExplainView) -> Result:
    """EXPLAIN. With ANALYZE the statement is run, too: how many rows it gave, and how long it took."""
    how, start = statement.how, perf_counter()
    with engine.transactions.statement(changes=False):
        shown = _shown(engine, statement, statement.stage)
    facts: dict[str, Any] = {}
    planning, started = 1000 * (perf_counter() - start), perf_counter()
    if how.analyze and isinstance(statement, ast.Explain):
        outcome = engine.nested.execute(engine, statement.statement)
        if isinstance(outcome, Result):
            facts["Actual Rows"] = outcome.rowcount
    running = 1000 * (perf_counter() - started)
    times = {"Planning Time": planning} if how.tells_times else {}
    times |= {"Execution Time": running} if how.tells_times and how.analyze else {}
    if how.timing and how.analyze and how.format != "TEXT":
        facts["Actual Total Time"] = round(running, 3)
    return _explanation(shown, how, facts, times)


def _explanation(
    shown: "Shown", how: ast.Explaining, facts: dict[str, Any], times: dict[str, float]
) -> Result:
    if how.format == "TEXT":
        told = [f"{name}: {value}" for name, value in facts.items()]
        told += [f"{name}: {value:.3f} ms" for name, value in times.items()]
        return explanation("\n".join((shown.text(), *told)))

    tree = shown.tree()
    tree.setdefault("Plan", {}).update(facts) if facts else None
    tree |= {name: round(value, 3) for name, value in times.items()}
    return explanation(formatted(tree, how.format), type_=type_of(how), whole=True)


def type_of(how: ast.Explaining) -> Type:
    """The type of the one column that EXPLAIN gives."""
    return JSON if how.format == "JSON" else TEXT


def is_explained(statement: ast.Statement) -> bool:
    """Whether :func:`explain_statement` has a plan to show."""
    return isinstance(statement, ast.Explain | ast.ExplainView | ast.Select | ast.CreateView)


def explain_statement(engine: Engine, statement: ast.Statement, stage: str) -> str:
    """The plan of a query, of a view's query, or of what an EXPLAIN is about, as it would run now."""
    with engine.transactions.statement(changes=False):
        return _shown(engine, statement, stage).text()


def _shown(engine: Engine, statement: ast.Statement, stage: str) -> "Shown":
    if isinstance(statement, ast.ExplainView):
        return explain_view(engine, statement, stage)
    how = statement.how if isinstance(statement, ast.Explain) else ast.Explaining()
    query = statement.statement if isinstance(statement, ast.Explain) else statement
    if isinstance(query, ast.Modifying):
        return explain_modifying(engine, query, costs=how.costs)
    assert isinstance(query, ast.Explained)
    if how.generic:
        return _generic(engine, query, stage, costs=how.costs)
    return explain(query, stage, engine.reading_catalog, engine.statistics, costs=how.costs)


def _generic(engine: Engine, query: ast.Explained, stage: str, *, costs: bool) -> "Shown":
    """The plan of a query whose parameters may have any values."""

    try:
        shown = explain(query, stage, engine.reading_catalog, engine.statistics, costs=costs)
        if shown.printer is not None:
            shown.printer.query = named(shown.printer.query)
    except Error:
        raise
    except Exception:
        # An open constant is unlike any other: what trips over it, whatever it raises, has looked at it.
        message = "EXPLAIN of a plan that depends on the value of a parameter is not supported"
        raise NotSupportedError(message, span=query.span, hint="EXPLAIN EXECUTE name(values)") from None
    return shown


NAMESPACE: Final = "http://www.postgresql.org/2009/explain"
NO_ELEMENT: Final = re.compile(r"[^\w.-]")
NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Letters that no document of XML can have."""
NO_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Letters that no text of YAML can have as they are, or that end its lines."""


def formatted(tree: dict[str, Any], format_: str) -> str:
    """One statement's tree as a document, in which it is the only one."""
    match format_:
        case "JSON":
            return json.dumps([tree], indent=2, ensure_ascii=False)
        case "YAML":
            return "\n".join(_yaml([tree], ""))
        case _:
            lines = ("<Query>", *(f"  {line}" for line in _xml(tree)), "</Query>")
            inside = "\n".join(f"  {line}" for line in lines)
            return f'<explain xmlns="{NAMESPACE}">\n{inside}\n</explain>'


def _yaml(value: Any, indent: str) -> Iterator[str]:
    """A list or an object in block style; single values are written as in JSON, which YAML reads."""
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict):
                first, *rest = _yaml(one, indent + "  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{indent}- {_single(one)}"
        return
    for name, one in value.items():
        if isinstance(one, dict | list) and one:
            yield f"{indent}{name}:"
            yield from _yaml(one, indent + "  ")
        else:
            yield f"{indent}{name}: {_single(one)}"


def _single(value: Any) -> str:
    # Of JSON's escapes YAML reads all but pairs of surrogates.
    text = json.dumps(value, ensure_ascii=False)
    return NO_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _xml(tree: dict[str, Any]) -> Iterator[str]:
    for name, value in tree.items():
        yield from _element(NO_ELEMENT.sub("-", name), value)


def _element(name: str, value: Any) -> Iterator[str]:
    inside: Iterator[str]
    match value:
        case dict():
            inside = _xml(value)
        case list():
            inside = (
                line for one in value for line in _element("Plan" if isinstance(one, dict) else "Item", one)
            )
        case _:
            text = json.dumps(value) if isinstance(value, bool | int | float) else str(value)
            known = escape(NO_XML.sub("\ufffd", text), {"\r": "&#x0d;"})
            yield f"<{name}>{known}</{name}>"
            return
    yield f"<{name}>"
    yield from (f"  {line}" for line in inside)
    yield f"</{name}>"


def show_tables(engine: Engine, _: ast.ShowTables) -> Result:
    """SHOW TABLES."""
    return tables_and_views(engine)


def tables_and_views(engine: Engine) -> Result:
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


def describe(engine: Engine, statement: ast.Describe) -> Result:
    """DESCRIBE: the columns of a relation."""
    schema = engine.catalog.get(statement.name).schema
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


def verify(engine: Engine, view: Maintained) -> None:
    """Raise InternalError naming a row in which the view differs from its query, if there is one."""
    if engine.executor.has_pending:
        raise InterfaceError("a view cannot be verified while changes are pending", hint="commit first")
    if not view.sql:
        raise InterfaceError(f"{view.name} is exported by a dataflow: it has no query to verify")
    catalog = engine.expanded_catalog()
    entry = catalog.get(view.name)
    if view.name in engine.views.followed and isinstance(entry, ViewEntry):
        # Its tables have changed since it was written: what it means is kept, what it says is not.
        planned = plan_view_entry(entry, view.reader, catalog, engine.statistics)
    else:
        bound = lower_query(parse_query(view.sql), catalog, kept=True)
        planned = plan_bound(bound, catalog, engine.statistics)
    expected, expected_diff = engine.recompute(planned)
    kept, kept_diff = view.installed.rows()
    wrong = Updates.concat(
        [Updates.of(kept, (0,), kept_diff), Updates.of(expected, (0,), -expected_diff)]
    ).consolidate()
    if len(wrong):
        shown = [f"{row} {diff:+d}" for row, _, diff in view.reader.changes([wrong])[:3]]
        raise InternalError(
            f"view {view.name} differs from its query in {len(wrong)} rows",
            hint=f"kept - expected: {', '.join(shown)}",
        )


def verify_view(engine: Engine, statement: ast.VerifyView) -> Result:
    """VERIFY: the view's name and its number of rows, if it is what its query says."""
    view = engine.view(statement.name)
    if engine.catalog.is_limited:
        check_relation(engine.catalog, statement.name)
    verify(engine, view)
    return listing({"view": (TEXT, [view.name]), "rows": (BIGINT, [view.count()])})
