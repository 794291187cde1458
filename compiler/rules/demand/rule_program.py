"""Recursive relations of a query as a program of rules, the input of magic sets.

A relation becomes rules if it is a set and a union of joins of atoms. Any other relation is a base relation
of the program, computed as in the query. An antijoin, written in the algebra as all rows minus the matched
ones, becomes a negated atom.

Rules need no NULL: a row carries it like any value, and an equality never holds for it, as in SQL. A scalar
that the rule language lacks becomes a numbered function. Magic sets treat it as a function that may fail, and
never evaluate it where the query would not. An operator with state always evaluates its input, whereas a
selection or join evaluates only what its reader needs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import count, product
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import conjuncts, is_total, substitute
from kpg.compiler.algebra.traverse import (
    children,
    free_locals,
    renamed,
    scalars,
    transform_up,
    walk,
    with_children,
    with_scalars,
)
from kpg.compiler.passes.fuse_selections import build, peel
from kpg.compiler.rules import core
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, columns, remap, sql_text, transform
from kpg.runtime.types import BOOLEAN, Type


@dataclass(frozen=True, slots=True)
class Part:
    """An atom: the rows of ``rel``, its columns called by the numbers of variables.

    ``rel`` is a LocalGet of a relation with rules, or anything that is computed without rules.
    """

    rel: Rel
    variables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Absence:
    """A negated atom: ``rel``, which is computed without rules, has no row with the variables' values."""

    rel: Rel
    variables: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """The bindings of the parts' variables that satisfy the tests, with the scalars that they give.

    ``Column(index)`` of a scalar is a variable.
    """

    parts: tuple[Part, ...]
    tests: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]
    absences: tuple[Absence, ...] = ()


def unmatched(bodies: Sequence[Body], matches: Sequence[Body]) -> list[Body] | None:
    """The bodies without their bindings that are among the matches; None if these are not joins of them.

    Each match must be one of the bodies joined with one more relation, a set, by all its columns.
    """
    left = list(matches)
    found: list[Body] = []
    for body in bodies:
        absences = ((match, _absence(body, match)) for match in left)
        first = next(((match, absence) for match, absence in absences if absence is not None), None)
        if first is None:
            return None
        left.remove(first[0])
        found.append(replace(body, absences=(*body.absences, first[1])))
    return None if left else found


def _absence(body: Body, match: Body) -> Absence | None:
    """What the match has that the body has not; None if it is not just one relation more."""
    *same, extra = match.parts
    if not isinstance(extra.rel, algebra.Distinct) or len(same) != len(body.parts):
        return None
    names: dict[int, int] = {}
    for one, other in zip(same, body.parts, strict=True):
        if one.rel != other.rel:
            return None
        names.update(zip(one.variables, other.variables, strict=True))
    places = {variable: -1 - place for place, variable in enumerate(extra.variables)}
    names.update(places)
    tests = [remap(test, names.__getitem__) for test in match.tests]
    rest = [test for test in tests if test not in body.tests]
    outputs = tuple(remap(output, names.__getitem__) for output in match.outputs)
    if outputs != body.outputs or len(tests) - len(rest) != len(body.tests) or match.absences:
        return None
    return _equated(extra, rest)


def _equated(extra: Part, tests: Sequence[Scalar]) -> Absence | None:
    """The variables that the tests equate the relation's columns with, which they number from -1 down."""
    found: dict[int, Column] = {}
    for test in tests:
        match test:
            case Call(function="eq", args=(Column() as one, Column() as other)) if one.type == other.type:
                own, outer = (one, other) if one.index < 0 else (other, one)
                if own.index >= 0 or outer.index < 0 or -1 - own.index in found:
                    return None
                found[-1 - own.index] = outer
            case Column() | Fetch() | Literal() | If() | Call():
                return None
            case _:
                assert_never(test)
    if len(found) != len(extra.variables):
        return None
    return Absence(extra.rel, tuple(found[place] for place in range(len(found))))


