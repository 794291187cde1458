"""Ego views: translates the arguments of ``db.ego`` into SQL, and creates the view.

The view's text is its meaning in plain SQL. View expansion, EXPLAIN ROW and recovery therefore treat it like
any other view.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from kpg.api.view import MaintainedView
from kpg.compiler.algebra.rel import Get
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.entries import CLOCK, ViewEntry
from kpg.compiler.ego import EgoQuery, ego_plan
from kpg.compiler.sql.parse.definitions import CreateEgoView
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import CreateView, Select, Statement
from kpg.execute.queries.query_plan import PlannedStatement, plan, plan_view, relations_of
from kpg.runtime.errors import InterfaceError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine

CONSTRUCTIONS: Final = ("none", "vnm", "vnm_a", "vnm_n", "vnm_d", "iob")
MODES: Final = ("auto", "push", "pull")
DEFAULT: Final = "vnm_a"
Window = int | timedelta | str | tuple[str, float] | None


@dataclass(frozen=True, slots=True)
class EgoViewOptions:
    """The arguments of an ego view; see :meth:`kpg.api.database.Database.ego`."""

    name: str
    edges: str
    writes: str
    aggregate: str
    window: Window
    neighbourhood: str
    where: str | None
    readers: str | None
    mode: str
    overlay: str
    continuous: str | None = None
    replace: bool = False


def create_ego_view(engine: Engine, statement: CreateEgoView) -> None:
    """Run CREATE EGO VIEW."""
    options = {"mode": "auto", "overlay": DEFAULT, **dict(statement.options)}
    view_options = EgoViewOptions(
        statement.name, statement.edges, statement.writes, statement.aggregate, statement.window,
        statement.neighbourhood, statement.where, statement.readers, options["mode"], options["overlay"],
        statement.continuous, statement.or_replace,
    )  # fmt: skip
    create_from_options(engine, view_options)


def create_from_options(engine: Engine, options: EgoViewOptions) -> MaintainedView:
    """Create the view."""
    mode = "push" if options.mode == "continuous" else options.mode
    _check_choice("mode", mode, (*MODES, "continuous"))
    _check_choice("overlay", options.overlay, CONSTRUCTIONS)
    query = ego_query(engine, options)
    statement = parse_single(f"CREATE MATERIALIZED VIEW {_quote_name(options.name)} AS {query.sql}")
    assert isinstance(statement, CreateView)
    engine.refuse_in_transaction("CREATE EGO VIEW")
    catalog, statistics = engine.catalog, engine.statistics
    meaning = plan_view(statement, catalog, statistics)
    if any(isinstance(node, Get) and node.name == CLOCK for node in walk(meaning.rel)):
        engine.clock.create_row()

    def plan_part(text: str) -> PlannedStatement:
        part = parse_single(f"CREATE MATERIALIZED VIEW part AS {text}")  # so that now() goes on
        assert isinstance(part, CreateView)
        return plan_view(part, catalog, statistics)

    plan = ego_plan(
        plan_part(query.pairs).plan, plan_part(query.by_writer_sql).plan,
        lambda: plan_part(query.writes_sql).plan, query.aggregate, options.overlay, mode,
        plan_part(query.continuous).plan if query.continuous else None,
    )  # fmt: skip
    planned_view = PlannedStatement(meaning.rel, plan, meaning.schema, meaning.types, meaning.order)
    entry = ViewEntry(
        options.name, planned_view.schema, planned_view.rel, query.sql, True, planned_view.order
    )
    uses = relations_of(planned_view.rel, statement.query, catalog)
    maintained = engine.views.create_materialized(entry, planned_view, uses, replace_old=options.replace)
    maintained.plan = plan
    engine.commit_definitions()
    return maintained


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InterfaceError(f"there is no {option} {value!r}", hint=f"it is one of {', '.join(choices)}")


def ego_query(engine: Engine, options: EgoViewOptions) -> EgoQuery:
    """Return the SQL texts of the view's parts."""
    aggregate = options.aggregate.strip()
    if aggregate.isidentifier():
        aggregate = f"{aggregate}(value)"
    order, node, value = _quoted_columns(engine, options.writes, 3, "writes")
    source = _relation(options.writes)
    writes = f"SELECT {node} AS node, {value} AS value FROM {source}"
    match options.window:
        case None:
            pass
        case bool():
            raise InterfaceError(f"a window is a number of writes or a time, not {options.window!r}")
        case int(count):
            if count < 1:
                raise InterfaceError(f"a window has at least one write, not {count}")
            writes = (
                f"SELECT node, value FROM (SELECT {node} AS node, {value} AS value, row_number() OVER"
                f" (PARTITION BY {node} ORDER BY {order} DESC) AS number FROM {source}) AS numbered"
                f" WHERE number <= {count}"
            )
        case timedelta():
            writes += f" WHERE {order} > now() - INTERVAL '{options.window.total_seconds()} seconds'"
        case str():
            quoted = options.window.replace("'", "''")
            writes += f" WHERE {order} > now() - INTERVAL '{quoted}'"
        case ("range", span):
            writes += f" WHERE {order} > (SELECT max({order}) FROM {source}) - {span}"
        case _:
            raise InterfaceError(
                f"a window is not {options.window!r}",
                hint='give a number of writes, a timedelta or interval, or ("range", t)',
            )
    if aggregate.replace(" ", "").lower() != "count(*)":
        writes = f"SELECT node, value FROM ({writes}) AS known WHERE value IS NOT NULL"
    pairs = _neighbourhood_query(engine, options)
    return EgoQuery(pairs, writes, aggregate, _continuous_query(pairs, options.continuous))


