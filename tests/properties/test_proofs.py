"""Every row that is derived has a proof, which the model finds right; every other row has none.

On the written and the random programs of the other properties, as facts come and go, and on the examples.
"""

import itertools
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

import kpg
from kpg.api.database import Database
from kpg.compiler.datalog.check import CheckedProgram
from kpg.compiler.rules import core
from kpg.datalog import Program, dispatch
from kpg.runtime.errors import ProgrammingError
from tests.model import graphs
from tests.model.datalog import Tuples, run
from tests.model.proofs import Checker, plain
from tests.model.rules import program
from tests.properties.programs import WRITTEN, random_program

NODES = 6
FEW = 4
ROUNDS = 2
EXAMPLES = Path(__file__).parents[2] / "datalog_examples"
PROGRAMS = sorted(path for path in EXAMPLES.glob("*/*.dl") if path.stem != "instructions")


def _tables(choice: random.Random) -> dict[str, set[tuple[int, ...]]]:
    seed = choice.randrange(1000)
    nodes: set[tuple[int, ...]] = {(choice.randrange(NODES),) for _ in range(choice.randrange(4))}
    return {
        "e": set(graphs.any_graph(NODES, 8, seed)),
        "f": set(graphs.any_graph(NODES, 6, seed + 1)),
        "u": nodes,
    }


def _checked(text: str) -> core.Program:
    return program(text)


def _installed(checked: core.Program) -> tuple[Database, Program]:
    db = kpg.connect()
    installed = Program(db._engine, "program", CheckedProgram(checked, ()), lambda: None)
    dispatch.add_relations(installed, {}, None)
    return db, installed


def _change(
    db: Database, now: dict[str, set[tuple[int, ...]]], wanted: Mapping[str, set[tuple[int, ...]]]
) -> None:
    with db.transaction():
        for name, rows in now.items():
            db.delete(name, sorted(rows - wanted[name]))
            db.insert(name, sorted(wanted[name] - rows))
            now[name] = wanted[name]


def _check_all(db: Database, installed: Program, whole: Mapping[str, Tuples], choice: random.Random) -> None:
    """Some rows of each derived relation have right proofs, others have none."""
    checked = installed.checked.program
    checker = Checker(checked, whole)
    for name, relation in checked.relations.items():
        if relation.kind is core.Kind.DERIVED and not relation.required_bindings:
            rows = sorted(whole[name])
            for row in choice.sample(rows, min(FEW, len(rows))):
                proof = db.explain_row(name, row)
                assert proof.row == row
                checker.check(proof)
            absent = tuple(choice.randrange(NODES) for _ in relation.columns)
            if absent not in whole[name]:
                assert str(db.explain_absence(name, absent)).startswith(f"{name}(")


