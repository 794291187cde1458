"""The algebra that rules become, and how relations are read."""

from dataclasses import replace

import pytest

from kpg.compiler.algebra.text import rel_text
from kpg.compiler.catalog.entries import ViewEntry
from kpg.compiler.rules import core
from kpg.compiler.rules.lower.program import Sources, lower_relation
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.plan import Import, Loop
from kpg.runtime.types import BIGINT, INTEGER, TEXT, ColumnDef, Schema
from tests.model.datalog import run
from tests.model.rules import NUMBER, program
from tests.properties.datalog import Session, catalog_of, planned

CLOSURE = "tc(x, y) :- e(x, y). tc(x, y) :- tc(x, z), e(z, y)."


def _lowered(text: str, name: str) -> str:
    checked = program(text)
    return rel_text(lower_relation(checked, name, Sources(catalog_of(checked))))


def test_recursion() -> None:
    assert (
        _lowered(CLOSURE, "tc")
        == """\
LetRec limit=all [tc] [[BIGINT, BIGINT]]
  Distinct
    Union
      Project [0, 1]
        Get e
      Project [0, 3]
        Join [eq(#1, #2)]
          LocalGet tc
          Get e
  LocalGet tc
"""
    )


def test_a_rule_is_one_join() -> None:
    text = "p(x, n0) :- e(x, y), f(y, z), e(z, 3), x < z, n0 = x + y."
    assert (
        _lowered(text, "p")
        == """\
Let p
  Distinct
    Project [0, 9]
      Map [add(#0, #1)]
        Join [eq(#1, #3), eq(#4, #6), lt(#0, #4)]
          Get e
          Get f
          Filter [eq(#1, 3::BIGINT)]
            Get e
  LocalGet p
"""
    )


def test_negation_takes_matches_away() -> None:
    assert (
        _lowered("p(x) :- u(x), !e(x, _).", "p")
        == """\
Let p
  Distinct
    Project [0]
      Let rows 0
        Project [0]
          Get u
        Union
          LocalGet rows 0
          Negate
            Project [0]
              Join [eq(#0, #1)]
                LocalGet rows 0
                Distinct
                  Project [0]
                    Get e
  LocalGet p
"""
    )


def test_an_atom_that_only_has_to_match_does_so_once() -> None:
    assert "Distinct\n          Project [0]\n            Get f" in _lowered("p(x) :- e(x, y), f(y, _).", "p")
    assert _lowered("p(x) :- e(x, _).", "p").count("Distinct") == 1


def test_minima_join_as_atoms_do() -> None:
    text = _lowered("p(x, m) :- u(x), m = min y : { e(x, y) }.", "p")
    assert "Let rows" not in text and "Reduce [#0] [min(#1)]" in text


def _external() -> core.Program:
    """p and q over a table of numbers that may be NULL, narrower than the program's."""
    text = "p(x) :- t(x, _). q(x, y) :- t(x, y). n(c) :- c = count : { t(_, _) }. r(x) :- q(x, _), !t(_, x)."
    checked = program(text)
    columns = tuple(core.Column(name, NUMBER, INTEGER, nullable=True) for name in ("a", "b"))
    table = core.Relation("t", columns, core.Kind.EXTERNAL, None)
    return replace(checked, relations={**checked.relations, "t": table})


def test_external_relations_are_sets_without_nulls() -> None:
    checked = _external()
    session = Session(checked, {"t": [(1, 2), (2, None), (None, 3), (4, 1)]})
    assert session.read("p") == {(1,), (2,), (4,)}
    assert session.read("q") == {(1, 2), (4, 1)}
    assert session.read("n") == {(4,)}
    assert session.read("r") == {(4,)}
    session.change({"t": [(None, 4), (7, 8)]}, {"t": [(1, 2), (2, None)]})
    expected = run(checked, {"t": frozenset(session.rows["t"])})
    assert {name: session.read(name) for name in "pqnr"} == {name: expected[name] for name in "pqnr"}


def test_what_is_kept_is_read_as_a_view() -> None:
    checked = program(CLOSURE + "far(x, y) :- tc(x, y), !e(x, y).")
    catalog = catalog_of(checked)
    columns = (ColumnDef("x", BIGINT, False), ColumnDef("y", BIGINT, False))
    catalog.add(ViewEntry("tc of 1", Schema(columns), None, materialized=True))
    sources = Sources(catalog, frozenset({"tc", "far"}), {"tc": "tc of 1"})
    plan = planned(lower_relation(checked, "far", sources))
    assert any(isinstance(node, Import) and node.view == "tc of 1" for node in plan.nodes)
    assert not any(isinstance(node, Loop) for node in plan.nodes)
    assert any(isinstance(node, Loop) for node in planned(lower_relation(checked, "tc", sources)).nodes)


def test_relations_in_recursion_share_their_loop() -> None:
    text = "a(x, y) :- e(x, y). a(x, y) :- b(x, z), e(z, y). b(x, y) :- a(x, z), e(z, y)."
    session = Session(program(text), {"e": [(1, 2), (2, 3), (3, 1)]})
    loops = [one for one in session.worker.operators() if one.description.startswith("Loop")]
    assert [set(loop.readers) for loop in loops] == [{"a", "b"}]


def test_part_of_a_loop_is_never_a_view() -> None:
    text = "a(x) :- u(x). a(x) :- b(x). b(x) :- a(x), e(x, _). c(x) :- a(x)."
    checked = program(text)
    catalog = catalog_of(checked)
    sources = Sources(catalog, frozenset({"b"}))
    assert "LetRec limit=all [a, b]" in rel_text(lower_relation(checked, "c", sources))
    assert "LetRec limit=all [a, b]" in rel_text(lower_relation(checked, "b", sources))


def test_text() -> None:
    word = core.ValueType("symbol", core.Domain.SYMBOL, TEXT)
    columns = (core.Column("w", word, TEXT),)
    span = program("p(x) :- w(x).").rules[0].span
    variable = core.Variable("x", TEXT)
    body = (
        core.Atom("w", (variable,), span),
        core.Comparison("contains", core.Constant("a", TEXT), variable, span, negated=True),
    )
    relations = {
        "w": core.Relation("w", columns, core.Kind.INPUT, None),
        "p": core.Relation("p", columns, core.Kind.DERIVED, None),
    }
    rule = core.Rule(core.Head("p", (variable,), span), body, span)
    checked = core.Program(relations, (rule,), {}, (), (), (), (), {}, {})
    shown = rel_text(lower_relation(checked, "p", Sources(catalog_of(checked))))
    assert "Filter [not(contains('a', #0))]" in shown


def test_a_relation_that_the_catalog_lacks() -> None:
    checked = program(CLOSURE)
    with pytest.raises(ProgrammingError, match='relation "e" does not exist'):
        lower_relation(checked, "tc", Sources(catalog_of(program("p(x) :- f(x)."))))
