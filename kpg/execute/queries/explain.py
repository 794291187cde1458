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

from kpg.api.result import Result, listing, plan_result
from kpg.api.view import MaintainedView
from kpg.compiler.catalog.entries import KEY_TABLE_PREFIX, TableEntry, ViewEntry
from kpg.compiler.sql.frontend import check_relation, lower_query
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.generic_plans import name_parameters
from kpg.compiler.sql.parse.parser import parse, parse_query
from kpg.execute.changes.modifying_queries import explain_modifying
from kpg.execute.queries.query_plan import explain, explain_export, plan_bound, plan_view_entry
from kpg.runtime.errors import Error, InterfaceError, InternalError, NotSupportedError, ProgrammingError
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import BIGINT, BOOLEAN, JSON, TEXT, Type
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.compiler.explain import ExplainOutput


def run_explain(engine: Engine, statement: ast.Explain | ast.ExplainView) -> Result:
    """Run EXPLAIN. ANALYZE also runs the statement and reports its row count and time."""
    options, start = statement.options, perf_counter()
    with engine.transactions.statement(changes=False):
        plan = _explain(engine, statement, statement.stage)
    facts: dict[str, Any] = {}
    planning, started = 1000 * (perf_counter() - start), perf_counter()
    if options.analyze and isinstance(statement, ast.Explain):
        outcome = engine.nested_execution.execute(engine, statement.statement)
        if isinstance(outcome, Result):
            facts["Actual Rows"] = outcome.rowcount
    running = 1000 * (perf_counter() - started)
    times = {"Planning Time": planning} if options.has_summary else {}
    times |= {"Execution Time": running} if options.has_summary and options.analyze else {}
    if options.timing and options.analyze and options.format != "TEXT":
        facts["Actual Total Time"] = round(running, 3)
    return _explanation(plan, options, facts, times)


def _explanation(
    plan: "ExplainOutput", options: ast.ExplainOptions, facts: dict[str, Any], times: dict[str, float]
) -> Result:
    if options.format == "TEXT":
        lines = [f"{name}: {value}" for name, value in facts.items()]
        lines += [f"{name}: {value:.3f} ms" for name, value in times.items()]
        return plan_result("\n".join((plan.text(), *lines)))

    tree = plan.tree()
    tree.setdefault("Plan", {}).update(facts) if facts else None
    tree |= {name: round(value, 3) for name, value in times.items()}
    return plan_result(format_tree(tree, options.format), type_=output_type(options), in_one_row=True)


def output_type(options: ast.ExplainOptions) -> Type:
    """Return the type of EXPLAIN's only column."""
    return JSON if options.format == "JSON" else TEXT


def is_explainable(statement: ast.Statement) -> bool:
    """Whether :func:`explain_statement` accepts a statement."""
    return isinstance(statement, ast.Explain | ast.ExplainView | ast.Select | ast.CreateView)


def explain_statement(engine: Engine, statement: ast.Statement, stage: str) -> str:
    """Return the present plan of a query, of a view's query, or of the statement of an EXPLAIN."""
    with engine.transactions.statement(changes=False):
        return _explain(engine, statement, stage).text()


def _explain(engine: Engine, statement: ast.Statement, stage: str) -> "ExplainOutput":
    if isinstance(statement, ast.ExplainView):
        return explain_view(engine, statement, stage)
    options = statement.options if isinstance(statement, ast.Explain) else ast.ExplainOptions()
    query = statement.statement if isinstance(statement, ast.Explain) else statement
    if isinstance(query, ast.ModifyingWith):
        return explain_modifying(engine, query, costs=options.costs)
    assert isinstance(query, ast.Explainable)
    if options.generic:
        return _explain_generic(engine, query, stage, costs=options.costs)
    return explain(query, stage, engine.reading_catalog, engine.statistics, costs=options.costs)


def _explain_generic(engine: Engine, query: ast.Explainable, stage: str, *, costs: bool) -> "ExplainOutput":
    """Return the plan of a query with unbound parameters."""

    try:
        shown = explain(query, stage, engine.reading_catalog, engine.statistics, costs=costs)
        if shown.printer is not None:
            shown.printer.query = name_parameters(shown.printer.query)
    except Error:
        raise
    except Exception:
        # The placeholder is no ordinary constant: any exception means that the plan depends on its value.
        message = "EXPLAIN of a plan that depends on the value of a parameter is not supported"
        raise NotSupportedError(message, span=query.span, hint="EXPLAIN EXECUTE name(values)") from None
    return shown


NAMESPACE: Final = "http://www.postgresql.org/2009/explain"
INVALID_IN_NAME: Final = re.compile(r"[^\w.-]")
INVALID_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document can contain."""
ESCAPED_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML text cannot contain unescaped, or that end its lines."""


