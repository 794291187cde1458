"""The types of columns: what the binder says of real queries, what expressions read, what the data are."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kpg
from kpg.api.database import Database
from kpg.compiler.algebra.rel import types as rel_types
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.pipeline import compile_query
from kpg.compiler.sql.frontend import lower_query
from kpg.compiler.sql.parse.parser import parse_query
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import AnyNode, Columns, Mfp, Plan, Types
from kpg.runtime.render.fingerprint import Identities
from kpg.runtime.scalar import Column, Fetch, walk
from kpg.runtime.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    ROWID,
    TEXT,
    UNKNOWN,
    Kind,
    Type,
    common_word_type,
    decimal,
    have_same_words,
    rowid,
)
from kpg.tpch.data import QUERIES, create_statements, query_text
from tests.datadriven import read_cases
from tests.unit.compiler.physical.tiny import tiny_data
from tests.unit.compiler.sql.oracle import catalog_of
from tests.unit.compiler.sql.test_queries import (
    GROUPS,
    JOINS,
    SETS,
    SIMPLE,
    SUBQUERIES,
    TABLES,
    WITH,
    random_data,
)

TPCH = catalog_of("; ".join(create_statements().values()))
SMALL = catalog_of(TABLES)
GOLDEN = Path(__file__).parents[2] / "golden" / "physical" / "small.test"
EXAMPLES = sorted((Path(__file__).parents[3] / "datalog_examples").glob("*/*.dl"))
SMALL_QUERIES = [
    *(case.input for case in read_cases(GOLDEN) if case.command == "physical"),
    *(*SIMPLE, *JOINS, *GROUPS, *SETS, *WITH, *SUBQUERIES),
]


def agrees(found: Type, said: Type) -> bool:
    """Whether a column is what was said of it; NULL's own type goes with all."""
    return Kind.NULL in (found.kind, said.kind) or have_same_words(found, said)


def check_plan(columns: Columns) -> None:
    """Everything that is said of columns in the nodes of a plan, or of a loop's body."""
    for ref, node in enumerate(columns.nodes):
        check_expressions(node, columns)
        if isinstance(node, plan.HalfJoin):
            stream, arrangement = columns.types[node.input], columns.types[node.arrangement]
            for place, column in enumerate(node.key):
                assert agrees(stream[column], arrangement[place]), node
        if isinstance(node, plan.Loop):
            inner = columns.bodies[ref]
            for variable in (one for one in node.body if isinstance(one, plan.Variable)):
                result = inner.types[node.results[variable.index]]
                assert all(map(agrees, result, variable.types)) and len(result) == len(variable.types)
                assert ROWID not in variable.types  # what recurs are values
            check_plan(inner)


def check_expressions(node: AnyNode, columns: Columns) -> None:
    match node:
        case plan.Linear(input=ref, mfp=mfp) | plan.Delta(input=ref, mfp=mfp):
            check_mfp(mfp, columns.types[ref])
        case plan.HalfJoin(input=ref, arrangement=other, mfp=mfp):
            check_mfp(mfp, columns.types[ref] + columns.types[other])
        case plan.RangeJoin(left=left, right=right, mfp=mfp):
            check_mfp(mfp, columns.types[left] + columns.types[right])
        case _:
            pass


def check_mfp(mfp: Mfp, types: Types) -> None:
    for scalar in (part for whole in (*mfp.predicates, *mfp.outputs) for part in walk(whole)):
        if isinstance(scalar, Column):
            assert agrees(types[scalar.index], scalar.type), (scalar, types)
        if isinstance(scalar, Fetch):
            assert isinstance(scalar.rowid, Column) and types[scalar.rowid.index] == rowid(scalar.table)


def check_query(text: str, catalog: Catalog) -> None:
    bound = lower_query(parse_query(text), catalog)
    query = compile_query(bound).plan
    columns = Columns(query.nodes)
    check_plan(columns)
    found, said = columns.types[query.output], rel_types(bound.rel)
    assert len(found) == len(said) and all(map(agrees, found, said)), (found, said)


@pytest.mark.parametrize("number", QUERIES)
def test_columns_of_tpch(number: int) -> None:
    check_query(query_text(number), TPCH)


@pytest.mark.parametrize("text", SMALL_QUERIES)
def test_columns_of_small_queries(text: str) -> None:
    check_query(text, SMALL)


def check_data(db: Database, name: str, query: Plan) -> int:
    """The words that a plan's operators hold are what their columns are said to be; how often texts."""
    worker = db._engine.executor
    columns = Columns(query.nodes)
    names = Identities(columns, worker).names
    operators = {one.place.fingerprint: one for one in worker.views[name].operators}
    texts = 0
    for types, fingerprint in zip(columns.types, names, strict=True):
        operator = operators.get(fingerprint)
        if operator is None or not types:
            continue
        for updates in operator.snapshot():
            for type_, words in zip(types, updates.data, strict=True):
                texts += type_.is_text and len(words) > 0
                assert all_are(words[words != NULL], type_, db), (name, type_)
    return texts


