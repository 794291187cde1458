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
    renumber_lets,
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
class RelationAtom:
    """An atom: the rows of ``rel``, with a variable number for each column.

    ``rel`` is a LocalGet of a relation with rules, or any relation that is computed without rules.
    """

    rel: Rel
    variables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NegatedAtom:
    """A negated atom: ``rel``, which is computed without rules, has no row with the variables' values."""

    rel: Rel
    variables: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """A rule body: the bindings of the atoms' variables that satisfy the tests, and the scalars to derive.

    ``Column(index)`` in a scalar denotes a variable.
    """

    atoms: tuple[RelationAtom, ...]
    tests: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]
    negated_atoms: tuple[NegatedAtom, ...] = ()


def subtract_matches(bodies: Sequence[Body], matches: Sequence[Body]) -> list[Body] | None:
    """Return the bodies with the matches as negated atoms, or None if that is impossible.

    Each match must be one of the bodies joined with one more relation, a set, by all its columns.
    """
    remaining = list(matches)
    found: list[Body] = []
    for body in bodies:
        absences = ((match, _additional_atom(body, match)) for match in remaining)
        first = next(((match, absence) for match, absence in absences if absence is not None), None)
        if first is None:
            return None
        remaining.remove(first[0])
        found.append(replace(body, negated_atoms=(*body.negated_atoms, first[1])))
    return None if remaining else found


def _additional_atom(body: Body, match: Body) -> NegatedAtom | None:
    """Return the negation of the match's one additional atom, or None if it differs otherwise."""
    *same, extra = match.atoms
    if not isinstance(extra.rel, algebra.Distinct) or len(same) != len(body.atoms):
        return None
    names: dict[int, int] = {}
    for one, other in zip(same, body.atoms, strict=True):
        if one.rel != other.rel:
            return None
        names.update(zip(one.variables, other.variables, strict=True))
    places = {variable: -1 - place for place, variable in enumerate(extra.variables)}
    names.update(places)
    tests = [remap(test, names.__getitem__) for test in match.tests]
    rest = [test for test in tests if test not in body.tests]
    outputs = tuple(remap(output, names.__getitem__) for output in match.outputs)
    if outputs != body.outputs or len(tests) - len(rest) != len(body.tests) or match.negated_atoms:
        return None
    return _negate_atom(extra, rest)


def _negate_atom(extra: RelationAtom, tests: Sequence[Scalar]) -> NegatedAtom | None:
    """Return the negated atom, or None unless each column is equated with one variable of the body.

    The tests number the atom's columns from -1 down.
    """
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
    return NegatedAtom(extra.rel, tuple(found[place] for place in range(len(found))))


def may_fail(rel: Rel, lets: Mapping[str, Rel]) -> bool:
    """Return whether a row of the relation, read by a join, may have a failing column or test."""
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


MAX_BODIES: Final = 64
"""Maximum number of rules per relation.

A relation that needs more is not translated.
"""
SUBTRACTS_ROWS: Final = "it takes rows away (NOT, EXCEPT or an outer join)"


class NotRules(Exception):
    """The reason that a relation cannot be written as rules."""


