"""The Datalog examples: what they derive, as facts come and go, and what their goals answer."""

import itertools
import random
import re
import runpy
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import kpg
from kpg.api.database import Database
from kpg.cli import main
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.datalog.check import CheckedProgram, check
from kpg.compiler.rules import core
from kpg.compiler.rules.magic import Policy, Strategy, prepare
from kpg.datalog import Goal, Program
from kpg.runtime.types import INTEGER, TEXT, ColumnDef, Schema, Type, decimal, float_to_word, word_to_float
from tests.model.datalog import run

EXAMPLES = Path(__file__).parents[2] / "datalog_examples"
WRITES = re.compile(r"^ *\.(output|printsize) .*$", re.MULTILINE)
PROGRAMS = {
    f"{path.parent.name}/{path.stem}": path
    for path in sorted(EXAMPLES.glob("*/*.dl"))
    if WRITES.search(path.read_text())
}
WITH_SQL = "sql_and_datalog/program"
NO_MAGIC = '.pragma "magic-transform-exclude" "*"\n'
POLICIES = (Policy(), Policy(linear=False, max_levels=None), Policy(count_always=True, max_levels=3))
ROUNDS = 3
Tuples = frozenset[tuple[Any, ...]]
Facts = Mapping[str, Tuples]
every_program = pytest.mark.parametrize("name", PROGRAMS)


def test_every_example_is_there_and_listed() -> None:
    listed = set(re.findall(r"\]\((\w+)/(\w+)\.dl\)", (EXAMPLES / "README.md").read_text()))
    assert {"/".join(pair) for pair in listed} == set(PROGRAMS)
    of_programs = {name.split("/")[0] for name in PROGRAMS}
    of_ego_views = {"mentions", "trends"}
    assert {path.name for path in EXAMPLES.iterdir()} == {"README.md"} | of_programs | of_ego_views


@pytest.mark.parametrize("way", ["by_sql", "by_collections"])
def test_top_hashtags_of_components_are_those_of_brute_force(way: str) -> None:
    example = runpy.run_path(str(EXAMPLES / "mentions" / "run.py"))
    take, ask = example[way]()
    near: dict[int, set[int]] = {}
    said: list[tuple[int, str]] = []
    for first in (0, 3, 40, 150):
        batch = list(itertools.islice(example["tweets"](), first, first + 60))
        for (author, other), (_, _, tag) in batch:
            near.setdefault(author, set()).add(other)
            near.setdefault(other, set()).add(author)
            said.append((author, tag))
        take([mention for mention, _ in batch], [tagged for _, tagged in batch])
        for user in sorted(near)[::7]:
            found, waiting = {user}, [user]
            while waiting:
                fresh = near[waiting.pop()] - found
                found |= fresh
                waiting += fresh
            counts = Counter(tag for author, tag in said if author in found)
            top = min(counts, key=lambda tag: (-counts[tag], tag)) if counts else None
            assert [row[0] for row in ask(user)] == [top] * bool(counts)


@every_program
def test_headers_say_what_programs_show(name: str) -> None:
    header = PROGRAMS[name].read_text().split("\n\n")[0]
    assert all(line.startswith("//") for line in header.splitlines()) and "// Shows: " in header


def _plain(value: Any, type_: Type) -> Any:
    """A core value as files and databases have it; no column of the examples needs more."""
    return word_to_float(value) if type_.is_float and value is not None else value


def _word(value: Any, type_: Type) -> Any:
    """A value of a database as a core value."""
    if value is None or isinstance(value, str):
        return value
    return (
        float_to_word(value) if type_.is_float else int(value.scaleb(type_.scale)) if type_.scale else value
    )


def _read(path: Path, types: tuple[Type, ...]) -> Tuples:
    """The rows of a tab separated file."""
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    found = frozenset(
        tuple(
            field if type_.is_text else float(field) if type_.is_float else int(field)
            for field, type_ in zip(row, types, strict=True)
        )
        for row in rows
    )
    assert len(found) == len(rows), path
    return found


def _written(rows: Iterable[tuple[Any, ...]]) -> Tuples:
    """Rows as files have them: no quotes around the texts in records."""
    return frozenset(
        tuple(value.replace('"', "") if isinstance(value, str) else value for value in row) for row in rows
    )


