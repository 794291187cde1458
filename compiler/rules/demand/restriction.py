"""Restriction of a query's recursion by demand: the rewritten query, or the reason against it.

Demand comes from predicates that bind columns to constants, and from join inputs that supply
values. A read of the recursive relation is replaced by a relation of the rows for those values.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import count, product
from operator import add
from typing import Final, assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.facts import Facts
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.scalars import INTEGER_BITS, all_columns, is_total, widens
from kpg.compiler.algebra.traverse import (
    children,
    free_locals,
    let_values,
    transform_up,
    width,
    with_children,
)
from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.passes import PREDICATE_PLACEMENT, run
from kpg.compiler.passes.fuse_selections import Selection, build, peel
from kpg.compiler.physical.cardinality import CardinalityEstimates, Statistics
from kpg.compiler.rules import core
from kpg.compiler.rules.demand import Note, RestrictionResult
from kpg.compiler.rules.demand.rule_program import (
    Definitions,
    NotRules,
    RuleProgram,
    build_rules,
    hoist_recursion,
    is_negative,
    may_fail,
)
from kpg.compiler.rules.lower.program import Sources, lowering
from kpg.compiler.rules.magic import GoalProgram, Policy, Strategy, prepare
from kpg.compiler.rules.strata import strata
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, remap
from kpg.runtime.scalar import columns as columns_of
from kpg.runtime.types import ColumnDef, Schema, Type


@dataclass(frozen=True, slots=True)
class Link:
    """Columns of a join input that equal total scalars over another input, ``source``."""

    source: int
    columns: tuple[int, ...]
    values: tuple[Scalar, ...]


def links(join: algebra.Join, place: int) -> Iterator[Link]:
    """Yield the links by which other inputs of the join supply values for the input at ``place``."""
    owners = [at for at, source in enumerate(join.inputs) for _ in range(width(source))]
    starts = {at: owners.index(at) for at in set(owners)}
    found: dict[int, dict[int, Scalar]] = {}
    for column, scalar in _column_equalities(join.on):
        sources = {owners[one] for one in columns_of(scalar)}
        if owners[column.index] != place or len(sources) != 1 or place in sources:
            continue
        (source,) = sources
        local_scalar = remap(scalar, partial(add, -starts[source]))
        found.setdefault(source, {}).setdefault(column.index - starts[place], local_scalar)
    for source, pairs in found.items():
        yield Link(source, tuple(pairs), tuple(pairs.values()))


def _column_equalities(on: Sequence[Scalar]) -> Iterator[tuple[Column, Scalar]]:
    """Yield each column that equals a total scalar of the same type, in both directions."""
    for predicate in on:
        match predicate:
            case Call(function="eq", args=(left, right)) if left.type == right.type:
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, Column) and is_total(other):
                        yield one, other
            case Column() | Fetch() | Literal() | If() | Call():
                pass
            case _:
                assert_never(predicate)


def distinct_values(rel: Rel, scalars: Sequence[Scalar]) -> Rel:
    """Return the distinct values of scalars over a relation."""
    return algebra.Distinct(build(Selection(rel, (), tuple(scalars))))


MAX_VALUES: Final = 1000
"""Maximum number of constant rows that restrict a recursion.

