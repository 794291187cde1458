"""The checked program as a whole: files, JSON, warnings, goals, strata."""

import json
from pathlib import Path

import pytest

from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.datalog.check import check
from kpg.compiler.datalog.diagnostics import to_json
from kpg.compiler.rules import core
from kpg.compiler.rules.strata import Stratum, strata
from kpg.runtime.errors import DatalogError, ProgrammingError
from kpg.runtime.types import BIGINT, TEXT, ColumnDef, Schema


def program(text: str) -> core.Program:
    return check(text, Catalog()).program


def failure(text: str) -> DatalogError:
    with pytest.raises(DatalogError) as caught:
        check(text, Catalog(), file="prog.dl")
    return caught.value


def test_the_error_is_a_programming_error_at_the_first_place() -> None:
    error = failure(".decl p(x: number)\np(y) :- p(x).\nq(1).\n")
    assert isinstance(error, ProgrammingError)
    assert error.message == "ungrounded variable y"
    assert [found.code for found in error.diagnostics] == [
        "ungrounded",
        "unused-variable",
        "unused-variable",
        "undefined",
    ]
    assert str(error) == (
        "ungrounded variable y\n"
        "prog.dl line 2:3: p(y) :- p(x).\n"
        "                    ^\n"
        "hint: every variable has to occur in a positive atom, or be equal to what is bound\n"
        "\n"
        "relation q is not defined\n"
        "prog.dl line 3:1: q(1).\n"
        "                  ^"
    )


def test_json() -> None:
    error = failure(".decl p(x: number)\n.decl p(x: symbol)\n")
    found = to_json(error.diagnostics)
    assert json.loads(json.dumps(found)) == [
        {
            "severity": "error",
            "code": "redefinition",
            "message": "relation p is already defined",
            "hint": None,
            "file": "prog.dl",
            "line": 2,
            "column": 7,
            "start": 25,
            "end": 26,
            "notes": [
                {
                    "message": "it was defined here:",
                    "file": "prog.dl",
                    "line": 1,
                    "column": 7,
                    "start": 6,
                    "end": 7,
                }
            ],
        }
    ]


def test_errors_in_included_files_name_them(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "tc.dl").write_text("tc(x, y) :- edge(x, yy).\n")
    main = tmp_path / "main.dl"
    main.write_text('.decl edge, tc(x: number, y: number)\n#include "rules/tc.dl"\n')
    with pytest.raises(DatalogError) as caught:
        check(main.read_text(), Catalog(), file=str(main))
    span = caught.value.span
    assert span is not None
    assert (Path(span.file).name, span.line, span.column) == ("tc.dl", 1, 7)


def test_warnings_do_not_fail() -> None:
    checked = check(".decl p(x: number)\n.decl q(x: number)\nq(x) :- p(x), p(y).\n", Catalog())
    assert [(found.code, found.message) for found in checked.warnings] == [
        ("no-rules", "no rules or facts define relation p"),
        ("unused-variable", "variable y only occurs once"),
    ]


def test_a_goal_of_one_atom_asks_its_relation() -> None:
    (goal,) = program('.decl p(x: number, s: symbol) p(1, "a"). ?- p($n, s).').goals
    assert goal.relation == "p"
    assert goal.terms == (core.Parameter("n", BIGINT), core.Variable("s", TEXT))
    assert goal.parameters == (core.Parameter("n", BIGINT),)
    assert goal.variables == (core.Variable("s", TEXT),)


def test_a_goal_of_more_has_a_relation_that_demands_its_unbound_parameters() -> None:
    found = program(".decl p(x: number, y: number) p(1, 2). ?- p(x, $to), x > $least, !p($to, x).")
    (goal,) = found.goals
    relation = found.relations[goal.relation]
    assert [column.name for column in relation.columns] == ["$to", "$least", "x"]
    assert relation.required_bindings == {1}
    assert [parameter.name for parameter in goal.parameters] == ["to", "least"]