@dataclass(slots=True)
class BodyExtractor:
    """Translates relations to rule bodies.

    ``has_rules`` states which ids have rules or will have them.
    """

    has_rules: Callable[[str], bool]
    own: frozenset[str]
    """Ids that only atoms may read."""
    lets: Mapping[str, Rel]
    """Values of ids that are not recursive."""
    numbers: "count[int]" = field(default_factory=count)

    def extract(self, rel: Rel) -> list[Body]:
        """Return bodies whose union is the relation's rows as a set.

        Raises NotRules if the relation is not a union of joins.
        """
        return self._bodies(_inline_lets(rel))

    def _bodies(self, rel: Rel) -> list[Body]:
        free = free_locals(rel)
        fails = may_fail(rel, self.lets)
        if not fails and not any(self.has_rules(id_) for id_ in free):
            return [self._atom(rel)]
        try:
            return self._extract(rel)
        except NotRules:
            if fails or free & self.own:
                raise
            return [self._atom(rel)]

    def _atom(self, rel: Rel) -> Body:
        types = algebra.types(rel)
        variables = tuple(next(self.numbers) for _ in types)
        outputs = tuple(Column(number, type_) for number, type_ in zip(variables, types, strict=True))
        return Body((RelationAtom(rel, variables),), (), outputs)

    def _extract(self, rel: Rel) -> list[Body]:
        match rel:
            case algebra.LocalGet(id=id_) if self.has_rules(id_):
                return [self._atom(rel)]
            case algebra.Filter(input=source, predicates=predicates):
                return [_filter(body, predicates) for body in self._bodies(source)]
            case algebra.Map(input=source, scalars=scalars):
                return [_extend(body, scalars) for body in self._bodies(source)]
            case algebra.Project(input=source, columns=columns):
                return [_project(body, columns) for body in self._bodies(source)]
            case algebra.Distinct(input=source):
                return self._bodies(source)
            case algebra.Union(inputs=inputs):
                if any(is_negative(source) for source in inputs):
                    return self._difference(inputs)
                return [body for source in inputs for body in self._bodies(source)]
            case algebra.Join(inputs=inputs, on=on):
                return _join_bodies([self._bodies(source) for source in inputs], on)
            case algebra.Negate() | algebra.Threshold():
                raise NotRules(SUBTRACTS_ROWS)
            case algebra.Reduce():
                raise NotRules("it aggregates")
            case algebra.Expand():
                raise NotRules("it calls a set-returning function")
            case algebra.LocalGet() | algebra.Get() | algebra.Constant():
                raise NotRules("a relation that it reads may fail for rows that are not needed")
            case algebra.Window():
                raise NotRules("it has window functions")
            case algebra.TopK() | algebra.Single():
                raise NotRules("it has LIMIT, DISTINCT ON or a scalar subquery")
            case algebra.Let() | algebra.LetRec():
                raise NotRules("it contains a recursion that depends on it")
            case _:
                assert_never(rel)

    def _difference(self, inputs: Sequence[Rel]) -> list[Body]:
        """Return the bodies of a difference between a relation and its matches, with negated atoms."""
        if len(inputs) != 2 or is_negative(inputs[0]) or not isinstance(inputs[1], algebra.Negate):
            raise NotRules(SUBTRACTS_ROWS)
        found = subtract_matches(self._extract(inputs[0]), self._extract(inputs[1].input))
        if found is None:
            raise NotRules(SUBTRACTS_ROWS)
        return found


def is_negative(rel: Rel) -> bool:
    """Return whether a branch of a union is subtracted from the others."""
    while isinstance(rel, algebra.Filter | algebra.Map | algebra.Project):
        rel = rel.input
    return isinstance(rel, algebra.Negate)


def _filter(body: Body, predicates: Sequence[Scalar]) -> Body:
    tests = (substitute(predicate, body.outputs) for predicate in predicates)
    return replace(body, tests=conjuncts((*body.tests, *tests)))


def _extend(body: Body, scalars: Sequence[Scalar]) -> Body:
    more = tuple(substitute(scalar, body.outputs) for scalar in scalars)
    return replace(body, outputs=(*body.outputs, *more))


def _project(body: Body, columns: Sequence[int]) -> Body:
    return replace(body, outputs=tuple(body.outputs[column] for column in columns))


def _join_bodies(choices: Sequence[Sequence[Body]], on: Sequence[Scalar]) -> list[Body]:
    """Return the joins of one body of each input."""
    size = 1
    for bodies in choices:
        size *= len(bodies)
    if size > MAX_BODIES:
        raise NotRules(f"it would take {size} rules")
    found = []
    for combination in product(*choices):
        parts = tuple(part for body in combination for part in body.atoms)
        tests = tuple(test for body in combination for test in body.tests)
        outputs = tuple(output for body in combination for output in body.outputs)
        absences = tuple(one for body in combination for one in body.negated_atoms)
        found.append(_filter(Body(parts, tests, outputs, absences), on))
    return found


