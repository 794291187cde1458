"""Ego views: translates the arguments of ``db.ego`` into SQL, and creates the view.

The view's text is its meaning in plain SQL. View expansion, EXPLAIN ROW and recovery therefore treat it like
any other view.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from kpg.api.view import Maintained
from kpg.compiler.algebra.rel import Get
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.entries import CLOCK, ViewEntry
from kpg.compiler.ego import EgoQuery, ego_plan
from kpg.compiler.sql.parse.definitions import CreateEgoView
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.statements import CreateView, Select, Statement
from kpg.execute.queries.query_plan import Planned, plan, plan_view, relations_of
from kpg.runtime.errors import InterfaceError, ProgrammingError, Span
from kpg.runtime.records import dataclass
from kpg.session.engine import Engine

CONSTRUCTIONS: Final = ("none", "vnm", "vnm_a", "vnm_n", "vnm_d", "iob")
MODES: Final = ("auto", "push", "pull")
DEFAULT: Final = "vnm_a"
Window = int | timedelta | str | tuple[str, float] | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: see :meth:`Egos.ego`."""

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
    """CREATE EGO VIEW."""
    options = {"mode": "auto", "overlay": DEFAULT, **dict(statement.options)}
    asked = Asked(
        statement.name, statement.edges, statement.writes, statement.aggregate, statement.window,
        statement.neighbourhood, statement.where, statement.readers, options["mode"], options["overlay"],
        statement.continuous, statement.or_replace,
    )  # fmt: skip
    create(engine, asked)


def create(engine: Engine, asked: Asked) -> Maintained:
    """Make the view."""
    mode = "push" if asked.mode == "continuous" else asked.mode
    _one_of("mode", mode, (*MODES, "continuous"))
    _one_of("overlay", asked.overlay, CONSTRUCTIONS)
    query = query_of(engine, asked)
    statement = single(f"CREATE MATERIALIZED VIEW {_quoted(asked.name)} AS {query.meaning}")
    assert isinstance(statement, CreateView)
    engine.refuse_in_transaction("CREATE EGO VIEW")
    catalog, statistics = engine.catalog, engine.statistics
    meaning = plan_view(statement, catalog, statistics)
    if any(isinstance(node, Get) and node.name == CLOCK for node in walk(meaning.rel)):
        engine.clock.keep()

    def planned(text: str) -> Planned:
        part = single(f"CREATE MATERIALIZED VIEW part AS {text}")  # so that now() goes on
        assert isinstance(part, CreateView)
        return plan_view(part, catalog, statistics)

    made = ego_plan(
        planned(query.pairs).plan, planned(query.by_writer).plan, lambda: planned(query.written).plan,
        query.aggregate, asked.overlay, mode, planned(query.continuous).plan if query.continuous else None,
    )  # fmt: skip
    kept = Planned(meaning.rel, made, meaning.schema, meaning.types, meaning.order)
    entry = ViewEntry(asked.name, kept.schema, kept.rel, query.meaning, True, kept.order)
    uses = relations_of(kept.rel, statement.query, catalog)
    maintained = engine.views.create_materialized(entry, kept, uses, replace_old=asked.replace)
    maintained.plan = made
    engine.keep()
    return maintained


def _one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InterfaceError(f"there is no {what} {given!r}", hint=f"it is one of {', '.join(known)}")


def query_of(engine: Engine, asked: Asked) -> EgoQuery:
    """The texts of what was asked."""
    aggregate = asked.aggregate.strip()
    if aggregate.isidentifier():
        aggregate = f"{aggregate}(value)"
    order, node, value = _columns(engine, asked.writes, 3, "writes")
    source = _relation(asked.writes)
    writes = f"SELECT {node} AS node, {value} AS value FROM {source}"
    match asked.window:
        case None:
            pass
        case bool():
            raise InterfaceError(f"a window is a number of writes or a time, not {asked.window!r}")
        case int(count):
            if count < 1:
                raise InterfaceError(f"a window has at least one write, not {count}")
            writes = (
                f"SELECT node, value FROM (SELECT {node} AS node, {value} AS value, row_number() OVER"
                f" (PARTITION BY {node} ORDER BY {order} DESC) AS number FROM {source}) AS numbered"
                f" WHERE number <= {count}"
            )
        case timedelta():
            writes += f" WHERE {order} > now() - INTERVAL '{asked.window.total_seconds()} seconds'"
        case str():
            quoted = asked.window.replace("'", "''")
            writes += f" WHERE {order} > now() - INTERVAL '{quoted}'"
        case ("range", span):
            writes += f" WHERE {order} > (SELECT max({order}) FROM {source}) - {span}"
        case _:
            raise InterfaceError(
                f"a window is not {asked.window!r}",
                hint='give a number of writes, a timedelta or interval, or ("range", t)',
            )
    if aggregate.replace(" ", "").lower() != "count(*)":
        writes = f"SELECT node, value FROM ({writes}) AS known WHERE value IS NOT NULL"
    pairs = _pairs(engine, asked)
    return EgoQuery(pairs, writes, aggregate, _continuous(pairs, asked.continuous))