def test_strata_come_after_what_they_need() -> None:
    found = program(
        ".decl e(x: number, y: number) .input e\n"
        ".decl tc(x: number, y: number) tc(x, y) :- e(x, y). tc(x, z) :- tc(x, y), e(y, z).\n"
        ".decl a(x: number) a(x) :- b(x). .decl b(x: number) b(x) :- a(x). b(x) :- tc(x, _).\n"
        ".decl n(x: number) n(x) :- e(x, _), !a(x)."
    )
    order = strata(found.relations, found.rules)
    assert [(stratum.relations, stratum.is_recursive) for stratum in order] == [
        (("e",), False),
        (("tc",), True),
        (("a", "b"), True),
        (("n",), False),
    ]
    assert all(isinstance(stratum, Stratum) for stratum in order)
    assert [len(stratum.rules) for stratum in order] == [0, 2, 3, 1]


def test_components_of_a_long_chain_do_not_recurse() -> None:
    rules = "\n".join(f".decl p{n}(x: number) p{n}(x) :- p{n + 1}(x)." for n in range(300))
    found = program(f"{rules}\n.decl p300(x: number) p300(1).")
    assert [stratum.relations for stratum in strata(found.relations, found.rules)][:2] == [
        ("p300",),
        ("p299",),
    ]


@pytest.mark.parametrize("shape", ["({}1{})", "{}x{}"])
def test_deep_nesting_is_refused(shape: str) -> None:
    inner = shape.format("(" * 5_000, ")" * 5_000)
    error = failure(f".decl p(x: number) p(x) :- p(x), x = {inner}.")
    assert error.message == "a program nested this deep is not supported"


def test_facts_are_a_set_in_the_order_of_the_text() -> None:
    found = program(".decl p(x: number) p(3). p(1). p(3). p(2 - 1).")
    assert found.facts == {"p": ((3,), (1,))}


def test_rules_that_explode_are_refused() -> None:
    body = ", ".join("(p(x) ; p(x))" for _ in range(40))
    assert failure(f".decl p(x: number) p(x) :- {body}.").message == (
        "the rule stands for more than 10000 rules"
    )
    chain = "\n".join(
        f".decl i{n}(x: number) inline i{n}(x) :- i{n + 1}(x), i{n + 1}(x). i{n}(x) :- i{n + 1}(x)."
        for n in range(12)
    )
    text = f"{chain}\n.decl i12(x: number) inline i12(x) :- p(x). .decl p(x: number) p(1). p(x) :- i0(x)."
    assert failure(text).message == "inlining makes a rule of more than 1000 literals"


def test_a_goal_can_be_asked_of_a_program_that_is_installed() -> None:
    text = (
        ".type Tree = Leaf {n: number} | Node {l: Tree, r: Tree}\n"
        ".decl tree(t: Tree, u: unsigned) tree($Leaf(1), 2). tree(x, y) :- tree($Node(x, _), y)."
        "?- tree(t, _)."
    )
    first = check(text, Catalog())
    catalog = Catalog()
    columns = (ColumnDef("t", TEXT), ColumnDef("u", BIGINT))
    catalog.add(ViewEntry("tree", Schema(columns), None))
    second = check("?- tree($Leaf(n), $u), n > 3.", catalog, base=first)
    assert [goal.relation for goal in first.program.goals] == ["tree"]
    (goal,) = second.program.goals
    assert goal.relation == "?-1"
    assert [parameter.name for parameter in goal.parameters] == ["u"]
    assert second.program.relations["tree"] == first.program.relations["tree"]
    assert len(second.program.rules) == len(first.program.rules) + 1
    with pytest.raises(DatalogError, match="relation tree is already defined"):
        check(".decl tree(x: number)", catalog, base=first)
    with pytest.raises(DatalogError, match="tree is a relation of the database already"):
        check(".decl tree(x: number)", catalog)