def may_fail(rel: Rel, lets: Mapping[str, Rel]) -> bool:
    """Whether a row of the relation, read by a join, may have a column or pass a test that fails."""
    match rel:
        case algebra.Filter() | algebra.Map() | algebra.Join():
            return not all(map(is_total, scalars(rel))) or _any_may_fail(children(rel), lets)
        case algebra.Expand():
            return True
        case algebra.Project() | algebra.Union() | algebra.Negate():
            return _any_may_fail(children(rel), lets)
        case algebra.Let(id=id_, value=value, body=body):
            return may_fail(body, {**lets, id_: value})
        case algebra.LetRec(body=body):
            return may_fail(body, lets)
        case algebra.LocalGet(id=id_):
            return id_ in lets and may_fail(lets[id_], lets)
        case (
            algebra.Get()
            | algebra.Constant()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Reduce()
            | algebra.TopK()
            | algebra.Window()
            | algebra.Single()
        ):
            return False
        case _:
            assert_never(rel)


def _any_may_fail(rels: tuple[Rel, ...], lets: Mapping[str, Rel]) -> bool:
    return any(may_fail(rel, lets) for rel in rels)


MOST_BODIES: Final = 64
"""A relation that would take more rules than this is not taken apart."""
TAKES_AWAY: Final = "it takes rows away (NOT, EXCEPT or an outer join)"


class NotRules(Exception):
    """Why a relation cannot be written as rules."""


@dataclass(slots=True)
class Taking:
    """Takes relations apart; ``has_rules`` tells of which ids there are rules, or there are to be."""

    has_rules: Callable[[str], bool]
    own: frozenset[str]
    """The ids that must not be read but by atoms."""
    lets: Mapping[str, Rel]
    """What other ids stand for that are not recursive."""
    numbers: "count[int]" = field(default_factory=count)

    def apart(self, rel: Rel) -> list[Body]:
        """The relation's rows as a set; NotRules if they are no union of joins of such."""
        return self._bodies(_without_lets(rel))

    def _bodies(self, rel: Rel) -> list[Body]:
        free = free_locals(rel)
        fails = may_fail(rel, self.lets)
        if not fails and not any(self.has_rules(id_) for id_ in free):
            return [self._atom(rel)]
        try:
            return self._taken(rel)
        except NotRules:
            if fails or free & self.own:
                raise
            return [self._atom(rel)]

    def _atom(self, rel: Rel) -> Body:
        types = algebra.types(rel)
        variables = tuple(next(self.numbers) for _ in types)
        outputs = tuple(Column(number, type_) for number, type_ in zip(variables, types, strict=True))
        return Body((Part(rel, variables),), (), outputs)

    def _taken(self, rel: Rel) -> list[Body]:
        match rel:
            case algebra.LocalGet(id=id_) if self.has_rules(id_):
                return [self._atom(rel)]
            case algebra.Filter(input=source, predicates=predicates):
                return [_tested(body, predicates) for body in self._bodies(source)]
            case algebra.Map(input=source, scalars=scalars):
                return [_extended(body, scalars) for body in self._bodies(source)]
            case algebra.Project(input=source, columns=columns):
                return [_chosen(body, columns) for body in self._bodies(source)]
            case algebra.Distinct(input=source):
                return self._bodies(source)
            case algebra.Union(inputs=inputs):
                if any(is_negative(source) for source in inputs):
                    return self._difference(inputs)
                return [body for source in inputs for body in self._bodies(source)]
            case algebra.Join(inputs=inputs, on=on):
                return _products([self._bodies(source) for source in inputs], on)
            case algebra.Negate() | algebra.Threshold():
                raise NotRules(TAKES_AWAY)
            case algebra.Reduce():
                raise NotRules("it aggregates")
            case algebra.Expand():
                raise NotRules("a function makes rows of its rows")
            case algebra.LocalGet() | algebra.Get() | algebra.Constant():
                raise NotRules("what it reads may fail where it is not needed")
            case algebra.Window():
                raise NotRules("it has window functions")
            case algebra.TopK() | algebra.Single():
                raise NotRules("it limits rows or takes a row for a value")
            case algebra.Let() | algebra.LetRec():
                raise NotRules("it has a recursion inside that depends on it")
            case _:
                assert_never(rel)

    def _difference(self, inputs: Sequence[Rel]) -> list[Body]:
        """The rows of the first relation without the second, those of them that have a match, negated."""
        if len(inputs) != 2 or is_negative(inputs[0]) or not isinstance(inputs[1], algebra.Negate):
            raise NotRules(TAKES_AWAY)
        found = unmatched(self._taken(inputs[0]), self._taken(inputs[1].input))
        if found is None:
            raise NotRules(TAKES_AWAY)
        return found