def _checked(path: Path) -> CheckedProgram:
    """The program alone, over the tables of the example with SQL if it is that one."""
    catalog = Catalog()
    if (path.parent / "schema.sql").exists():
        money = ColumnDef("salary", decimal(10, 2), False)
        columns = (
            ColumnDef("id", INTEGER, False),
            ColumnDef("name", TEXT, False),
            ColumnDef("manager", INTEGER),
        )
        catalog.add(TableEntry("employees", Schema((*columns, money))))
        ids = (ColumnDef("id", INTEGER), ColumnDef("employee", INTEGER), ColumnDef("approver", INTEGER))
        catalog.add(ViewEntry("large_expenses", Schema(ids), None))
    return check(path.read_text(), catalog, file=str(path))


def _outputs(path: Path, program: core.Program) -> dict[str, Tuples]:
    """What the files say that the relations are, each of which has a file and each file a relation."""
    written = [one.name for one in program.transfers if one.direction is core.TransferKind.OUTPUT]
    files = {one.stem for one in path.parent.glob("expected/*.csv")}
    assert files - {"report"} == set(written)
    return {
        name: _read(path.parent / "expected" / f"{name}.csv", program.relations[name].types)
        for name in written
    }


def _naive(program: core.Program, facts: Facts) -> dict[str, Tuples]:
    """The derived relations by naive evaluation."""
    stored = {name: [column.stored_type for column in one.columns] for name, one in program.relations.items()}
    words = {name: [tuple(map(_word, row, stored[name])) for row in rows] for name, rows in facts.items()}
    return {
        name: frozenset(tuple(map(_plain, row, program.relations[name].types)) for row in rows)
        for name, rows in run(program, words).items()
        if program.relations[name].kind is core.Kind.DERIVED
    }


def _installed(path: Path, change: str | None = None) -> tuple[Database, Program]:
    """A database with the example, or with another text in its place."""
    db = kpg.connect()
    schema = path.parent / "schema.sql"
    if schema.exists():
        db.sql(schema.read_text())
    return db, db.datalog(change or path.read_text(), filename=str(path), facts=path.parent / "facts")


def _tables(db: Database) -> dict[str, Tuples]:
    """The rows of all tables but those that goals have."""
    names = [row[0] for row in db.tables() if "/goal" not in row[0]]
    return {name: frozenset(db.query(f'SELECT * FROM "{name}"')) for name in names}


def _facts(db: Database, program: core.Program) -> dict[str, Tuples]:
    """What the naive evaluator starts from, as it is in the database now."""
    names = [name for name, one in program.relations.items() if one.kind is not core.Kind.DERIVED]
    return {name: frozenset(db.query(f'SELECT * FROM "{name}"')) for name in names}


def _rounds(db: Database, choice: random.Random) -> Iterator[int]:
    """Take rows out of tables at random and put others back, a transaction a round; at last, all of them."""
    everything = _tables(db)
    for number in range(ROUNDS + 1):
        now = _tables(db)
        with db.transaction():
            for name, rows in everything.items():
                there = sorted(now[name], key=repr)
                gone = choice.sample(there, min(len(there), choice.randrange(4))) if number < ROUNDS else []
                absent = sorted(rows - now[name], key=repr)
                back = [row for row in absent if number == ROUNDS or choice.random() < 0.5]
                db.delete(name, gone)
                db.insert(name, back)
        yield number
    assert _tables(db) == everything


@every_program
def test_naive_evaluation_gives_what_is_expected(name: str) -> None:
    path = PROGRAMS[name]
    checked = _checked(path)
    assert checked.warnings == ()
    program = checked.program
    facts: dict[str, Tuples] = {}
    for relation, rows in program.facts.items():
        types = program.relations[relation].types
        facts[relation] = frozenset(tuple(map(_plain, row, types)) for row in rows)
    for one in program.transfers:
        if one.direction is core.TransferKind.INPUT:
            types = program.relations[one.relation].types
            facts[one.relation] = _read(path.parent / "facts" / f"{one.name}.facts", types)
    if (path.parent / "schema.sql").exists():
        facts |= _facts(_installed(path)[0], program)
    found = _naive(program, facts)
    expected = _outputs(path, program)
    assert {relation: _written(found[relation]) for relation in expected} == expected