They are the product of the columns' values and become part of the plan.
"""
Value = int | str


def constant_bindings(predicates: Iterable[Scalar]) -> tuple[tuple[int, ...], algebra.Constant] | None:
    """Return the columns that the predicates restrict to constants, and these constants as rows."""
    found: dict[int, tuple[Type, tuple[Value, ...]]] = {}
    for predicate in predicates:
        binding = _constant_binding(predicate)
        if binding is not None:
            column, values = binding
            previous = found.get(column.index)
            if previous is None or len(values) < len(previous[1]):
                found[column.index] = column.type, values
    rows: list[tuple[Value, ...]] = [()]
    chosen: list[int] = []
    for index, (_, values) in sorted(found.items(), key=lambda item: len(item[1][1])):
        if len(rows) * len(values) <= MAX_VALUES:
            chosen.append(index)
            rows = [(*row, value) for row, value in product(rows, values)]
    if not chosen:
        return None
    order = sorted(range(len(chosen)), key=chosen.__getitem__)
    types = tuple(found[chosen[place]][0] for place in order)
    return tuple(sorted(chosen)), algebra.Constant(
        tuple(tuple(row[place] for place in order) for row in rows), types
    )


def _constant_binding(predicate: Scalar) -> tuple[Column, tuple[Value, ...]] | None:
    match predicate:
        case Call(function="eq" | "is_not_distinct", args=(left, Literal() as right)):
            return _comparable_constants(left, (right,))
        case Call(function="eq" | "is_not_distinct", args=(Literal() as left, right)):
            return _comparable_constants(right, (left,))
        case Call(function="in", args=(left, *rest)):
            literals = [literal for literal in rest if isinstance(literal, Literal)]
            return _comparable_constants(left, literals) if len(literals) == len(rest) else None
        case Call(function="or", args=args):
            return _disjunction_binding([_constant_binding(arg) for arg in args])
        case Column() | Fetch() | Literal() | If() | Call():
            return None
        case _:
            assert_never(predicate)


def _disjunction_binding(
    choices: Sequence[tuple[Column, tuple[Value, ...]] | None],
) -> tuple[Column, tuple[Value, ...]] | None:
    first = choices[0]
    if first is None:
        return None
    values: dict[Value, None] = {}
    for choice in choices:
        if choice is None or choice[0] != first[0]:
            return None
        values.update(dict.fromkeys(choice[1]))
    return first[0], tuple(values)


def _comparable_constants(
    side: Scalar, literals: Sequence[Literal]
) -> tuple[Column, tuple[Value, ...]] | None:
    """Return the column and the constants that it can equal, or None if that is not certain.

    A column that is widened for the comparison has the same word as its widened value.
    """
    widened = isinstance(side, Call) and side.function == "cast"
    column = side.args[0] if isinstance(side, Call) and widened else side
    if not isinstance(column, Column) or (widened and not widens(column.type, side.type)):
        return None
    values: dict[Value, None] = {}
    for literal in literals:
        if literal.type != side.type:
            return None
        if literal.value is None:
            if len(literals) == 1:
                return None
            continue
        if _fits(literal.value, column.type):
            values[literal.value] = None
    return column, tuple(values)


def _fits(value: Value, type_: Type) -> bool:
    """Return whether a value of the wider type is a value of ``type_``."""
    bits = INTEGER_BITS.get(type_.kind)
    return bits is None or not isinstance(value, int) or -(2**bits) <= value < 2**bits


ROWS_PER_VALUE: Final = 10.0
"""Estimated rows of a relation per value of a column."""
MIN_START_RATIO: Final = 16
"""Minimum ratio of start rows to demanded rows.

Below it, the recursion is computed in full.
"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason that a relation is computed in full."""

    reason: str


@dataclass(slots=True)
class DemandRewriter:
    """Rewriter of a recursion's rules for demands."""

    rules: RuleProgram
    sizes: CardinalityEstimates
    programs: dict[tuple[str, tuple[int, ...]], GoalProgram] = field(default_factory=dict)

    def restrict(self, id_: str, columns: Sequence[int], seed: Rel, rows: float) -> Rel | Refusal:
        """Return the rows of a relation whose ``columns`` match a row of ``seed``, or the reason against it.

        ``rows`` is the estimated number of seed rows.
        """
        prepared = self.program_for(id_, columns)
        if prepared.strategy in (Strategy.FULL, Strategy.LOOKUP) or prepared.seed is None:
            return Refusal(prepared.explanation.reason)
        if self._start_rows() <= MIN_START_RATIO * rows and _is_recursive(prepared):
            return Refusal("it starts from few rows, and what is asked for would have to be found too")
        return self._lower_answer(prepared, seed)

    def program_for(self, id_: str, columns: Sequence[int]) -> GoalProgram:
        """Return the program for goals that bind ``columns``."""
        key = id_, tuple(columns)
        if key not in self.programs:
            program = self.rules.program
            bound = [place in columns for place in range(len(program.relations[id_].columns))]
            # Only plain magic sets evaluate no scalar that the query would not.
            safe = all(map(is_total, self.rules.scalar_functions.numbers))
            policy = Policy(linear=safe, max_levels=None)
            self.programs[key] = prepare(program, id_, bound, policy)
        return self.programs[key]

    def base_rows(self) -> float:
        """Return the estimated rows of the largest relation that the recursion reads."""
        return max((self.sizes.rows(rel) for rel in self.rules.bases.values()), default=1.0)

    def _start_rows(self) -> float:
        """Return the estimated number of rows from which the recursion starts."""
        program = self.rules.program
        found = 0.0
        for rule in program.rules:
            read = [atom.relation for atom, _ in core.atoms(rule.body)]
            if all(name in self.rules.bases for name in read):
                found += min((self._base_relation_rows(self.rules.bases[name]) for name in read), default=1.0)
        return found

    def _base_relation_rows(self, rel: Rel) -> float:
        """Return the estimated rows of a base relation, at most a few per constant that its filters allow."""
        binding = constant_bindings(peel(rel).predicates)
        most = math.inf if binding is None else ROWS_PER_VALUE * len(binding[1].rows)
        return min(self.sizes.rows(rel), most)

    def _lower_answer(self, prepared: GoalProgram, seed: Rel) -> Rel:
        """Return the answer as a relation over those of the query."""
        program = prepared.program
        unrestricted = frozenset(self.rules.program.relations) - frozenset(self.rules.bases)
        read: dict[str, Rel] = dict(self.rules.bases)
        for name in unrestricted:
            read[name] = algebra.LocalGet(name, self.rules.program.relations[name].types)
        assert prepared.seed is not None
        read[prepared.seed] = seed
        sources = Sources(_catalog(program, read), unrestricted)
        rel = lowering(program).relation(prepared.answer, sources)

        def replace_source(node: Rel) -> Rel:
            if isinstance(node, algebra.Get):
                return read[node.name]
            if isinstance(node, algebra.LetRec) and self.rules.limit is not None:
                return replace(node, limit=self.rules.limit, error_at_limit=True)
            return node

        return transform_up(self.rules.scalar_functions.expand_calls(rel), replace_source)