def is_negative(rel: Rel) -> bool:
    """Whether a part of a union is there to be subtracted from the others."""
    while isinstance(rel, algebra.Filter | algebra.Map | algebra.Project):
        rel = rel.input
    return isinstance(rel, algebra.Negate)


def _tested(body: Body, predicates: Sequence[Scalar]) -> Body:
    tests = (substitute(predicate, body.outputs) for predicate in predicates)
    return replace(body, tests=conjuncts((*body.tests, *tests)))


def _extended(body: Body, scalars: Sequence[Scalar]) -> Body:
    more = tuple(substitute(scalar, body.outputs) for scalar in scalars)
    return replace(body, outputs=(*body.outputs, *more))


def _chosen(body: Body, columns: Sequence[int]) -> Body:
    return replace(body, outputs=tuple(body.outputs[column] for column in columns))


def _products(choices: Sequence[Sequence[Body]], on: Sequence[Scalar]) -> list[Body]:
    """The joins of one body of each input."""
    size = 1
    for bodies in choices:
        size *= len(bodies)
    if size > MOST_BODIES:
        raise NotRules(f"it would take {size} rules")
    found = []
    for combination in product(*choices):
        parts = tuple(part for body in combination for part in body.parts)
        tests = tuple(test for body in combination for test in body.tests)
        outputs = tuple(output for body in combination for output in body.outputs)
        absences = tuple(one for body in combination for one in body.absences)
        found.append(_tested(Body(parts, tests, outputs, absences), on))
    return found


def _without_lets(rel: Rel) -> Rel:
    """The relation with its lets written out; ids are unique."""

    def written(node: Rel) -> Rel:
        if isinstance(node, algebra.Let):
            return transform_up(node.body, lambda one: _replaced(one, node.id, node.value))
        return node

    return transform_up(rel, written)


def _replaced(node: Rel, id_: str, value: Rel) -> Rel:
    return value if isinstance(node, algebra.LocalGet) and node.id == id_ else node


NUMBERED: Final = "$scalar"
COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
NOWHERE: Final = Span("", 0, 0)
TRUE: Final = core.Constant(1, BOOLEAN)


@dataclass(slots=True)
class Numbered:
    """The scalars that have numbers, over the arguments of their calls."""

    known: dict[Scalar, int] = field(default_factory=dict)

    def expression(self, scalar: Scalar, terms: dict[int, core.HeadTerm]) -> core.Expression:
        """A scalar over variables, which are called ``terms``, as an expression."""
        match scalar:
            case Column(index=index):
                return terms[index]
            case Literal(value=value, type=type_) if value is not None:
                return core.Constant(value, type_)
            case Fetch() | Literal() | If() | Call():
                read = sorted(columns(scalar))
                template = remap(scalar, read.index)
                number = self.known.setdefault(template, len(self.known))
                return core.Call(f"{NUMBERED}{number}", tuple(terms[one] for one in read), scalar.type)
            case _:
                assert_never(scalar)

    def test(self, predicate: Scalar, terms: dict[int, core.HeadTerm]) -> core.Comparison:
        """A predicate as a comparison."""
        if isinstance(predicate, Call) and predicate.function in COMPARISONS and _is_plain(predicate.args):
            left, right = (self.expression(arg, terms) for arg in predicate.args)
            return core.Comparison(predicate.function, left, right, NOWHERE)
        return core.Comparison("eq", self.expression(predicate, terms), TRUE, NOWHERE)

    def lines(self) -> tuple[str, ...]:
        """What the numbers mean, a line each."""
        return tuple(f"{NUMBERED}{number}(#0, ...) is {sql_text(one)}" for one, number in self.known.items())

    def resolved(self, rel: Rel) -> Rel:
        """A relation with the numbered scalars in the place of their calls."""
        templates = {f"{NUMBERED}{number}": template for template, number in self.known.items()}

        def inner(scalar: Scalar) -> Scalar:
            if isinstance(scalar, Call) and scalar.function in templates:
                return substitute(templates[scalar.function], scalar.args)
            return scalar

        def outer(scalar: Scalar) -> Scalar:
            match scalar:
                case Call(function="eq", args=(Call(function=name) as test, Literal())) if name in templates:
                    return test
                case Column() | Fetch() | Literal() | If() | Call():
                    return scalar
                case _:
                    assert_never(scalar)

        def rewritten(node: Rel) -> Rel:
            own = scalars(node)
            new = tuple(transform(outer(one), inner) for one in own)
            return node if new == own else with_scalars(node, new)

        return transform_up(rel, rewritten)