def _inline_lets(rel: Rel) -> Rel:
    """Return the relation with its lets inlined.

    Their ids must be unique.
    """

    def inline(node: Rel) -> Rel:
        if isinstance(node, algebra.Let):
            return transform_up(node.body, lambda one: _replace_local(one, node.id, node.value))
        return node

    return transform_up(rel, inline)


def _replace_local(node: Rel, id_: str, value: Rel) -> Rel:
    return value if isinstance(node, algebra.LocalGet) and node.id == id_ else node


SCALAR_PREFIX: Final = "$scalar"
COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
NOWHERE: Final = Span("", 0, 0)
TRUE: Final = core.Constant(1, BOOLEAN)


@dataclass(slots=True)
class ScalarFunctions:
    """Scalars that the rule language lacks, as numbered functions of the columns that they read."""

    numbers: dict[Scalar, int] = field(default_factory=dict)

    def expression(self, scalar: Scalar, terms: dict[int, core.HeadTerm]) -> core.Expression:
        """Return a scalar as an expression over ``terms``, the terms of its variables."""
        match scalar:
            case Column(index=index):
                return terms[index]
            case Literal(value=value, type=type_) if value is not None:
                return core.Constant(value, type_)
            case Fetch() | Literal() | If() | Call():
                read = sorted(columns(scalar))
                template = remap(scalar, read.index)
                number = self.numbers.setdefault(template, len(self.numbers))
                return core.Call(f"{SCALAR_PREFIX}{number}", tuple(terms[one] for one in read), scalar.type)
            case _:
                assert_never(scalar)

    def test(self, predicate: Scalar, terms: dict[int, core.HeadTerm]) -> core.Comparison:
        """Return a predicate as a comparison."""
        if (
            isinstance(predicate, Call)
            and predicate.function in COMPARISONS
            and _are_comparable(predicate.args)
        ):
            left, right = (self.expression(arg, terms) for arg in predicate.args)
            return core.Comparison(predicate.function, left, right, NOWHERE)
        return core.Comparison("eq", self.expression(predicate, terms), TRUE, NOWHERE)

    def lines(self) -> tuple[str, ...]:
        """Return the definitions of the numbered functions, one per line."""
        return tuple(
            f"{SCALAR_PREFIX}{number}(#0, ...) is {sql_text(one)}" for one, number in self.numbers.items()
        )

    def expand_calls(self, rel: Rel) -> Rel:
        """Return the relation with calls of numbered functions replaced by their scalars."""
        templates = {f"{SCALAR_PREFIX}{number}": template for template, number in self.numbers.items()}

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

        def rewrite(node: Rel) -> Rel:
            own = scalars(node)
            new = tuple(transform(outer(one), inner) for one in own)
            return node if new == own else with_scalars(node, new)

        return transform_up(rel, rewrite)


def _are_comparable(args: tuple[Scalar, ...]) -> bool:
    """Return whether the two arguments are different columns or values of one type."""
    plain = all(
        isinstance(arg, Column) or (isinstance(arg, Literal) and arg.value is not None) for arg in args
    )
    return plain and args[0] != args[1] and args[0].type == args[1].type


MIN_SAFETY_LIMIT = 10_000
"""Minimum round limit that only stops infinite recursion.

No query depends on such a limit.
"""
Frame = algebra.Let | algebra.LetRec


def hoist_recursion(rel: Rel) -> Rel:
    """Move each LetRec, and the lets around it, above operators and out of the values of lets.

    ``Filter [#0 = 1] (LetRec [r] ... r)`` becomes ``LetRec [r] ... (Filter [#0 = 1] r)``. A LetRec
    that depends on an enclosing recursion stays. Relations of a recursion that no other one reads
    become lets.
    """
    return transform_up(renumber_lets(rel), _hoist_node)