def _catalog(program: core.Program, read: Mapping[str, Rel]) -> Catalog:
    """Return a catalog in which the relations that are read are views, under their names in the program."""
    catalog = Catalog()
    for name, rel in read.items():
        if name in program.relations:
            columns = (ColumnDef(f"c{place}", type_) for place, type_ in enumerate(algebra.types(rel)))
            catalog.add(ViewEntry(name, Schema(tuple(columns)), None))
    return catalog


def _is_recursive(prepared: GoalProgram) -> bool:
    """Return whether demand derives further demand."""
    return any(
        stratum.is_recursive and not set(prepared.demands).isdisjoint(stratum.relations)
        for stratum in strata(prepared.program.relations, prepared.program.rules)
    )


MAX_DEMAND_FRACTION: Final = 0.25
"""Maximum rows of a join input that supplies demand, as a fraction of the recursion's input rows."""


def restrict(rel: Rel, statistics: Statistics) -> RestrictionResult:
    """Restrict the recursive relations of a query to the values that it needs, by magic sets.

    Demand comes from constants in filters, and from small join inputs.
    """
    hoisted_rel = hoist_recursion(rel)
    for step in run(hoisted_rel, PREDICATE_PLACEMENT):
        hoisted_rel = step.rel
    hoisted_rel = hoist_recursion(hoisted_rel)
    sizes = CardinalityEstimates(statistics, Facts(let_values(hoisted_rel)))
    rewriting = _QueryRewriter(Definitions.collect(hoisted_rel), sizes)
    result = rewriting.rewrite(hoisted_rel)
    return RestrictionResult(result if rewriting.is_changed else rel, tuple(rewriting.notes))


@dataclass(slots=True)
class _QueryRewriter:
    definitions: Definitions
    sizes: CardinalityEstimates
    notes: list[Note] = field(default_factory=list)
    is_changed: bool = False
    names: "count[int]" = field(default_factory=count)

    def rewrite(self, rel: Rel) -> Rel:
        """Rewrite all recursions outside of loops, innermost first."""
        if isinstance(rel, algebra.LetRec):
            return self._rewrite_recursion(replace(rel, body=self.rewrite(rel.body)))
        return with_children(rel, tuple(self.rewrite(child) for child in children(rel)))

    def _rewrite_recursion(self, rec: algebra.LetRec) -> Rel:
        if free_locals(rec.body).isdisjoint(rec.ids):
            self.is_changed = True
            return rec.body
        name = ", ".join(rec.ids)
        try:
            asking = DemandRewriter(build_rules(rec, self.definitions), self.sizes)
        except NotRules as reason:
            self.notes.append(Note(name, f"as a whole: {reason}"))
            return rec
        placing = _ReadReplacer(asking, frozenset(rec.ids), self.definitions.lets, self.names)
        body = placing.replace_reads(rec.body, None)
        if placing.failures:
            self.notes.append(Note(name, f"as a whole: {placing.failures[0]}"))
            return rec
        if not free_locals(body).isdisjoint(rec.ids):
            self.notes.append(Note(name, "as a whole: its rules demand all of it"))
            return rec
        self.is_changed = True
        self.notes += placing.notes
        return body