def _neighbourhood_query(engine: Engine, options: EgoViewOptions) -> str:
    """Return a query of the distinct rows (reader, writer)."""
    direction, _, steps = options.neighbourhood.strip().lower().partition(" ")
    if direction in ("in", "out", "both") and steps in ("", "1", "2"):
        pairs = _one_step_query(engine, options, direction)
        if steps == "2":
            pairs = (
                f"WITH near AS ({pairs}) SELECT reader, writer FROM near UNION"
                " SELECT a.reader, b.writer FROM near AS a JOIN near AS b ON a.writer = b.reader"
            )
    else:
        reader, writer = _quoted_columns(engine, options.neighbourhood, 2, "neighbourhood")
        pairs = (
            f"SELECT DISTINCT {reader} AS reader, {writer} AS writer FROM {_relation(options.neighbourhood)}"
        )
    if options.readers is None:
        return pairs
    renamed = f"SELECT reader AS node, writer FROM ({pairs}) AS p"
    return f"SELECT node AS reader, writer FROM ({renamed}) AS q WHERE {_node_condition(options.readers)}"


def _node_condition(text: str) -> str:
    """Return a condition on ``node``: the given one, or membership in a query's result."""
    return f"node IN ({text})" if is_query(text) else text


def _continuous_query(pairs: str, text: str | None) -> str | None:
    """Return a query of the readers that are pushed in every mode."""
    if text is None:
        return None
    readers = f"SELECT DISTINCT reader AS node FROM ({pairs}) AS p"
    return f"SELECT node FROM ({readers}) AS q WHERE {_node_condition(text)}"


def _one_step_query(engine: Engine, options: EgoViewOptions, direction: str) -> str:
    """Return a query of readers and writers that are one step apart."""
    first, second = _quoted_columns(engine, options.edges, 2, "edges")
    condition = f" WHERE {options.where}" if options.where else ""
    source = f"{_relation(options.edges)}{condition}"
    out = f"{first} AS reader, {second} AS writer FROM {source}"
    into = f"{second} AS reader, {first} AS writer FROM {source}"
    if direction == "both":
        return f"SELECT {out} UNION SELECT {into}"
    return f"SELECT DISTINCT {out if direction == 'out' else into}"


def _relation(text: str) -> str:
    return f"({text}) AS given" if is_query(text) else _quote_name(text)


def is_query(text: str) -> bool:
    """Whether a text is a query rather than a name."""
    return text.strip().lower().startswith(("select ", "select\n", "with ", "values ", "values("))


def _quote_name(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _quoted_columns(engine: Engine, text: str, count: int, argument: str) -> list[str]:
    """Return the quoted names of the first columns of a relation."""
    if is_query(text):
        select = parse_single(text)
        assert isinstance(select, Select)
        names = plan(select, engine.catalog, engine.statistics).schema.names
    else:
        names = engine.catalog.get(text).schema.names
    if len(names) < count:
        raise ProgrammingError(f"{argument} needs {count} columns: {text.strip()} has {len(names)}")
    return [_quote_name(name) if "." not in name else f'"{name}"' for name in names[:count]]


def membership_condition(readers: Iterable[Any]) -> str:
    """Return a condition that holds for the given nodes."""
    literals = []
    for node in readers:
        if isinstance(node, str):
            literals.append("'" + node.replace("'", "''") + "'")
        elif isinstance(node, int) and not isinstance(node, bool):
            literals.append(str(node))
        else:
            raise InterfaceError(f"readers cannot be told by {node!r}", hint="give numbers, texts or a query")
    return f"node IN ({', '.join(literals)})" if literals else "FALSE"


def parse_single(text: str) -> Statement:
    """Return the only statement of a text; ProgrammingError for several, such as after a semicolon."""
    found = parse(text)
    if len(found) != 1:
        raise ProgrammingError(
            "a query or a condition is one, without a semicolon", span=Span(text, 0, len(text))
        )
    return found[0]
