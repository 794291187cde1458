"""Texts through the checker, the lowering and the engine; goals through the rewrites too."""

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.check import check
from kpg.compiler.rules import core
from kpg.compiler.rules.magic import prepare
from kpg.runtime.types import float_to_word
from tests.model.datalog import answers, run
from tests.properties.datalog import Session

TEXT = """
.decl edge(x: number, y: number)
edge(1, 2). edge(2, 3). edge(3, 1). edge(3, 4).
.decl node(x: number)
node(x) :- edge(x, _) ; edge(_, x).
.decl tc(x: number, y: number)
tc(x, y) :- edge(x, y).
tc(x, y) :- tc(x, z), tc(z, y).
.decl degree(x: number, c: number)
degree(x, c) :- node(x), c = count : { edge(x, _) }.
.decl average(m: float)
average(m) :- m = mean to_float(y) : { edge(_, y) }.
.decl fib(n: number, v: number)
fib(0, 0). fib(1, 1).
fib(n + 1, a + b) :- fib(n, a), fib(n - 1, b), n < 10.
.decl last(x: number)
last(x) :- node(x), !edge(x, _), x > 2.
.decl nearest(x: number, d: number)
nearest(1, 0).
nearest(y, min(d + 1)) :- nearest(x, d), edge(x, y).
.decl some()
some() :- last(_).
?- tc($from, x).
?- tc($from, x), x > $least, !edge(x, $from).
"""


def _program() -> core.Program:
    checked = check(TEXT, Catalog()).program
    assert checked is not None
    return checked


def test_relations() -> None:
    checked = _program()
    session = Session(checked)
    expected = run(checked)
    for name, tuples in expected.items():
        if checked.relations[name].kind is core.Kind.DERIVED:
            assert session.read(name) == tuples, name
    assert session.read("average") == {(float_to_word(2.5),)}
    assert session.read("last") == {(4,)} and session.read("some") == {()}
    assert (10, 55) in session.read("fib") and (4, 3) in session.read("nearest")
    session.change({"edge": [(4, 1)]}, {"edge": [(1, 2)]})
    assert session.read("some") == frozenset() and session.read("nearest") == {(1, 0)}


def test_goals() -> None:
    checked = _program()
    one, two = checked.goals
    assert answers(checked, None, one, **{"from": 4}) == frozenset()
    for goal, asked, expected in (
        (one, (3,), {(3, 1), (3, 2), (3, 3), (3, 4)}),
        (two, (3, 1), {(3, 1, 3), (3, 1, 4)}),
        (two, (1, 2), {(1, 2, 4)}),
    ):
        bound = tuple(not isinstance(term, core.Variable) for term in goal.terms)
        prepared = prepare(checked, goal.relation, bound)
        assert prepared.seed is not None
        session = Session(prepared.program, {prepared.seed: [asked]}, only=[prepared.answer])
        assert session.read(prepared.answer) == expected