def all_are(words: NDArray[np.int64], type_: Type, db: Database) -> bool:
    match type_.kind:
        case Kind.CHAR | Kind.VARCHAR:
            low, high = 0, len(db._engine.executor.dictionary)
        case Kind.ROWID if type_.table:
            low, high = 0, db._engine.executor.tables.by_name[type_.table].count
        case Kind.BOOLEAN:
            low, high = 0, 2
        case Kind.NULL | Kind.ROWID:
            low, high = 0, 0
        case Kind.DATE:
            low, high = 8000, 11000  # of the years that the tables have
        case _:
            return True
    return bool(((words >= low) & (words < high)).all())


def filled(script: str, data: Mapping[str, Sequence[tuple[object, ...]]]) -> Database:
    db = kpg.connect()
    db.sql(script)
    for table, rows in data.items():
        db.insert(table, list(rows))
    return db


@pytest.fixture(scope="module")
def tpch() -> Iterator[Database]:
    with filled("; ".join(create_statements().values()), tiny_data(seed=6)) as db:
        yield db


@pytest.mark.parametrize("number", QUERIES)
def test_data_of_tpch(number: int, tpch: Database) -> None:
    name = f"q{number}"
    tpch.sql(f"create materialized view {name} as {query_text(number)}")
    assert check_data(tpch, name, tpch._engine.views.plans[name]) >= (number in (1, 2, 10, 16))


def test_data_of_small_queries() -> None:
    with filled(TABLES, random_data(7)) as db:
        catalog = db._engine.catalog
        for place, text in enumerate(SMALL_QUERIES):
            query = compile_query(lower_query(parse_query(text), catalog)).plan
            db._engine.executor.install(f"v{place}", query)
            check_data(db, f"v{place}", query)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_datalog_examples(path: Path) -> None:
    with kpg.connect() as db:
        schema = path.parent / "schema.sql"
        if schema.exists():
            db.sql(schema.read_text())
        db.datalog(path.read_text(), filename=str(path), facts=path.parent / "facts")
        for name, query in db._engine.views.plans.items():
            check_plan(Columns(query.nodes))
            check_data(db, name, query)


@pytest.mark.parametrize(
    "name", ["transitive_closure", "triangles", "strongly_connected_components", "connected_components"]
)
def test_graphs(name: str) -> None:
    with kpg.connect() as db:
        flow = db.dataflow("flow")
        edges = flow.input("edges", src=int, dst=int)
        getattr(kpg.graph, name)(edges).export("found")
        edges.insert([(1, 2), (2, 3), (1, 3), (3, 1)])
        edges.close()
        flow.step()
        query = db._engine.views["found"].plan
        assert query is not None
        check_plan(Columns(query.nodes))
        check_data(db, "found", query)
        assert len(db.query("select * from found")) >= 1


def test_rowids_have_their_table() -> None:
    nodes = (
        plan.Source("t"),
        plan.Linear(0, Mfp((), (Fetch("t", 2, Column(0, ROWID), TEXT), Column(0, ROWID)))),
        plan.Arrange(1, 1),
        plan.Reduce(1, 1, (plan.Aggregate("count", None, BIGINT), plan.Aggregate("sum", 1, decimal(9, 2)))),
    )
    assert Columns(nodes).types == [
        (rowid("t"),),
        (TEXT, rowid("t")),
        (TEXT, rowid("t")),
        (TEXT, BIGINT, decimal(18, 2)),
    ]
    assert str(rowid("t")) == "ROWID(t)"


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ((INTEGER, BIGINT), BIGINT),
        ((UNKNOWN, DATE), DATE),
        ((UNKNOWN,), UNKNOWN),
        ((Type(Kind.CHAR, 3), Type(Kind.CHAR, 3)), Type(Kind.CHAR, 3)),
        ((Type(Kind.CHAR, 3), TEXT), TEXT),
        ((decimal(5, 2), decimal(9, 2)), decimal(9, 2)),
        ((ROWID, rowid("t")), rowid("t")),
        ((rowid("t"), rowid("u")), None),
        ((rowid("t"), BIGINT), None),
        ((TEXT, BIGINT), None),
        ((decimal(5, 2), decimal(5, 3)), None),
        ((DOUBLE, BIGINT), None),
    ],
)
def test_what_can_stand_in_one_column(types: Types, common: Type | None) -> None:
    assert common_word_type(types) == common


def test_a_sum_of_texts_and_numbers_is_refused() -> None:
    nodes = (plan.Import("a", (TEXT,)), plan.Import("b", (BIGINT,)), plan.Concat((0, 1)))
    with pytest.raises(InternalError, match="column 0 of a sum has words of several kinds: VARCHAR, BIGINT"):
        Columns(nodes)


def test_a_loop_reads_what_is_around_it() -> None:
    with pytest.raises(InternalError, match="Enter outside of a loop"):
        Columns((plan.Enter(0),))
    with pytest.raises(InternalError, match="Leave of a node that is not a loop"):
        Columns((plan.Source("t"), plan.Leave(0, 0)))
