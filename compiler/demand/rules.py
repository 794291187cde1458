"""Recursive relations of a query as a program of rules, for magic sets to rewrite.

A relation that is a set and a union of joins has rules. What it reads besides such relations is a base
relation of the program, computed as the query says. Rules know no NULL, and need not: in a row it is carried
as any value, and an equality in a rule, as in SQL, never holds of it.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.failing import is_total
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import free_locals, walk
from kpg.compiler.demand.bodies import NotRules, Taking
from kpg.compiler.demand.body import Absence, Body, Part
from kpg.compiler.demand.hoist import counts_rounds
from kpg.compiler.demand.scalars import NOWHERE, Numbered
from kpg.compiler.passes._selection import build, peel
from kpg.compiler.rules import core
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns
from kpg.runtime.types import BOOLEAN, Type


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a query's lets and recursive lets are, whose ids are unique."""

    values: Mapping[str, Rel]
    loops: Mapping[str, algebra.LetRec]
    """The recursion that an id is bound by, if it is."""

    @staticmethod
    def of(rel: Rel) -> "Definitions":
        """Those anywhere in a relation."""
        values: dict[str, Rel] = {}
        loops: dict[str, algebra.LetRec] = {}
        for node in walk(rel):
            if isinstance(node, algebra.Let):
                values[node.id] = node.value
            elif isinstance(node, algebra.LetRec):
                values.update(zip(node.ids, node.values, strict=True))
                loops.update(dict.fromkeys(node.ids, node))
        return Definitions(values, loops)

    @property
    def lets(self) -> dict[str, Rel]:
        """What is not recursive itself."""
        return {id_: value for id_, value in self.values.items() if id_ not in self.loops}

    def recursive(self, id_: str) -> bool:
        """Whether it is, or depends on, a recursive relation."""
        if id_ in self.loops:
            return True
        return id_ in self.values and any(self.recursive(one) for one in free_locals(self.values[id_]))


@dataclass(frozen=True, slots=True)
class Rules:
    """A program with what its relations are in the query.

    ``limit``: the number of rounds after which the query's recursion stops with an error.
    """

    program: core.Program
    bases: Mapping[str, Rel]
    numbered: Numbered
    limit: int | None


def rules_of(target: algebra.LetRec, definitions: Definitions) -> Rules:
    """The rules of a recursion's relations, and of those that they depend on; NotRules if they have none."""
    refused: set[str] = set()
    while True:
        making = _Making(definitions, frozenset(target.ids), refused)
        for id_ in target.ids:
            making.relation(id_)
        if making.others():
            program = core.Program(making.relations, tuple(making.rules), {}, (), (), (), (), {}, {})
            return Rules(program, making.bases, making.numbered, making.limit)


@dataclass(slots=True)
class _Making:
    definitions: Definitions
    own: frozenset[str]
    """The ids of the recursion that is to have rules."""
    refused: set[str]
    """Other relations that have none; they are read as wholes."""
    relations: dict[str, core.Relation] = field(default_factory=dict)
    rules: list[core.Rule] = field(default_factory=list)
    bases: dict[str, Rel] = field(default_factory=dict)
    names: dict[Rel, str] = field(default_factory=dict)
    numbered: Numbered = field(default_factory=Numbered)
    pending: list[str] = field(default_factory=list)
    limit: int | None = None

    def others(self) -> bool:
        """Make the rules of the relations that are read; False if one turned out to have none."""
        while self.pending:
            id_ = self.pending.pop()
            try:
                self.relation(id_)
            except NotRules:
                self.refused.add(id_)
                return False
        return True

    def relation(self, id_: str) -> None:
        """Make the rules of a relation; NotRules if it has none."""
        if id_ in self.relations:
            return
        self._check(id_)
        value = self.definitions.values[id_]
        loop = self.definitions.loops.get(id_)
        own = frozenset(() if loop is None else loop.ids)
        taking = Taking(self._has_rules, own, self.definitions.lets)
        bodies = taking.apart(value)
        self.relations[id_] = _relation(id_, algebra.types(value), core.Kind.DERIVED)
        for body in bodies:
            self._rule(id_, body)

    def _has_rules(self, id_: str) -> bool:
        """Whether a relation is read by its rules: those of the recursion are, others if they can be."""
        if id_ in self.own:
            return True
        if id_ in self.refused or not self.definitions.recursive(id_):
            return False
        try:
            self._check(id_)
        except NotRules:
            self.refused.add(id_)
            return False
        return True

    def _check(self, id_: str) -> None:
        value = self.definitions.values[id_]
        while isinstance(value, algebra.Filter | algebra.Let):
            value = value.input if isinstance(value, algebra.Filter) else value.body
        if not isinstance(value, algebra.Distinct):
            raise NotRules("it counts repeated rows (UNION ALL)")
        loop = self.definitions.loops.get(id_)
        if loop is None or loop.limit is None:
            return
        if counts_rounds(loop):
            raise NotRules("its number of rounds is limited")
        self.limit = max(loop.limit, self.limit or 0)

    def _rule(self, id_: str, body: Body) -> None:
        if len(body.parts) > 1 and not all(map(is_total, body.outputs)):
            raise NotRules("it computes what may fail")
        naming = _Naming(body)
        atoms = [self._atom(part, naming) for part in body.parts]
        terms = naming.terms
        tests = [
            self.numbered.test(test, terms if is_total(test) else terms | naming.apart)
            for test in naming.tests
        ]
        more: list[core.Literal] = []
        head: list[core.HeadTerm] = []
        for place, output in enumerate(body.outputs):
            term = self.numbered.expression(output, terms)
            if isinstance(term, core.Call):
                # A made-up name: those of the body begin with a v.
                variable = core.Variable(f"h{place}", output.type)
                more.append(core.Assignment(variable, term, NOWHERE))
                term = variable
            assert not isinstance(term, core.Parameter)
            head.append(term)
        absences = (core.Negation(self._absent(one, naming)) for one in body.absences)
        literals = (*atoms, *tests, *more, *absences)
        self.rules.append(core.Rule(core.Head(id_, tuple(head), NOWHERE), literals, NOWHERE))

    def _atom(self, part: Part, naming: "_Naming") -> core.Atom:
        terms = tuple(naming.terms[variable] for variable in part.variables)
        apart = [place for place, number in enumerate(part.variables) if number in naming.apart]
        if isinstance(part.rel, algebra.LocalGet) and self._has_rules(part.rel.id):
            if apart:
                raise NotRules("a test of its rows may fail")
            if part.rel.id not in self.relations:
                self.pending.append(part.rel.id)
            return core.Atom(part.rel.id, terms, NOWHERE)
        used = [place for place, number in enumerate(part.variables) if number in naming.used]
        some = part.rel if algebra.types(part.rel) else algebra.Map(part.rel, (Literal(1, BOOLEAN),))
        rel = build(peel(algebra.Project(some, tuple([*used, *apart] or [0]))))
        name = self._base(rel)
        every = [terms[place] for place in used] + [naming.apart[part.variables[place]] for place in apart]
        any_row = (core.Wildcard(algebra.types(rel)[0]),)
        return core.Atom(name, tuple(every) or any_row, NOWHERE)

    def _absent(self, absence: Absence, naming: "_Naming") -> core.Atom:
        terms = tuple(naming.terms[variable.index] for variable in absence.variables)
        return core.Atom(self._base(absence.rel), terms, NOWHERE)

    def _base(self, rel: Rel) -> str:
        """The name of a base relation."""
        name = self.names.get(rel)
        if name is None:
            name = self.names[rel] = f"{_called(rel)} {len(self.names)}"
            self.bases[name] = rel
            self.relations[name] = _relation(name, algebra.types(rel), core.Kind.EXTERNAL)
        return name