def _hoist_node(node: Rel) -> Rel:
    if isinstance(node, algebra.LetRec):
        return _hoist_invariant_lets(_move_outputs_to_body(node))
    if isinstance(node, algebra.Let):
        frames, inner = _frames(node.value)
        return _wrap_in(frames, replace(node, value=inner))
    parts = [_frames(child) for child in children(node)]
    if not any(frames for frames, _ in parts):
        return node
    bare = with_children(node, tuple(inner for _, inner in parts))
    return _wrap_in([frame for frames, _ in parts for frame in frames], bare)


def _frames(rel: Rel) -> tuple[list[Frame], Rel]:
    """Return the enclosing lets up to the last recursion among them, and the relation inside."""
    frames: list[Frame] = []
    inner = rel
    while isinstance(inner, algebra.Let | algebra.LetRec):
        frames.append(inner)
        inner = inner.body
    while frames and isinstance(frames[-1], algebra.Let):
        inner = frames.pop()
    return frames, inner


def counts_rounds(rec: algebra.LetRec) -> bool:
    """Return whether the result of a recursion depends on the number of rounds."""
    return rec.limit is not None and (not rec.error_at_limit or rec.limit < MIN_SAFETY_LIMIT)


def _move_outputs_to_body(rec: algebra.LetRec) -> algebra.LetRec:
    """Move relations that no relation of the recursion reads to lets in its body."""
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


def _hoist_invariant_lets(rec: algebra.LetRec) -> Rel:
    """Move lets inside the definitions that do not depend on the recursion around it."""
    parts = [_frames(value) for value in rec.values]
    frames = [frame for own, _ in parts for frame in own]
    if not frames or any(_depends(frame, rec.ids) for frame in frames):
        return rec
    return _wrap_in(frames, replace(rec, values=tuple(inner for _, inner in parts)))


def _depends(frame: Frame, ids: Sequence[str]) -> bool:
    values = frame.values if isinstance(frame, algebra.LetRec) else (frame.value,)
    return any(not free_locals(value).isdisjoint(ids) for value in values)


def _wrap_in(frames: Sequence[Frame], body: Rel) -> Rel:
    for frame in reversed(frames):
        body = replace(frame, body=body)
    return body


@dataclass(frozen=True, slots=True)
class Definitions:
    """Values of a query's lets and recursive lets.

    Their ids are unique.
    """

    values: Mapping[str, Rel]
    loops: Mapping[str, algebra.LetRec]
    """The LetRec that binds an id, for recursive ids."""

    @staticmethod
    def collect(rel: Rel) -> "Definitions":
        """Return the definitions anywhere in a relation."""
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
        """Definitions that are not part of a LetRec."""
        return {id_: value for id_, value in self.values.items() if id_ not in self.loops}

    def is_recursive(self, id_: str) -> bool:
        """Return whether the id is a recursive relation or depends on one."""
        if id_ in self.loops:
            return True
        return id_ in self.values and any(self.is_recursive(one) for one in free_locals(self.values[id_]))


@dataclass(frozen=True, slots=True)
class RuleProgram:
    """A program, and the query's relations for its base relations.

    ``limit`` is the number of rounds after which the query's recursion stops with an error.
    """

    program: core.Program
    bases: Mapping[str, Rel]
    scalar_functions: ScalarFunctions
    limit: int | None


def build_rules(target: algebra.LetRec, definitions: Definitions) -> RuleProgram:
    """Return the rules of a recursion's relations and of those that they depend on.

    Raises NotRules if a relation of the recursion cannot be written as rules.
    """
    without_rules: set[str] = set()
    while True:
        builder = _RuleBuilder(definitions, frozenset(target.ids), without_rules)
        for id_ in target.ids:
            builder.add_relation(id_)
        if builder.add_pending():
            program = core.Program(builder.relations, tuple(builder.rules), {}, (), (), (), (), {}, {})
            return RuleProgram(program, builder.bases, builder.scalar_functions, builder.limit)