def _is_plain(args: tuple[Scalar, ...]) -> bool:
    """Whether the two are different columns or values, and of one type."""
    plain = all(
        isinstance(one, Column) or (isinstance(one, Literal) and one.value is not None) for one in args
    )
    return plain and args[0] != args[1] and args[0].type == args[1].type


A_STOP = 10_000
"""A number of rounds that no query means: an error after so many only stops what does not end."""
Frame = algebra.Let | algebra.LetRec


def hoisted(rel: Rel) -> Rel:
    """The relation with each LetRec, and the lets around it, moved above operators and out of lets' values.

    ``Filter [#0 = 1] (LetRec [r] ... r)`` becomes ``LetRec [r] ... (Filter [#0 = 1] r)``. One that depends
    on the recursion around it stays there. Relations of a recursion that no other reads become lets.
    """
    return transform_up(renamed(rel), _lifted)


def _lifted(node: Rel) -> Rel:
    if isinstance(node, algebra.LetRec):
        return _freed(_opened(node))
    if isinstance(node, algebra.Let):
        frames, inner = _frames(node.value)
        return _within(frames, replace(node, value=inner))
    parts = [_frames(child) for child in children(node)]
    if not any(frames for frames, _ in parts):
        return node
    bare = with_children(node, tuple(inner for _, inner in parts))
    return _within([frame for frames, _ in parts for frame in frames], bare)


def _frames(rel: Rel) -> tuple[list[Frame], Rel]:
    """The lets at the top, as far as there is recursion among them, and what is within them."""
    frames: list[Frame] = []
    inner = rel
    while isinstance(inner, algebra.Let | algebra.LetRec):
        frames.append(inner)
        inner = inner.body
    while frames and isinstance(frames[-1], algebra.Let):
        inner = frames.pop()
    return frames, inner


def counts_rounds(rec: algebra.LetRec) -> bool:
    """Whether the result of a recursion depends on how many rounds it takes."""
    return rec.limit is not None and (not rec.error_at_limit or rec.limit < A_STOP)


def _opened(rec: algebra.LetRec) -> algebra.LetRec:
    """The recursion with what only reads its relations as lets in its body."""
    while not counts_rounds(rec):
        read = frozenset[str]().union(*map(free_locals, rec.values))
        last = next((id_ for id_ in reversed(rec.ids) if id_ not in read), None)
        if last is None or len(rec.ids) == 1:
            return rec
        place = rec.ids.index(last)
        kept = [other for other in range(len(rec.ids)) if other != place]
        rec = replace(
            rec,
            ids=tuple(rec.ids[other] for other in kept),
            values=tuple(rec.values[other] for other in kept),
            types=tuple(rec.types[other] for other in kept),
            body=algebra.Let(last, rec.values[place], rec.body),
        )
    return rec


def _freed(rec: algebra.LetRec) -> Rel:
    """The recursion within what its definitions bind that does not depend on it."""
    parts = [_frames(value) for value in rec.values]
    frames = [frame for own, _ in parts for frame in own]
    if not frames or any(_depends(frame, rec.ids) for frame in frames):
        return rec
    return _within(frames, replace(rec, values=tuple(inner for _, inner in parts)))


def _depends(frame: Frame, ids: Sequence[str]) -> bool:
    values = frame.values if isinstance(frame, algebra.LetRec) else (frame.value,)
    return any(not free_locals(value).isdisjoint(ids) for value in values)


def _within(frames: Sequence[Frame], body: Rel) -> Rel:
    for frame in reversed(frames):
        body = replace(frame, body=body)
    return body


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