class _Naming:
    """What a body's variables are called: equal ones alike, and those equal to a value by that.

    ``tests`` are the body's without what that says already. Those that may fail have variables ``apart``,
    which stand for the same columns: in a rule they are tests of these rows, not of what is asked for.
    """

    def __init__(self, body: Body) -> None:
        self._class: dict[int, int] = {}
        self._values: dict[int, core.Constant] = {}
        self.tests: list[Scalar] = []
        for test in body.tests:
            if not self._is_said(test):
                self.tests.append(test)
        self.terms: dict[int, core.HeadTerm] = {}
        for part in body.parts:
            for number, type_ in zip(part.variables, algebra.types(part.rel), strict=True):
                first = self._find(number)
                known = self._values.get(first)
                self.terms[number] = known or core.Variable(f"v{first}", type_)
        self.apart: dict[int, core.HeadTerm] = {
            number: core.Variable(f"w{number}", self.terms[number].type)
            for test in self.tests
            if not is_total(test)
            for number in columns(test)
        }
        self.used = self._used(body)

    def _used(self, body: Body) -> set[int]:
        """The variables that something else depends on."""
        tests = (test for test in self.tests if is_total(test))
        absent = (variable for absence in body.absences for variable in absence.variables)
        read = {one for scalar in (*tests, *body.outputs, *absent) for one in columns(scalar)}
        firsts = [self._find(number) for part in body.parts for number in part.variables]
        read_firsts = {self._find(number) for number in read}
        return {
            number
            for part in body.parts
            for number in part.variables
            if self._find(number) in read_firsts
            or firsts.count(self._find(number)) > 1
            or self._find(number) in self._values
        }

    def _find(self, number: int) -> int:
        while number in self._class:
            number = self._class[number]
        return number

    def _is_said(self, test: Scalar) -> bool:
        """Whether names say it, having been chosen so."""
        match test:
            case Call(function="eq", args=(Column() as left, Column() as right)) if left.type == right.type:
                return left != right and self._join(left.index, right.index)
            case (
                Call(function="eq", args=(Column() as column, Literal() as value))
                | Call(function="eq", args=(Literal() as value, Column() as column))
            ) if column.type == value.type and value.value is not None:
                return self._fix(column.index, core.Constant(value.value, value.type))
            case Column() | Fetch() | Literal() | If() | Call():
                return False
            case _:
                assert_never(test)

    def _join(self, left: int, right: int) -> bool:
        one, other = self._find(left), self._find(right)
        if one == other:
            return True
        if one in self._values and other in self._values:
            return False
        if other in self._values:
            one, other = other, one
        self._class[other] = one
        return True

    def _fix(self, number: int, value: core.Constant) -> bool:
        first = self._find(number)
        return self._values.setdefault(first, value) == value


def _called(rel: Rel) -> str:
    """What a base relation is called in rules: by the table or view that it is a selection of, if it is."""
    core_ = peel(rel).core
    return core_.name if isinstance(core_, algebra.Get) else "rows"


def _relation(name: str, types: tuple[Type, ...], kind: core.Kind) -> core.Relation:
    declared = tuple(_column(f"c{place}", type_) for place, type_ in enumerate(types))
    return core.Relation(name, declared, kind, None)


def _column(name: str, type_: Type) -> core.Column:
    """A column of a type of SQL's."""
    return core.Column(name, core.ValueType(str(type_), core.Domain.SQL, type_), type_)