@every_program
def test_the_engine_derives_what_is_expected(name: str) -> None:
    db, program = _installed(PROGRAMS[name])
    with db:
        expected = _outputs(PROGRAMS[name], program.checked.program)
        assert {relation: _written(program[relation]) for relation in expected} == expected


@every_program
def test_the_engine_is_naive_evaluation_after_every_change(name: str) -> None:
    db, program = _installed(PROGRAMS[name])
    with db:
        checked = program.checked.program
        derived = [one for one in program.relations if checked.relations[one].kind is core.Kind.DERIVED]
        views = {relation: program[relation] for relation in derived}
        for _ in _rounds(db, random.Random(name)):
            expected = _naive(checked, _facts(db, checked))
            for relation, view in views.items():
                assert sorted(view, key=repr) == sorted(expected[relation], key=repr), relation
        for relation in derived:
            db.verify(relation)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != WITH_SQL])
def test_the_command_line_writes_what_is_expected(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = PROGRAMS[name]
    facts, expected = path.parent / "facts", path.parent / "expected"
    arguments = ["kpg", "datalog", "run", str(path), "-F", str(facts), "-D", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {
        one.name: one.read_text() for one in expected.iterdir()
    }


def test_both_points_to_programs_agree_on_any_facts() -> None:
    plain, optimised = (
        _checked(EXAMPLES / "points_to" / f"{one}.dl").program for one in ("plain", "optimised")
    )
    choice = random.Random(5)
    for _ in range(5):
        pairs = [(f"v{choice.randrange(7)}", f"v{choice.randrange(7)}") for _ in range(11)]
        facts = {"assign": frozenset(pairs[:7]), "dereference": frozenset(pairs[7:])}
        one, other = _naive(plain, facts), _naive(optimised, facts)
        assert one["value_flow"] == other["value_flow"] and one["memory_alias"] == other["memory_alias"]


def _answer(goal: core.Goal, rows: Tuples, values: Mapping[str, Any]) -> Tuples:
    """A goal's answer, picked from all rows of its relation."""
    found = set()
    for row in rows:
        given: dict[str, Any] = {}
        for term, value in zip(goal.terms, row, strict=True):
            match term:
                case core.Constant(value=constant, type=type_):
                    fits = value == _plain(constant, type_)
                case core.Parameter(name=name):
                    fits = value == values[name]
                case core.Variable(name=name):
                    fits = given.setdefault(name, value) == value
                case core.Wildcard():
                    fits = True
            if not fits:
                break
        else:
            found.add(tuple(given[variable.name] for variable in goal.variables))
    return frozenset(found)


def _values(goal: core.Goal, rows: Tuples, choice: random.Random) -> dict[str, Any]:
    """Values for the goal's parameters that some row has."""
    row = choice.choice(sorted(rows, key=repr))
    pairs = zip(goal.terms, row, strict=True)
    return {term.name: value for term, value in pairs if isinstance(term, core.Parameter)}


def _asked(goal: Goal, values: Mapping[str, Any]) -> Tuples:
    rows = list(goal(**values))
    assert len(set(rows)) == len(rows)
    return frozenset(rows if goal.columns != ("holds",) else (() for _ in rows))


def _seed(goal: core.Goal, bound: tuple[bool, ...], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The goal's values at bound columns."""
    row = []
    for term, one in zip(goal.terms, bound, strict=True):
        match term:
            case core.Constant(value=value, type=type_) if one:
                row.append(_plain(value, type_))
            case core.Parameter(name=name) if one:
                row.append(values[name])
            case _:
                assert not one
    return tuple(row)


@every_program
def test_rewritten_programs_give_the_goals_answers(name: str) -> None:
    db, installed = _installed(PROGRAMS[name])
    program = installed.checked.program
    facts = _facts(db, program)
    whole = _naive(program, facts)
    for goal, policy in itertools.product(program.goals, POLICIES):
        rows = whole[goal.relation]
        bound = [isinstance(term, core.Constant | core.Parameter) for term in goal.terms]
        prepared = prepare(program, goal.relation, bound, policy)
        assert prepared.seed is not None and prepared.strategy is not Strategy.FULL
        values = _values(goal, rows, random.Random(name))
        asked = {one: given for one, given in facts.items() if one in prepared.program.relations}
        asked[prepared.seed] = frozenset({_seed(goal, prepared.bound, values)})
        found = _naive(prepared.program, asked)[prepared.answer]
        assert _answer(goal, found, values) == _answer(goal, rows, values)


@every_program
def test_goals_with_magic_and_without(name: str) -> None:
    text = WRITES.sub("", PROGRAMS[name].read_text())
    db, restricted = _installed(PROGRAMS[name], text)
    other, whole = _installed(PROGRAMS[name], NO_MAGIC + text)
    assert all(not one.explain().startswith("computed as a whole") for one in restricted.goals)
    assert all(one.explain().startswith("computed as a whole") for one in whole.goals)
    program = restricted.checked.program
    start = _naive(program, _facts(db, program))
    choice = random.Random(0)
    rounds = zip(_rounds(db, random.Random(name)), _rounds(other, random.Random(name)), strict=True)
    for _ in rounds:
        rows = _naive(program, _facts(db, program))
        for goal, one, two in zip(program.goals, restricted.goals, whole.goals, strict=True):
            values = _values(goal, start[goal.relation], choice)
            expected = _answer(goal, rows[goal.relation], values)
            assert _asked(one, values) == expected == _asked(two, values), values


def test_sql_reads_what_rules_derive_and_rules_what_sql_changes() -> None:
    folder = EXAMPLES / "sql_and_datalog"
    db, program = _installed(folder / "program.dl")
    report = (folder / "report.sql").read_text()
    lines = ["\t".join(map(str, row)) for row in db.query(report)]
    assert lines == (folder / "expected" / "report.csv").read_text().splitlines()
    db.sql("CREATE MATERIALIZED VIEW report AS " + report)
    db.sql("UPDATE employees SET manager = 3 WHERE id = 4")
    lines = ["\t".join(map(str, row)) for row in db.view("report")]
    assert sorted(lines) == [
        "Ines\t5\t29400.75",
        "Jonas\t1\t5600.00",
        "Karla\t2\t9500.25",
        "Lars\t1\t4100.00",
    ]
    assert frozenset(program["irregular"]) == {
        (101, "Nils", "Jonas"),
        (102, "Lars", "Mira"),
        (103, "Mira", "Nils"),
        (106, "Jonas", "Jonas"),
    }


def test_the_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "sql_and_datalog" / "run.py"), run_name="__main__")
    before, after = capsys.readouterr().out.split("4100.00", 1)
    assert "Karla" not in before and "Karla" in after


def test_trends_are_those_of_brute_force_and_are_drawn(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "trends" / "run.py"))
    chance = random.Random(3)
    db, trends = example["database"](chance)
    follows: dict[int, list[int]] = {}
    for who, whom in db.query("SELECT * FROM follows").fetchall():
        follows.setdefault(who, []).append(whom)
    lately: dict[int, deque[str]] = {}
    for first in (0, 3000, 6000):
        made = example["posts"](chance, first, 3000)
        db.insert("posts", made)
        for _, author, word in made:
            lately.setdefault(author, deque(maxlen=5)).append(word)
        people = list(range(0, 2000, 37))
        for person, words in zip(people, trends.read_many(people), strict=True):
            seen = Counter(word for one in follows[person] for word in lately.get(one, ()))
            expected = sorted(seen, key=lambda word: (-seen[word], word))[:3]
            assert words == (expected or None)
    page = tmp_path / "trends.html"
    example["write"](page, example["picture"](trends, 9000))
    drawn = ElementTree.fromstring(page.read_text().partition('content="1">')[2])
    squares = [one for one in drawn.iter("{http://www.w3.org/2000/svg}rect") if len(one)]
    titles = {one[0].text for one in squares}
    assert len(squares) == len(trends.fetchall())
    assert f"37: {', '.join(trends.read(37))}" in titles