def _pairs(engine: Engine, asked: Asked) -> str:
    """Rows (reader, writer), each once."""
    direction, _, steps = asked.neighbourhood.strip().lower().partition(" ")
    if direction in ("in", "out", "both") and steps in ("", "1", "2"):
        pairs = _around(engine, asked, direction)
        if steps == "2":
            pairs = (
                f"WITH near AS ({pairs}) SELECT reader, writer FROM near UNION"
                " SELECT a.reader, b.writer FROM near AS a JOIN near AS b ON a.writer = b.reader"
            )
    else:
        reader, writer = _columns(engine, asked.neighbourhood, 2, "neighbourhood")
        pairs = (
            f"SELECT DISTINCT {reader} AS reader, {writer} AS writer FROM {_relation(asked.neighbourhood)}"
        )
    if asked.readers is None:
        return pairs
    renamed = f"SELECT reader AS node, writer FROM ({pairs}) AS p"
    return f"SELECT node AS reader, writer FROM ({renamed}) AS q WHERE {_of_nodes(asked.readers)}"


def _of_nodes(given: str) -> str:
    """A condition on ``node``: as it was given, or whether a query has it."""
    return f"node IN ({given})" if is_query(given) else given


def _continuous(pairs: str, given: str | None) -> str | None:
    """The readers that are pushed anyway."""
    if given is None:
        return None
    return (
        f"SELECT node FROM (SELECT DISTINCT reader AS node FROM ({pairs}) AS p) AS q WHERE {_of_nodes(given)}"
    )


def _around(engine: Engine, asked: Asked, direction: str) -> str:
    """Readers and writers one step apart."""
    first, second = _columns(engine, asked.edges, 2, "edges")
    condition = f" WHERE {asked.where}" if asked.where else ""
    source = f"{_relation(asked.edges)}{condition}"
    out = f"{first} AS reader, {second} AS writer FROM {source}"
    into = f"{second} AS reader, {first} AS writer FROM {source}"
    if direction == "both":
        return f"SELECT {out} UNION SELECT {into}"
    return f"SELECT DISTINCT {out if direction == 'out' else into}"


def _relation(text: str) -> str:
    return f"({text}) AS given" if is_query(text) else _quoted(text)


def is_query(text: str) -> bool:
    """Whether a text is a query rather than a name."""
    return text.strip().lower().startswith(("select ", "select\n", "with ", "values ", "values("))


def _quoted(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _columns(engine: Engine, text: str, count: int, what: str) -> list[str]:
    """The first columns of a relation, quoted."""
    if is_query(text):
        select = single(text)
        assert isinstance(select, Select)
        names = plan(select, engine.catalog, engine.statistics).schema.names
    else:
        names = engine.catalog.get(text).schema.names
    if len(names) < count:
        raise ProgrammingError(f"{what} needs {count} columns: {text.strip()} has {len(names)}")
    return [_quoted(name.replace(".", ".")) if "." not in name else f'"{name}"' for name in names[:count]]


def listed(readers: Iterable[Any]) -> str:
    """A condition that holds for these nodes."""
    listed = []
    for node in readers:
        if isinstance(node, str):
            listed.append("'" + node.replace("'", "''") + "'")
        elif isinstance(node, int) and not isinstance(node, bool):
            listed.append(str(node))
        else:
            raise InterfaceError(f"readers cannot be told by {node!r}", hint="give numbers, texts or a query")
    return f"node IN ({', '.join(listed)})" if listed else "FALSE"


def single(text: str) -> Statement:
    """The statement that a text is; an error if it is several, as one with a semicolon in a condition is."""
    found = parse(text)
    if len(found) != 1:
        raise ProgrammingError(
            "a query or a condition is one, without a semicolon", span=Span(text, 0, len(text))
        )
    return found[0]