@dataclass(frozen=True, slots=True)
class _Demand:
    """Demand for the rows of a relation that match a row of ``seed``."""

    seed: Rel
    columns: Mapping[int, int]
    """Columns of the relation, with the matching column of the seed."""
    rows: float
    origin: str

    def for_input(self, columns: Mapping[int, int]) -> "_Demand | None":
        """Return the same demand for an input, or None if it binds no column of the input.

        ``columns`` maps the input's columns to those of the relation.
        """
        kept = {below: self.columns[above] for below, above in columns.items() if above in self.columns}
        return replace(self, columns=kept) if kept else None


@dataclass(slots=True)
class _ReadReplacer:
    """Replaces reads of recursive relations by restricted ones, where demand is known."""

    asking: DemandRewriter
    ids: frozenset[str]
    lets: Mapping[str, Rel]
    names: "count[int]"
    notes: list[Note] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    loops: frozenset[str] = frozenset()
    """Relations of the enclosing loops."""

    def replace_reads(self, rel: Rel, demand: _Demand | None) -> Rel:
        """Return the relation with restricted reads.

        Only its demanded rows must be correct.
        """
        if free_locals(rel).isdisjoint(self.ids):
            return rel
        match rel:
            case algebra.LocalGet():
                return self._replace_read(rel, (), demand)
            case algebra.Filter(input=algebra.LocalGet() as get, predicates=predicates):
                return algebra.Filter(self._replace_read(get, predicates, demand), predicates)
            case algebra.Join():
                return self._join(rel, demand)
            case algebra.Let(value=value, body=body):
                return replace(
                    rel, value=self.replace_reads(value, None), body=self.replace_reads(body, demand)
                )
            case algebra.LetRec(body=body):
                enclosing_loops, self.loops = self.loops, self.loops | set(rel.ids)
                inside = tuple(self.replace_reads(value, None) for value in rel.values)
                self.loops = enclosing_loops
                return replace(rel, values=inside, body=self.replace_reads(body, demand))
            case (
                algebra.Get()
                | algebra.Constant()
                | algebra.Map()
                | algebra.Filter()
                | algebra.Project()
                | algebra.Union()
                | algebra.Negate()
                | algebra.Distinct()
                | algebra.Threshold()
                | algebra.Reduce()
                | algebra.Expand()
                | algebra.TopK()
                | algebra.Window()
                | algebra.Single()
            ):
                below = demand and demand.for_input(_passed_columns(rel))
                return with_children(rel, tuple(self.replace_reads(child, below) for child in children(rel)))
            case _:
                assert_never(rel)

    def _replace_read(
        self, get: algebra.LocalGet, predicates: tuple[Scalar, ...], demand: _Demand | None
    ) -> Rel:
        binding = constant_bindings(predicates)
        if binding is not None:
            columns, rows = binding
            places = dict(zip(columns, range(len(columns)), strict=True))
            demand = _Demand(rows, places, float(len(rows.rows)), _seed_text(rows))
        if demand is None:
            self.failures.append(f"nothing is given where {get.id} is read")
            return get
        order = sorted(demand.columns)
        seed, every = demand.seed, all_columns(demand.seed)
        chosen = tuple(every[demand.columns[column]] for column in order)
        if chosen != every:
            seed = distinct_values(seed, chosen)
        found = self.asking.restrict(get.id, order, seed, demand.rows)
        if isinstance(found, Refusal):
            self.failures.append(found.reason)
            return get
        self._note(get.id, order, demand.origin)
        return found

    def _note(self, id_: str, columns: list[int], origin: str) -> None:
        explanation = self.asking.program_for(id_, columns).explanation
        bound_columns = ", ".join(f"#{column}" for column in columns)
        details = tuple(f"{name}: {what}" for name, what in explanation.notes)
        text = f"{explanation.strategy.value}; {bound_columns} from {origin}"
        numbered = self.asking.rules.scalar_functions.lines()
        self.notes.append(Note(id_, text, (*details, *explanation.rules, *numbered)))

    def _join(self, join: algebra.Join, demand: _Demand | None) -> Rel:
        """Replace reads in an order in which finished inputs supply demand for others."""
        inputs = list(join.inputs)
        shared: list[tuple[str, Rel]] = []
        waiting = [place for place, one in enumerate(inputs) if not free_locals(one).isdisjoint(self.ids)]
        recursive = frozenset(waiting)
        for place in list(waiting):
            own = demand and demand.for_input(_columns_of(join, place))
            found = self._attempt(inputs[place], own)
            if found is not None:
                inputs[place] = found
                waiting.remove(place)
        while waiting:
            chosen = self._cheapest_link(join, inputs, waiting, recursive)
            if chosen is None:
                inputs[waiting[0]] = self.replace_reads(inputs[waiting[0]], None)
                return replace(join, inputs=tuple(inputs))
            place, link = chosen
            inputs[place] = self._from_join(inputs, place, link, shared)
            waiting.remove(place)
        result: Rel = replace(join, inputs=tuple(inputs))
        for id_, value in reversed(shared):
            result = algebra.Let(id_, value, result)
        return result

    def _attempt(self, rel: Rel, demand: _Demand | None) -> Rel | None:
        """Return the result of :meth:`replace_reads`, or None without notes if a read has no demand."""
        notes, failures = len(self.notes), len(self.failures)
        found = self.replace_reads(rel, demand)
        if len(self.failures) == failures:
            return found
        del self.notes[notes:], self.failures[failures:]
        return None

    def _cheapest_link(
        self, join: algebra.Join, inputs: list[Rel], waiting: list[int], recursive: frozenset[int]
    ) -> tuple[int, Link] | None:
        """Return the waiting input with the fewest demanded values, and the link that supplies them."""
        best: tuple[float, int, Link] | None = None
        for place in waiting:
            for link in links(join, place):
                source = inputs[link.source]
                inside = not free_locals(source).isdisjoint(self.loops)
                if link.source in waiting or inside or may_fail(source, self.lets):
                    continue
                rows = 0.0 if link.source in recursive else self.asking.sizes.rows(source)
                if rows <= MAX_DEMAND_FRACTION * self.asking.base_rows() and (best is None or rows < best[0]):
                    best = rows, place, link
        return None if best is None else best[1:]

    def _from_join(self, inputs: list[Rel], place: int, link: Link, shared: list[tuple[str, Rel]]) -> Rel:
        source = inputs[link.source]
        rows = self.asking.sizes.rows(source)
        if not isinstance(source, algebra.LocalGet):
            id_ = f"asking {next(self.names)}"
            shared.append((id_, source))
            source = inputs[link.source] = algebra.LocalGet(id_, algebra.types(source))
        columns = dict(zip(link.columns, range(len(link.columns)), strict=True))
        demand = _Demand(distinct_values(source, link.values), columns, rows, "a join")
        return self.replace_reads(inputs[place], demand)


