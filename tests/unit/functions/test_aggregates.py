"""Aggregates: examples, what their records claim, and the compiled path against their algorithms."""

import ast
import datetime
import decimal
import math
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kpg
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.functions import (
    AggregateFunction,
    CallForm,
    Trend,
    aggregate_names,
    aggregates,
    compute_aggregate,
    resolve_aggregate,
)
from kpg.runtime.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, Type, float_to_word, range_of
from kpg.runtime.types import decimal as decimal_type
from kpg.runtime.values import codec_of
from kpg.runtime.values.arrays import Array
from kpg.runtime.values.jsons import Json, show

ROOT = Path(__file__).parents[3]
ALL = list(aggregates())
EXAMPLES = [
    pytest.param(one, rows, expected, id=f"{one.name}: {rows}")
    for one in ALL
    for rows, expected in one.examples.items()
]
TYPES: dict[str, Type] = {
    "i": INTEGER,
    "b": BIGINT,
    "d": decimal_type(9, 2),
    "f": DOUBLE,
    "t": TEXT,
    "u": BOOLEAN,
    "day": DATE,
    "p": DOUBLE,
    "h": DOUBLE,
    "r": range_of(INTEGER),
}
"""Columns; ``p`` has fractions."""
VALUES: dict[str, list[Any]] = {
    "i": [None, -3, 0, 2, 5],
    "b": [None, -(2**61), 7, 2**60],
    "d": [None, -125, 50, 99999],
    "f": [None, -0.1, 0.2, 1e100, 2.5e-300, 3.0],
    "t": [None, "", "a", "b", "bá"],
    "u": [None, True, False],
    "day": [None, 0, 19000, -7],
    "p": [0.25],
    "h": [None, 0.0, 0.5, 12.0, -7.25],
    "r": [None, (), (((0, 1, 0), (0, 5, 0)),), (((0, 3, 0), (0, 9, 0)),), (((-1,), (0, 2, 0)),)],
}
FRACTIONS = {"percentile_cont", "percentile_disc", "quantile_cont"}
HYPOTHETICAL = {"rank", "dense_rank", "percent_rank", "cume_dist"}
JSONS = {name for name in aggregate_names() if name.startswith("json")}
FOREIGN = {*HYPOTHETICAL, *JSONS, "array_agg", "list"}
"""What DuckDB has by these names means something else there, or shows it otherwise."""
IN_DUCKDB = {
    name for (name,) in duckdb.sql("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
}
"""The functions that DuckDB has; ``tests/oracle/sql`` has Postgres for others."""
EPOCH = datetime.date(1970, 1, 1)


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def query(function: AggregateFunction, rows: str, expected: str) -> str:
    """The aggregate over the rows; later operands that are constant stand in the call (DuckDB asks so)."""
    columns = list(zip(*(row.split(", ") for row in re.findall(r"\((.*?)\)", rows)), strict=True))
    constant = [column[0] if len(set(column)) == 1 else None for column in columns[1:]]
    written = ["x", *(value or f"y{place}" for place, value in enumerate(constant))]
    names = ", ".join(["x", *(f"y{place}" for place in range(len(constant)))])
    values = ", ".join(f"({', '.join(row)})" for row in zip(*columns, strict=True))
    call = calling(function, "", written)
    return f"SELECT {call} AS got, {expected} AS expected FROM (VALUES {values}) AS v({names})"


def calling(function: AggregateFunction, distinct: str, operands: Sequence[str]) -> str:
    """A call over operands, in their own order where that matters."""
    if function.form is not CallForm.PLAIN:
        direct = ["0.25" if operand == "p" else operand for operand in operands[1:]]
        return f"{function.name}({', '.join(direct)}) WITHIN GROUP (ORDER BY {operands[0]})"
    order = f" ORDER BY {operands[0]}" if function.finish_in_order is not None else ""
    return f"{function.name}({distinct}{', '.join(operands)}{order})"


def same(left: Any, right: Any) -> bool:
    if isinstance(left, decimal.Decimal | float) and right is not None:
        return math.isclose(float(left), float(right), rel_tol=1e-12)
    return bool(left == right)


@pytest.mark.parametrize(("function", "rows", "expected"), EXAMPLES)
def test_example(
    function: AggregateFunction, rows: str, expected: str, oracle: duckdb.DuckDBPyConnection
) -> None:
    text = query(function, rows, expected)
    ((got, wanted),) = kpg.connect().sql(text).fetchall()
    assert same(got, wanted), (got, wanted)
    if function.name in FOREIGN or function.name not in IN_DUCKDB:
        return
    row = oracle.execute(text).fetchone()
    assert row is not None and same(row[0], row[1])


def test_every_aggregate_has_a_line_of_documentation_and_examples() -> None:
    for function in ALL:
        assert function.doc.endswith(".") and "\n" not in function.doc, function.name
        assert function.examples, function.name


# What records claim


COLUMNS = [
    ("i",),
    ("b",),
    ("d",),
    ("f",),
    ("t",),
    ("u",),
    ("day",),
    ("t", "t"),
    ("f", "p"),
    ("f", "h"),
    ("r",),
]
COLUMNS += [("i", "p"), ("t", "p"), ("i", "t")]


def cases() -> list[tuple[AggregateFunction, tuple[str, ...]]]:
    """Each aggregate with operand columns of every type that it takes."""
    found = []
    for function in ALL:
        for columns in COLUMNS:
            if columns == ("r",) and not function.name.startswith("range"):
                continue
            types = tuple(TYPES[column] for column in columns)
            if function.keeps_nulls:
                columns, types = ("u", *columns), (BOOLEAN, *types)
            try:
                several = function.is_nullary and len(columns) > 1
                if (columns[-1] == "p") != (function.name in FRACTIONS):
                    continue
                if not several and resolve_aggregate(function.name, types).arg_types == types:
                    found.append((function, columns))
            except ProgrammingError:
                pass
    return found


CASES = [pytest.param(*case, id=f"{case[0].name}({', '.join(case[1])})") for case in cases()]


def random_rows(columns: tuple[str, ...], seed: int) -> list[tuple[tuple[Any, ...], int]]:
    pick = random.Random(seed)
    rows = [
        (tuple(pick.choice(VALUES[column]) for column in columns), pick.randint(1, 3))
        for _ in range(pick.randint(0, 7))
    ]
    return [row for row in rows if row[0][0] is not None]


def finished(function: AggregateFunction, columns: tuple[str, ...], state: Any) -> Any:
    algorithm = function.algorithm(tuple(TYPES[column] for column in columns))
    try:
        value = algorithm.finish(state)
    except (ArithmeticError, ValueError):
        return "no value"
    return repr(value) if isinstance(value, float) else value


@pytest.mark.parametrize(("function", "columns"), CASES)
def test_states_can_be_split_merged_and_reduced(
    function: AggregateFunction, columns: tuple[str, ...]
) -> None:
    for seed in range(20):
        check_states(function, columns, seed)


def check_states(function: AggregateFunction, columns: tuple[str, ...], seed: int) -> None:
    algorithm = function.algorithm(tuple(TYPES[column] for column in columns))

    def state(rows: list[tuple[tuple[Any, ...], int]]) -> Any:
        made = algorithm.initialize()
        for operands, times in rows:
            made = algorithm.add(made, operands, times)
        return made

    rows, more = random_rows(columns, seed), random_rows(columns, seed + 1000)
    whole = finished(function, columns, state([*rows, *more]))
    assert finished(function, columns, state([*more, *rows][::-1])) == whole
    assert finished(function, columns, algorithm.merge(state(rows), state(more))) == whole
    assert finished(function, columns, algorithm.merge(algorithm.initialize(), state(rows))) == finished(
        function, columns, state(rows)
    )
    if algorithm.subtract is not None:
        left = state([*rows, *more])
        for operands, times in more:
            left = algorithm.subtract(left, operands, times)
        assert finished(function, columns, left) == finished(function, columns, state(rows))


@pytest.mark.parametrize(("function", "columns"), CASES)
def test_facts_hold(function: AggregateFunction, columns: tuple[str, ...]) -> None:
    algorithm = function.algorithm(tuple(TYPES[column] for column in columns))
    nothing = algorithm.finish(algorithm.initialize())
    assert (float_to_word(nothing) if isinstance(nothing, float) else nothing) == function.empty
    if function.identity is not None:
        assert function.empty in (None, function.identity)
    for seed in range(40):
        rows, more = random_rows(columns, seed), random_rows(columns, seed + 1000)
        if not rows:
            continue
        if function.idempotent:
            assert compute_aggregate(algorithm, [*rows, *rows, rows[0]]) == compute_aggregate(algorithm, rows)
        if function.selects_operand:
            assert compute_aggregate(algorithm, rows) in [operands[0] for operands, _ in rows]
        if function.trend is not None:
            before, after = compute_aggregate(algorithm, rows), compute_aggregate(algorithm, [*rows, *more])
            assert (before <= after) if function.trend is Trend.UP else (after <= before)


def test_facts_that_are_not_claimed_do_not_hold() -> None:
    """The records are not merely careful: what could be claimed is."""
    sums = resolve_aggregate("sum", (INTEGER,)).function
    algorithm = sums.algorithm((INTEGER,))
    assert compute_aggregate(algorithm, [((2,), 2)]) != compute_aggregate(algorithm, [((2,), 1)])
    assert compute_aggregate(algorithm, [((2,), 1)]) > compute_aggregate(algorithm, [((2,), 1), ((-1,), 1)])
    lattices = {"min", "max", "any_value", "bool_and", "bool_or", "every"}
    assert {one.name for one in ALL if one.is_lattice} == lattices
    assert {one.name for one in ALL if one.empty is not None} == {
        "count",
        "regr_count",
        "distinct_count",
        *HYPOTHETICAL,
    }
    assert {one.name for one in ALL if one.identity is not None} == {"count", "sum", "distinct_count"}
    assert {one.name for one in ALL if one.is_nullary} == {"count"}


# The compiled path


def sql_value(value: Any, column: str) -> Any:
    if value is not None and column == "d":
        return decimal.Decimal(value).scaleb(-2)
    if value is not None and column == "day":
        return EPOCH + datetime.timedelta(days=value)
    return value if value is None or column != "r" else codec_of(TYPES["r"]).show(value)


OBJECTS = {name for name in JSONS if "object" in name}
VIEWED = [one for one in ALL if one.form is not CallForm.HYPOTHETICAL and one.name not in {*OBJECTS, "top_k"}]


@pytest.mark.parametrize("function", VIEWED, ids=lambda function: function.name)
@pytest.mark.parametrize("distinct", ["", "DISTINCT "])
def test_views_are_what_the_algorithm_says(function: AggregateFunction, distinct: str) -> None:
    """Rows come and go at random; each group's aggregate is that of the rows it has."""
    db = kpg.connect()
    db.sql(
        "CREATE TABLE t (k INT, i INT, b BIGINT, d DECIMAL(9, 2), f DOUBLE, t VARCHAR, u BOOLEAN, day DATE,"
        " p DOUBLE, h DOUBLE, r INT4RANGE)"
    )
    fitting = [columns for one, columns in cases() if one is function]
    chosen = [columns for columns in fitting if columns != ("b",)] or fitting  # whose sums overflow
    assert chosen
    if distinct and (len(chosen[0]) > 1 or function.form is not CallForm.PLAIN):
        return
    if function.keeps_nulls:
        chosen = [("u", "i"), ("u", "t")]
    written = [columns[1:] if function.keeps_nulls else columns for columns in chosen]
    calls = [f"{calling(function, distinct, columns)} AS c{place}" for place, columns in enumerate(written)]
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT k, {', '.join(calls)} FROM t GROUP BY k")
    view = db.view("v")
    pick = random.Random(5)
    held: list[tuple[Any, ...]] = []
    for _ in range(12):
        new = [
            (pick.randint(0, 2), *(pick.choice(VALUES[column]) for column in TYPES))
            for _ in range(pick.randint(0, 6))
        ]
        gone = [held.pop(pick.randrange(len(held))) for _ in range(pick.randint(0, len(held)))]
        with db.transaction():
            for rows, change in ((new, db.insert), (gone, db.delete)):
                written = [(row[0], *map(sql_value, row[1:], TYPES)) for row in rows]
                if written:
                    change("t", written)
        held += new
        expected = {}
        for key in {row[0] for row in held}:
            values = []
            for columns in chosen:
                places = [1 + list(TYPES).index(column) for column in columns]
                rows = [tuple(row[place] for place in places) for row in held if row[0] == key]
                if function.keeps_nulls:
                    rows = [(True, *row[1:]) for row in rows]
                algorithm = function.algorithm(tuple(TYPES[column] for column in columns))
                value = compute_aggregate(algorithm, [(row, 1) for row in (set(rows) if distinct else rows)])
                if isinstance(value, Array):
                    value = [sql_value(item, columns[0]) for item in value.items]
                if isinstance(value, Json):
                    value = show(value)
                result = resolve_aggregate(function.name, tuple(TYPES[c] for c in columns)).result_type
                if result.kind.name == "MULTIRANGE" and value is not None:
                    value = codec_of(result).show(value)
                values.append(value if result != TYPES[columns[0]] else sql_value(value, columns[0]))
                if result.kind.name == "DECIMAL" and value is not None:
                    values[-1] = decimal.Decimal(value).scaleb(-result.scale)
            expected[key] = values
        got = {row[0]: list(row[1:]) for row in view.fetchall()}
        assert got.keys() == expected.keys()
        for key, values in expected.items():
            assert all(map(same, got[key], values)), (got[key], values)


# Names


def sources() -> list[Path]:
    folders = ("compiler", "runtime", "kpg")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    return [file for file in files if not file.is_relative_to(ROOT / "runtime" / "functions")]


def strings(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


@pytest.mark.slow
def test_no_code_compares_the_names_of_aggregates() -> None:
    """Decisions about an aggregate are made from its record, ``AggregateFunction``."""
    names = {one.name for one in ALL} - HYPOTHETICAL - {"first", "last", "list"}  # which mean much else, too
    found = []
    for file in sources():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Compare(left=left, comparators=sides):
                    compared = [
                        one for one in (left, *sides) if isinstance(one, ast.Constant | ast.Tuple | ast.Set)
                    ]
                case ast.MatchValue(value=value):
                    compared = [value]
                case ast.Set() | ast.Call(func=ast.Name(id="frozenset" | "set")):
                    compared = [node]
                case _:
                    continue
            if any(names & strings(one) for one in compared):
                found.append(
                    f"{file.relative_to(ROOT)}:{node.lineno}" if hasattr(node, "lineno") else str(file)
                )
    assert found == []
