"""Golden texts: what sugar becomes, and what errors and warnings look like."""

import json
from pathlib import Path

import pytest

from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.datalog.check import check
from kpg.compiler.datalog.diagnostics import to_json
from kpg.compiler.rules.core import Goal, Program, expression_text, program_text
from kpg.runtime.errors import DatalogError
from kpg.runtime.types import DATE, INTEGER, TEXT, ColumnDef, Schema, decimal
from tests.datadriven import check_file

GOLDEN = Path(__file__).parents[3] / "golden" / "datalog"
DECLARATIONS = ".decl p(x: number) .decl q(x: number, y: symbol)\n"


def catalog() -> Catalog:
    found = Catalog()
    found.add(TableEntry("emp", Schema((ColumnDef("id", INTEGER), ColumnDef("name", TEXT)))))
    columns = (ColumnDef("id", INTEGER), ColumnDef("day", DATE), ColumnDef("pay", decimal(15, 2)))
    found.add(TableEntry("hired", Schema(columns)))
    found.add(ViewEntry("v", Schema((ColumnDef("id", INTEGER),)), None))
    return found


def errors(text: str) -> str:
    with pytest.raises(DatalogError) as caught:
        check(DECLARATIONS + text, catalog())
    found = [one for one in caught.value.diagnostics if one.severity == "error"]
    return "\n".join(f"{one.code}: {one.text()}" for one in found)


def warnings(text: str) -> str:
    found = check(DECLARATIONS + text, catalog()).warnings
    return "\n".join(f"{one.code}: {one.text()}" for one in found) or "none"


def data(text: str) -> str:
    try:
        found = check(DECLARATIONS + text, catalog()).warnings
    except DatalogError as error:
        found = error.diagnostics
    return "\n".join(json.dumps(one) for one in to_json(found))


def core(text: str) -> str:
    checked = check(text, catalog() if "hired" in text else Catalog())
    parts = [program_text(checked.program), *extras(checked.program)]
    return "\n".join([*parts, *(one.text() for one in checked.warnings)])


def extras(program: Program) -> list[str]:
    """What of a program is no relation or rule."""
    lines = [goal_text(goal) for goal in program.goals]
    for relation in program.relations.values():
        if relation.required_bindings:
            lines.append(f"demanded: {relation.name} {sorted(relation.required_bindings)}")
        if relation.base is not None:
            lines.append(f"base: {relation.name} {relation.base}")
    lines += [f"plan: {rule.head.relation} {rule.plan}" for rule in program.rules if rule.plan]
    lines += [f"query: {query.relation} {query.bound}" for query in program.queries]
    for update in program.updates:
        terms = ", ".join(map(expression_text, update.terms))
        lines.append(f"update: {update.diff:+d} {update.relation}({terms})")
    for transfer in program.transfers:
        lines.append(f"{transfer.direction.value}: {transfer.relation} {dict(transfer.options)}")
    return lines


def goal_text(goal: Goal) -> str:
    terms = ", ".join(map(expression_text, goal.terms))
    names = ", ".join(variable.name for variable in goal.variables)
    return f"goal: {goal.relation}({terms}) gives ({names})"


@pytest.mark.parametrize("name", ["errors", "core", "warnings"])
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    run = {"errors": errors, "core": core, "warnings": warnings, "json": data}
    rewrite = request.config.getoption("--rewrite")
    check_file(GOLDEN / f"{name}.test", lambda command, text: run[command](text), rewrite=rewrite)