@dataclass(slots=True)
class _RuleBuilder:
    definitions: Definitions
    target_ids: frozenset[str]
    """Ids of the recursion to translate."""
    without_rules: set[str]
    """Other relations that cannot be written as rules.

    They are read as base relations.
    """
    relations: dict[str, core.Relation] = field(default_factory=dict)
    rules: list[core.Rule] = field(default_factory=list)
    bases: dict[str, Rel] = field(default_factory=dict)
    names: dict[Rel, str] = field(default_factory=dict)
    scalar_functions: ScalarFunctions = field(default_factory=ScalarFunctions)
    pending: list[str] = field(default_factory=list)
    limit: int | None = None

    def add_pending(self) -> bool:
        """Add the rules of relations that are read.

        Return False if one turned out to have none.
        """
        while self.pending:
            id_ = self.pending.pop()
            try:
                self.add_relation(id_)
            except NotRules:
                self.without_rules.add(id_)
                return False
        return True

    def add_relation(self, id_: str) -> None:
        """Add the rules of a relation.

        Raises NotRules if it has none.
        """
        if id_ in self.relations:
            return
        self._check(id_)
        value = self.definitions.values[id_]
        loop = self.definitions.loops.get(id_)
        own = frozenset(() if loop is None else loop.ids)
        extractor = BodyExtractor(self._has_rules, own, self.definitions.lets)
        bodies = extractor.extract(value)
        self.relations[id_] = _relation(id_, algebra.types(value), core.Kind.DERIVED)
        for body in bodies:
            self._add_rule(id_, body)

    def _has_rules(self, id_: str) -> bool:
        """Return whether a relation is read by its rules.

        Those of the target are, others if possible.
        """
        if id_ in self.target_ids:
            return True
        if id_ in self.without_rules or not self.definitions.is_recursive(id_):
            return False
        try:
            self._check(id_)
        except NotRules:
            self.without_rules.add(id_)
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

    def _add_rule(self, id_: str, body: Body) -> None:
        if len(body.atoms) > 1 and not all(map(is_total, body.outputs)):
            raise NotRules("it computes what may fail")
        naming = _VariableNaming(body)
        atoms = [self._atom(part, naming) for part in body.atoms]
        terms = naming.terms
        tests = [
            self.scalar_functions.test(test, terms if is_total(test) else terms | naming.test_terms)
            for test in naming.tests
        ]
        more: list[core.Literal] = []
        head: list[core.HeadTerm] = []
        for place, output in enumerate(body.outputs):
            term = self.scalar_functions.expression(output, terms)
            if isinstance(term, core.Call):
                # A generated name. Variables of the body begin with v or w.
                variable = core.Variable(f"h{place}", output.type)
                more.append(core.Assignment(variable, term, NOWHERE))
                term = variable
            assert not isinstance(term, core.Parameter)
            head.append(term)
        absences = (core.Negation(self._negated_atom(one, naming)) for one in body.negated_atoms)
        literals = (*atoms, *tests, *more, *absences)
        self.rules.append(core.Rule(core.Head(id_, tuple(head), NOWHERE), literals, NOWHERE))

    def _atom(self, part: RelationAtom, naming: "_VariableNaming") -> core.Atom:
        terms = tuple(naming.terms[variable] for variable in part.variables)
        apart = [place for place, number in enumerate(part.variables) if number in naming.test_terms]
        if isinstance(part.rel, algebra.LocalGet) and self._has_rules(part.rel.id):
            if apart:
                raise NotRules("a test of its rows may fail")
            if part.rel.id not in self.relations:
                self.pending.append(part.rel.id)
            return core.Atom(part.rel.id, terms, NOWHERE)
        used = [place for place, number in enumerate(part.variables) if number in naming.used]
        some = part.rel if algebra.types(part.rel) else algebra.Map(part.rel, (Literal(1, BOOLEAN),))
        rel = build(peel(algebra.Project(some, tuple([*used, *apart] or [0]))))
        name = self._base_name(rel)
        every = [terms[place] for place in used] + [
            naming.test_terms[part.variables[place]] for place in apart
        ]
        any_row = (core.Wildcard(algebra.types(rel)[0]),)
        return core.Atom(name, tuple(every) or any_row, NOWHERE)

    def _negated_atom(self, absence: NegatedAtom, naming: "_VariableNaming") -> core.Atom:
        terms = tuple(naming.terms[variable.index] for variable in absence.variables)
        return core.Atom(self._base_name(absence.rel), terms, NOWHERE)

    def _base_name(self, rel: Rel) -> str:
        """Return the name of a base relation, and add the relation if it is new."""
        name = self.names.get(rel)
        if name is None:
            name = self.names[rel] = f"{_base_relation_name(rel)} {len(self.names)}"
            self.bases[name] = rel
            self.relations[name] = _relation(name, algebra.types(rel), core.Kind.EXTERNAL)
        return name