def _passed_columns(rel: Rel) -> dict[int, int]:
    """Return the input columns whose values pass unchanged to an output column, with that column.

    The output for an input row may depend only on rows with the same values there. Operators that
    subtract rows pass none, because filters may have moved into only some of their inputs.
    """
    match rel:
        case algebra.Project(columns=columns):
            return {below: above for above, below in reversed(tuple(enumerate(columns)))}
        case algebra.Reduce(keys=keys):
            return {key.index: place for place, key in enumerate(keys) if isinstance(key, Column)}
        case algebra.TopK(group=group) | algebra.Single(group=group):
            return {column: column for column in group}
        case algebra.Window(partition=partition):
            return {column: column for column in partition}
        case algebra.Map(input=source) | algebra.Expand(input=source):
            return {column: column for column in range(len(algebra.types(source)))}
        case algebra.Negate():
            return {}
        case algebra.Union(inputs=inputs) if any(is_negative(source) for source in inputs):
            return {}
        case (
            algebra.Get()
            | algebra.Constant()
            | algebra.LocalGet()
            | algebra.Filter()
            | algebra.Join()
            | algebra.Union()
            | algebra.Distinct()
            | algebra.Threshold()
            | algebra.Let()
            | algebra.LetRec()
        ):
            return {column: column for column in range(len(algebra.types(rel)))}
        case _:
            assert_never(rel)


def _columns_of(join: algebra.Join, place: int) -> dict[int, int]:
    """Return the columns of one input, with their positions in the join."""
    start = sum(len(algebra.types(source)) for source in join.inputs[:place])
    return {column: start + column for column in range(len(algebra.types(join.inputs[place])))}


def _seed_text(rows: algebra.Constant) -> str:
    """Return the first few rows of a seed as text."""
    texts = [", ".join(map(repr, row)) for row in rows.rows[:3]]
    return " or ".join(texts) + (" ..." if len(rows.rows) > 3 else "")