def _as_facts_change(text: str, choice: random.Random) -> None:
    checked = _checked(text)
    db, installed = _installed(checked)
    inputs = [name for name, one in checked.relations.items() if one.kind is core.Kind.INPUT]
    now: dict[str, set[tuple[int, ...]]] = {name: set() for name in inputs}
    with db:
        for number in range(ROUNDS):
            tables = _tables(choice)
            wanted = {name: tables[name] for name in inputs}
            if number == ROUNDS - 1:  # most of what was there
                wanted = {
                    n: set(sorted(rows)[: 3 * len(rows) // 4]) | set(sorted(wanted[n])[:2])
                    for n, rows in now.items()
                }
            _change(db, now, wanted)
            _check_all(db, installed, run(checked, now), choice)


@pytest.mark.parametrize("name", WRITTEN)
def test_written_programs(name: str) -> None:
    _as_facts_change(WRITTEN[name], random.Random(name))


@pytest.mark.parametrize("seed", range(200, 212))
def test_random_programs(seed: int) -> None:
    _as_facts_change(random_program(seed), random.Random(seed))


def _example(path: Path) -> tuple[Database, Program]:
    db = kpg.connect()
    schema = path.parent / "schema.sql"
    if schema.exists():
        db.sql(schema.read_text())
    return db, db.datalog(path.read_text(), filename=str(path), facts=path.parent / "facts")


def _by_the_model(db: Database, checked: core.Program) -> dict[str, Tuples]:
    given = {}
    for name, one in checked.relations.items():
        if one.kind is not core.Kind.DERIVED:
            types = [column.stored_type for column in one.columns]
            given[name] = [plain(row, types) for row in db.query(f'SELECT * FROM "{name}"')]
    return run(checked, given)


def _take_out(db: Database, choice: random.Random) -> None:
    """Some rows of each table, in one transaction."""
    names = [row[0] for row in db.tables() if "/goal" not in row[0]]
    rows = {name: sorted(db.query(f'SELECT * FROM "{name}"'), key=repr) for name in names}
    with db.transaction():
        for name, there in rows.items():
            db.delete(name, choice.sample(there, min(len(there), choice.randrange(3))))


def _check_program(db: Database, installed: Program, choice: random.Random) -> None:
    """Some rows of each derived relation have right proofs."""
    checked = installed.checked.program
    checker = Checker(checked, _by_the_model(db, checked))
    for name in installed.relations:
        if checked.relations[name].kind is core.Kind.DERIVED and not name.startswith("@"):
            rows = sorted(db.query(f'SELECT * FROM "{name}"'), key=repr)
            for row in choice.sample(rows, min(FEW, len(rows))):
                proof = db.explain_row(name, row)
                assert proof.row == row[: len(checked.relations[name].columns)]
                checker.check(proof)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples(path: Path) -> None:
    db, installed = _example(path)
    choice = random.Random(path.parent.name)
    with db:
        for _ in range(2):
            _check_program(db, installed, choice)
            _take_out(db, choice)


TYPED = {
    "floats": """
        .decl w(a: number, x: float)
        w(1, 0.1). w(1, 0.2). w(1, 0.3). w(2, -1.5). w(3, 1000000000000000000.0). w(3, 0.000001).
        .decl total(a: number, x: float, y: float)
        total(a, sum(x), max(x)) :- w(a, x).
        .decl middle(a: number, x: float)
        middle(a, m) :- w(a, _), m = mean x : { w(a, x) }.
        .decl centre(x: float)
        centre(mean(x)) :- w(_, x).
        .decl near(a: number, b: number)
        near(a, b) :- middle(a, x), middle(b, y), x - y < 2.0, a != b.
    """,
    "texts": """
        .decl e(a: symbol, b: symbol)
        e("a", "b"). e("b", "c"). e("c", "a"). e("longer than a word", "longer than a word, and more").
        e("longer than a word, and more", "longer than a word").
        .decl first(a: symbol, s: symbol)
        first(x, min(x)) :- e(x, _).
        first(y, min(s)) :- first(x, s), e(x, y).
        .decl last(s: symbol)
        last(m) :- m = max s : { e(s, _) }.
        .decl joined(s: symbol, n: number)
        joined(cat(x, "-", y), strlen(y)) :- e(x, y), contains("o", x), !match("a.*", x).
    """,
    "numbers of 32 bits": """
        .pragma "number-size" "32"
        .decl n(a: number, u: unsigned)
        n(2147483647, 4294967295). n(1, 1). n(5, 7).
        .decl total(x: number, y: unsigned)
        total(sum(a), sum(u)) :- n(a, u).
        .decl next(a: number, u: unsigned)
        next(a + 1, u + 1) :- n(a, u).
        .decl up(a: number)
        up(a) :- next(a, _), a < 0.
        up(a + 1) :- up(a), a < -2147483640.
    """,
    "nulls and decimals of tables": """
        .decl boss(a: symbol, b: symbol)
        boss(x, y) :- person(x, y, _).
        boss(x, z) :- boss(x, y), person(y, z, _).
        .decl pays(b: symbol, n: number, x: float)
        pays(y, n, s) :- person(_, y, _), n = count : { person(_, y, _) },
                         s = sum to_float(p) : { person(_, y, p) }.
        .decl all(n: number, m: number)
        all(n, m) :- n = count : { person(_, _, _) }, m = count : { person(_, b, _), b = b }.
        .decl alone(a: symbol)
        alone(x) :- person(x, _, p), p > 2.5, !person(_, x, _).
    """,
    "structures": """
        .type Pair = [a: number, b: Pair]
        .type Shape = Dot {} | Box { n: number, inner: Shape }
        .decl p(x: Pair)
        p(nil).
        p([n, x]) :- p(x), n = range(1, 4), (x = nil ; x = [m, _], m < n).
        .decl top(n: number, k: number)
        top(n, count(x)) :- p([n, x]).
        .decl s(x: Shape)
        s($Dot).
        s($Box(n, x)) :- s(x), n = range(0, 2), !deep(x).
        .decl deep(x: Shape)
        deep($Box(i, $Box(j, $Dot))) :- i = range(0, 2), j = range(0, 2).
        .decl size(n: number)
        size(n) :- n = sum i : { s($Box(i, _)) }.
    """,
    "orders": """
        .decl same(a: number, b: number) eqrel
        same(1, 2). same(2, 3). same(5, 6).
        .decl class(a: number, least: number)
        class(a, min(b)) :- same(a, b).
        .decl classes(n: number)
        classes(n) :- n = count : { class(_, a), same(a, _) }, n >= count : { class(_, 1) }.
        .decl never()
        .decl ever()
        ever() :- !never(), class(_, _).
    """,
}


@pytest.mark.parametrize("name", TYPED)
def test_programs_of_many_types(name: str) -> None:
    db = kpg.connect()
    if "person" in TYPED[name]:
        db.sql("CREATE TABLE person (name TEXT, boss TEXT, pay DECIMAL(8, 2))")
        db.sql(
            "INSERT INTO person VALUES ('a', NULL, 9.5), ('b', 'a', 2.25), ('c', 'b', NULL), ('d', 'b', 3)"
        )
        db.sql("INSERT INTO person VALUES ('d', 'b', 3), ('e', NULL, 1)")
    installed = db.datalog(TYPED[name])
    choice = random.Random(name)
    with db:
        for _ in range(2):
            _check_program(db, installed, choice)
            if "person" not in TYPED[name]:
                _take_out(db, choice)


def test_wrong_proofs_are_found_out() -> None:
    text = "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y)."
    checked = _checked(text)
    db, _ = _installed(checked)
    edges = {(0, 1), (1, 2), (2, 0), (2, 3)}
    db.insert("e", sorted(edges))
    proof = db.explain_row("tc", (0, 3))
    Checker(checked, run(checked, {"e": edges})).check(proof)
    for gone in edges - {(2, 0)}:
        with pytest.raises(AssertionError):
            Checker(checked, run(checked, {"e": edges - {gone}})).check(proof)
    for row in itertools.product(range(4), repeat=2):
        holds = row[0] != 3
        assert holds == (row in run(checked, {"e": edges})["tc"])
        if not holds:
            with pytest.raises(ProgrammingError):
                db.explain_row("tc", row)