class _VariableNaming:
    """Terms for a body's variables.

    Equal variables share a term, and those equal to a constant become it. ``tests`` are the body's
    tests that the terms do not imply. Tests that may fail read the separate variables ``test_terms``
    of the same columns. In a rule they test these rows, not the demand.
    """

    def __init__(self, body: Body) -> None:
        self._class: dict[int, int] = {}
        self._values: dict[int, core.Constant] = {}
        self.tests: list[Scalar] = []
        for test in body.tests:
            if not self._unify(test):
                self.tests.append(test)
        self.terms: dict[int, core.HeadTerm] = {}
        for part in body.atoms:
            for number, type_ in zip(part.variables, algebra.types(part.rel), strict=True):
                first = self._find(number)
                known = self._values.get(first)
                self.terms[number] = known or core.Variable(f"v{first}", type_)
        self.test_terms: dict[int, core.HeadTerm] = {
            number: core.Variable(f"w{number}", self.terms[number].type)
            for test in self.tests
            if not is_total(test)
            for number in columns(test)
        }
        self.used = self._find_used(body)

    def _find_used(self, body: Body) -> set[int]:
        """Return the variables that something else depends on."""
        tests = (test for test in self.tests if is_total(test))
        absent = (variable for absence in body.negated_atoms for variable in absence.variables)
        read = {column for scalar in (*tests, *body.outputs, *absent) for column in columns(scalar)}
        firsts = [self._find(number) for part in body.atoms for number in part.variables]
        read_firsts = {self._find(number) for number in read}
        return {
            number
            for part in body.atoms
            for number in part.variables
            if self._find(number) in read_firsts
            or firsts.count(self._find(number)) > 1
            or self._find(number) in self._values
        }

    def _find(self, number: int) -> int:
        while number in self._class:
            number = self._class[number]
        return number

    def _unify(self, test: Scalar) -> bool:
        """Return whether the test is an equality that the terms can imply, and record it."""
        match test:
            case Call(function="eq", args=(Column() as left, Column() as right)) if left.type == right.type:
                return left != right and self._merge_classes(left.index, right.index)
            case (
                Call(function="eq", args=(Column() as column, Literal() as value))
                | Call(function="eq", args=(Literal() as value, Column() as column))
            ) if column.type == value.type and value.value is not None:
                return self._bind_constant(column.index, core.Constant(value.value, value.type))
            case Column() | Fetch() | Literal() | If() | Call():
                return False
            case _:
                assert_never(test)

    def _merge_classes(self, left: int, right: int) -> bool:
        one, other = self._find(left), self._find(right)
        if one == other:
            return True
        if one in self._values and other in self._values:
            return False
        if other in self._values:
            one, other = other, one
        self._class[other] = one
        return True

    def _bind_constant(self, number: int, value: core.Constant) -> bool:
        first = self._find(number)
        return self._values.setdefault(first, value) == value


def _base_relation_name(rel: Rel) -> str:
    """Return the base name of a relation in rules: the table or view that it selects from, or ``rows``."""
    core_ = peel(rel).core
    return core_.name if isinstance(core_, algebra.Get) else "rows"


def _relation(name: str, types: tuple[Type, ...], kind: core.Kind) -> core.Relation:
    declared = tuple(_column(f"c{place}", type_) for place, type_ in enumerate(types))
    return core.Relation(name, declared, kind, None)


def _column(name: str, type_: Type) -> core.Column:
    """Return a column of a SQL type."""
    return core.Column(name, core.ValueType(str(type_), core.Domain.SQL, type_), type_)