def format_tree(tree: dict[str, Any], format_: str) -> str:
    """Return the tree of one statement as a document."""
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
    """Yield a list or an object in block style; scalars are in JSON syntax, which YAML accepts."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                first, *rest = _yaml(item, indent + "  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{indent}- {_single(item)}"
        return
    for name, item in value.items():
        if isinstance(item, dict | list) and item:
            yield f"{indent}{name}:"
            yield from _yaml(item, indent + "  ")
        else:
            yield f"{indent}{name}: {_single(item)}"


def _single(value: Any) -> str:
    # YAML accepts all JSON escapes except surrogate pairs.
    text = json.dumps(value, ensure_ascii=False)
    return ESCAPED_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _xml(tree: dict[str, Any]) -> Iterator[str]:
    for name, value in tree.items():
        yield from _element(INVALID_IN_NAME.sub("-", name), value)


def _element(name: str, value: Any) -> Iterator[str]:
    inside: Iterator[str]
    match value:
        case dict():
            inside = _xml(value)
        case list():
            inside = (
                line
                for item in value
                for line in _element("Plan" if isinstance(item, dict) else "Item", item)
            )
        case _:
            text = json.dumps(value) if isinstance(value, bool | int | float) else str(value)
            known = escape(INVALID_IN_XML.sub("\ufffd", text), {"\r": "&#x0d;"})
            yield f"<{name}>{known}</{name}>"
            return
    yield f"<{name}>"
    yield from (f"  {line}" for line in inside)
    yield f"</{name}>"


def show_tables(engine: Engine, _: ast.ShowTables) -> Result:
    """Run SHOW TABLES."""
    return tables_and_views(engine)


def tables_and_views(engine: Engine) -> Result:
    """Return the name, the kind and the stored row count of every table and view."""
    names, kinds = [], []
    rows: list[int | None] = []
    for entry in engine.catalog:
        if entry.name.startswith(KEY_TABLE_PREFIX):
            continue
        names.append(entry.name)
        if isinstance(entry, TableEntry):
            kinds.append("table")
            rows.append(engine.executor.tables.count(entry.name))
        else:
            maintained = engine.views.get(entry.name)
            kinds.append("view" if maintained is None else "materialized view")
            rows.append(None if maintained is None else maintained.count())
    return listing({"name": (TEXT, names), "kind": (TEXT, kinds), "rows": (BIGINT, rows)})


def describe(engine: Engine, statement: ast.Describe) -> Result:
    """Run DESCRIBE: return the columns of a relation."""
    schema = engine.catalog.get(statement.name).schema
    return listing(
        {
            "column": (TEXT, list(schema.names)),
            "type": (TEXT, [str(type_) for type_ in schema.types]),
            "nullable": (BOOLEAN, [column.nullable for column in schema.columns]),
            "key": (BOOLEAN, [index in schema.primary_key for index in range(len(schema.columns))]),
        }
    )


def explain_view(engine: Engine, statement: ast.ExplainView, stage: str) -> "ExplainOutput":
    """Return the plan that maintains a view, or that of a plain view's rows; ProgrammingError for a table."""

    entry = engine.catalog.get(statement.relation, statement.place)
    if isinstance(entry, TableEntry):
        hint = f"the plan of a query: EXPLAIN SELECT * FROM {statement.relation}"
        raise ProgrammingError(f'"{entry.name}" is a table', span=statement.place, hint=hint)
    maintained = engine.views.get(entry.name)
    if maintained is not None and maintained.plan is not None:
        return explain_export(
            maintained.name,
            maintained.plan,
            stage,
            engine.catalog,
            engine.statistics,
            costs=statement.options.costs,
        )
    text = (
        f"SELECT * FROM {statement.relation}" if maintained is None else f"CREATE VIEW v AS {maintained.sql}"
    )
    (query,) = parse(text)
    assert isinstance(query, ast.Explainable)
    return explain(query, stage, engine.reading_catalog, engine.statistics, costs=statement.options.costs)


def verify(engine: Engine, view: MaintainedView) -> None:
    """Recompute a view and raise InternalError, naming a row, if its contents differ."""
    if engine.executor.tables.has_pending:
        raise InterfaceError("a view cannot be verified while changes are pending", hint="commit first")
    if not view.sql:
        raise InterfaceError(f"{view.name} is exported by a dataflow: it has no query to verify")
    catalog = engine.expanded_catalog()
    entry = catalog.get(view.name)
    if view.name in engine.views.stale_texts and isinstance(entry, ViewEntry):
        # Its tables were altered after CREATE VIEW: the stored definition counts, not the text.
        planned = plan_view_entry(entry, view.reader, catalog, engine.statistics)
    else:
        bound = lower_query(parse_query(view.sql), catalog, is_view=True)
        planned = plan_bound(bound, catalog, engine.statistics)
    expected, expected_diff = engine.recompute(planned)
    contents, contents_diff = view.installation.rows()
    difference = Updates.concat(
        [Updates.of(contents, (0,), contents_diff), Updates.of(expected, (0,), -expected_diff)]
    ).consolidate()
    if len(difference):
        shown = [f"{row} {diff:+d}" for row, _, diff in view.reader.changes([difference])[:3]]
        raise InternalError(
            f"view {view.name} differs from its query in {len(difference)} rows",
            hint=f"kept - expected: {', '.join(shown)}",
        )


def verify_view(engine: Engine, statement: ast.VerifyView) -> Result:
    """Run VERIFY: return the view's name and row count if its contents are correct."""
    view = engine.view(statement.name)
    if engine.catalog.checks_privileges:
        check_relation(engine.catalog, statement.name)
    verify(engine, view)
    return listing({"view": (TEXT, [view.name]), "rows": (BIGINT, [view.count()])})
