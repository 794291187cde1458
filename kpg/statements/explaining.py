"""EXPLAIN of statements: their plans as they would run now, as text or in Postgres' other formats."""

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kpg.compiler.sql.parse import statements as ast
from kpg.engine.engine import Engine
from kpg.queries.planning import explain
from kpg.result import Explanation, Result
from kpg.runtime.errors import Error, NotSupportedError
from kpg.runtime.types import JSON, TEXT, Type

if TYPE_CHECKING:
    from kpg.compiler.explain import Shown

Run = Callable[[Engine, ast.Statement], object]


def run_explain(engine: Engine, statement: ast.Explain | ast.ExplainView, execute: Run) -> Explanation:
    """EXPLAIN. With ANALYZE the statement is run, too: how many rows it gave, and how long it took."""
    how, start = statement.how, perf_counter()
    with engine.transactions.statement(changes=False):
        shown = _shown(engine, statement, statement.stage)
    facts: dict[str, Any] = {}
    planning, started = 1000 * (perf_counter() - start), perf_counter()
    if how.analyze and isinstance(statement, ast.Explain):
        outcome = execute(engine, statement.statement)
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
) -> Explanation:
    if how.format == "TEXT":
        told = [f"{name}: {value}" for name, value in facts.items()]
        told += [f"{name}: {value:.3f} ms" for name, value in times.items()]
        return Explanation("\n".join((shown.text(), *told)))
    from kpg.statements.plan_formats import formatted

    tree = shown.tree()
    tree.setdefault("Plan", {}).update(facts) if facts else None
    tree |= {name: round(value, 3) for name, value in times.items()}
    return Explanation(formatted(tree, how.format), type_=type_of(how), whole=True)


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
        from kpg.statements.showing import explain_view

        return explain_view(engine, statement, stage)
    how = statement.how if isinstance(statement, ast.Explain) else ast.Explaining()
    query = statement.statement if isinstance(statement, ast.Explain) else statement
    if isinstance(query, ast.Modifying):
        from kpg.dml.modifying import explain_modifying

        return explain_modifying(engine, query, costs=how.costs)
    assert isinstance(query, ast.Explained)
    if how.generic:
        return _generic(engine, query, stage, costs=how.costs)
    return explain(query, stage, engine.reading_catalog, engine.statistics, costs=how.costs)


def _generic(engine: Engine, query: ast.Explained, stage: str, *, costs: bool) -> "Shown":
    """The plan of a query whose parameters may have any values."""
    from kpg.compiler.sql.parameterize.generic_plans import named

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
