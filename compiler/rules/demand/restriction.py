"""Restriction of a query's recursion by demand: the rewritten query, or the query unchanged with the reason.

Demand comes from predicates that give values to columns, and from join inputs that supply values. A read of
the recursive relation becomes a relation of the rows for those values.
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
from kpg.compiler.algebra.scalars import INTEGERS, all_columns, is_total, widens
from kpg.compiler.algebra.traverse import (
    children,
    free_locals,
    let_values,
    transform_up,
    width,
    with_children,
)
from kpg.compiler.catalog.entries import Catalog, ViewEntry
from kpg.compiler.passes import PLACING, run
from kpg.compiler.passes.fuse_selections import Selection, build, peel
from kpg.compiler.physical.cardinality import Sizes, Statistics
from kpg.compiler.rules import core
from kpg.compiler.rules.demand.outcome import Note, Restricted
from kpg.compiler.rules.demand.rule_program import (
    Definitions,
    NotRules,
    Rules,
    hoisted,
    is_negative,
    may_fail,
    rules_of,
)
from kpg.compiler.rules.lower.program import Sources, lowering
from kpg.compiler.rules.magic import Policy, Prepared, Strategy, prepare
from kpg.compiler.rules.strata import strata
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, If, Literal, Scalar, remap
from kpg.runtime.scalar import columns as columns_of
from kpg.runtime.types import ColumnDef, Schema, Type


@dataclass(frozen=True, slots=True)
class Link:
    """Columns of an input that are equal to scalars over another, ``source``, which never fail."""

    source: int
    columns: tuple[int, ...]
    given: tuple[Scalar, ...]


def links(join: algebra.Join, place: int) -> Iterator[Link]:
    """How the join's other inputs give values for columns of the one at ``place``."""
    owners = [at for at, source in enumerate(join.inputs) for _ in range(width(source))]
    starts = {at: owners.index(at) for at in set(owners)}
    found: dict[int, dict[int, Scalar]] = {}
    for column, scalar in _equal(join.on):
        sources = {owners[one] for one in columns_of(scalar)}
        if owners[column.index] != place or len(sources) != 1 or place in sources:
            continue
        (source,) = sources
        own = remap(scalar, partial(add, -starts[source]))
        found.setdefault(source, {}).setdefault(column.index - starts[place], own)
    for source, pairs in found.items():
        yield Link(source, tuple(pairs), tuple(pairs.values()))


def _equal(on: Sequence[Scalar]) -> Iterator[tuple[Column, Scalar]]:
    """The columns that are equal to scalars of their type, both ways."""
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


def values(rel: Rel, given: Sequence[Scalar]) -> Rel:
    """The values that scalars over a relation have, each combination once."""
    return algebra.Distinct(build(Selection(rel, (), tuple(given))))


MOST_VALUES: Final = 1000
"""Rows of constants that recursion is restricted to: they are the product of the columns' values, and stand
in the plan.
"""
Value = int | str


def constants(predicates: Iterable[Scalar]) -> tuple[tuple[int, ...], algebra.Constant] | None:
    """The columns that can only have certain values where all predicates hold, and these values as rows."""
    found: dict[int, tuple[Type, tuple[Value, ...]]] = {}
    for predicate in predicates:
        given = _given(predicate)
        if given is not None:
            column, values = given
            before = found.get(column.index)
            if before is None or len(values) < len(before[1]):
                found[column.index] = column.type, values
    rows: list[tuple[Value, ...]] = [()]
    chosen: list[int] = []
    for index, (_, values) in sorted(found.items(), key=lambda item: len(item[1][1])):
        if len(rows) * len(values) <= MOST_VALUES:
            chosen.append(index)
            rows = [(*row, value) for row, value in product(rows, values)]
    if not chosen:
        return None
    order = sorted(range(len(chosen)), key=chosen.__getitem__)
    types = tuple(found[chosen[place]][0] for place in order)
    return tuple(sorted(chosen)), algebra.Constant(
        tuple(tuple(row[place] for place in order) for row in rows), types
    )


def _given(predicate: Scalar) -> tuple[Column, tuple[Value, ...]] | None:
    match predicate:
        case Call(function="eq" | "is_not_distinct", args=(left, Literal() as right)):
            return _values(left, (right,))
        case Call(function="eq" | "is_not_distinct", args=(Literal() as left, right)):
            return _values(right, (left,))
        case Call(function="in", args=(left, *rest)):
            literals = [one for one in rest if isinstance(one, Literal)]
            return _values(left, literals) if len(literals) == len(rest) else None
        case Call(function="or", args=args):
            return _any_of([_given(arg) for arg in args])
        case Column() | Fetch() | Literal() | If() | Call():
            return None
        case _:
            assert_never(predicate)


def _any_of(
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


def _values(side: Scalar, literals: Sequence[Literal]) -> tuple[Column, tuple[Value, ...]] | None:
    """The values among the literals that the column can be equal to; None if that is not certain.

    A column that is widened to be compared has the same word before and after.
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
    """Whether a value of the wider type is one of the type."""
    bits = INTEGERS.get(type_.kind)
    return bits is None or not isinstance(value, int) or -(2**bits) <= value < 2**bits


SOME: Final = 10.0
"""How many rows of a relation have some value in a column, about."""
FEW: Final = 16
"""From at most this many rows for each that is asked for, a recursion is followed from its start on."""


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a relation is computed as a whole."""

    reason: str


@dataclass(slots=True)
class Asking:
    """The rules of a recursion, to be asked."""

    rules: Rules
    sizes: Sizes
    known: dict[tuple[str, tuple[int, ...]], Prepared] = field(default_factory=dict)

    def answer(self, id_: str, columns: Sequence[int], seed: Rel, rows: float) -> Rel | Declined:
        """The rows of a relation that have a row of ``seed``, about ``rows`` of them, at the columns."""
        prepared = self.prepared(id_, columns)
        if prepared.strategy in (Strategy.FULL, Strategy.LOOKUP) or prepared.seed is None:
            return Declined(prepared.explanation.reason)
        if self._starts() <= FEW * rows and _is_recursive(prepared):
            return Declined("it starts from few rows, and what is asked for would have to be found too")
        return self._lowered(prepared, seed)

    def prepared(self, id_: str, columns: Sequence[int]) -> Prepared:
        """The rules for asking with values for the columns."""
        key = id_, tuple(columns)
        if key not in self.known:
            program = self.rules.program
            bound = [place in columns for place in range(len(program.relations[id_].columns))]
            # Only magic sets proper evaluate nothing that the query would not.
            safe = all(map(is_total, self.rules.numbered.known))
            policy = Policy(linear=safe, levels=None)
            self.known[key] = prepare(program, id_, bound, policy)
        return self.known[key]

    def base_rows(self) -> float:
        """About how many rows the largest relation has that the recursion reads."""
        return max((self.sizes.rows(rel) for rel in self.rules.bases.values()), default=1.0)

    def _starts(self) -> float:
        """About how many rows the recursion starts from."""
        program = self.rules.program
        found = 0.0
        for rule in program.rules:
            read = [atom.relation for atom, _ in core.atoms(rule.body)]
            if all(name in self.rules.bases for name in read):
                found += min((self._rows(self.rules.bases[name]) for name in read), default=1.0)
        return found

    def _rows(self, rel: Rel) -> float:
        """About how many rows a base relation has; for a value of a column, not more than a few."""
        given = constants(peel(rel).predicates)
        most = math.inf if given is None else SOME * len(given[1].rows)
        return min(self.sizes.rows(rel), most)

    def _lowered(self, prepared: Prepared, seed: Rel) -> Rel:
        """The answer's relation over the query's own."""
        program = prepared.program
        wholes = frozenset(self.rules.program.relations) - frozenset(self.rules.bases)
        read: dict[str, Rel] = dict(self.rules.bases)
        for name in wholes:
            read[name] = algebra.LocalGet(name, self.rules.program.relations[name].types)
        assert prepared.seed is not None
        read[prepared.seed] = seed
        sources = Sources(_catalog(program, read), wholes)
        rel = lowering(program).relation(prepared.answer, sources)

        def placed(node: Rel) -> Rel:
            if isinstance(node, algebra.Get):
                return read[node.name]
            if isinstance(node, algebra.LetRec) and self.rules.limit is not None:
                return replace(node, limit=self.rules.limit, error_at_limit=True)
            return node

        return transform_up(self.rules.numbered.resolved(rel), placed)


def _catalog(program: core.Program, read: Mapping[str, Rel]) -> Catalog:
    """The relations that are read, as views by their names in the program."""
    catalog = Catalog()
    for name, rel in read.items():
        if name in program.relations:
            columns = (ColumnDef(f"c{place}", type_) for place, type_ in enumerate(algebra.types(rel)))
            catalog.add(ViewEntry(name, Schema(tuple(columns)), None))
    return catalog


def _is_recursive(prepared: Prepared) -> bool:
    """Whether what is asked for leads to more that is asked for."""
    return any(
        stratum.is_recursive and not set(prepared.demands).isdisjoint(stratum.relations)
        for stratum in strata(prepared.program.relations, prepared.program.rules)
    )


FRACTION: Final = 0.25
"""What a join gives is asked for if it is at most this share of what the recursion reads."""


def restrict(rel: Rel, statistics: Statistics) -> Restricted:
    """The query with its recursive relations computed for what is asked of them, by magic sets.

    What is asked are constants that filters give, and few values that other inputs of a join give.
    """
    moved = hoisted(rel)
    for step in run(moved, PLACING):
        moved = step.rel
    moved = hoisted(moved)
    sizes = Sizes(statistics, Facts(let_values(moved)))
    rewriting = _Rewriting(Definitions.of(moved), sizes)
    result = rewriting.rewritten(moved)
    return Restricted(result if rewriting.changed else rel, tuple(rewriting.notes))


@dataclass(slots=True)
class _Rewriting:
    definitions: Definitions
    sizes: Sizes
    notes: list[Note] = field(default_factory=list)
    changed: bool = False
    names: "count[int]" = field(default_factory=count)

    def rewritten(self, rel: Rel) -> Rel:
        """The relation with all recursion outside of loops rewritten, innermost first."""
        if isinstance(rel, algebra.LetRec):
            return self._recursion(replace(rel, body=self.rewritten(rel.body)))
        return with_children(rel, tuple(self.rewritten(child) for child in children(rel)))

    def _recursion(self, rec: algebra.LetRec) -> Rel:
        if free_locals(rec.body).isdisjoint(rec.ids):
            self.changed = True
            return rec.body
        name = ", ".join(rec.ids)
        try:
            asking = Asking(rules_of(rec, self.definitions), self.sizes)
        except NotRules as reason:
            self.notes.append(Note(name, f"as a whole: {reason}"))
            return rec
        placing = _Placing(asking, frozenset(rec.ids), self.definitions.lets, self.names)
        body = placing.placed(rec.body, None)
        if placing.failures:
            self.notes.append(Note(name, f"as a whole: {placing.failures[0]}"))
            return rec
        if not free_locals(body).isdisjoint(rec.ids):
            self.notes.append(Note(name, "as a whole: its rules ask for all of it"))
            return rec
        self.changed = True
        self.notes += placing.notes
        return body


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a relation is needed for: the rows with a row of ``seed`` at the columns."""

    seed: Rel
    columns: Mapping[int, int]
    """For each of these columns, that of the seed."""
    rows: float
    origin: str

    def through(self, columns: Mapping[int, int]) -> "_Asked | None":
        """The same of an input whose columns are these, by column of the input."""
        kept = {below: self.columns[above] for below, above in columns.items() if above in self.columns}
        return replace(self, columns=kept) if kept else None


@dataclass(slots=True)
class _Placing:
    """Puts answers in the place of recursive relations, as far as it is known what is asked of them."""

    asking: Asking
    ids: frozenset[str]
    lets: Mapping[str, Rel]
    names: "count[int]"
    notes: list[Note] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    loops: frozenset[str] = frozenset()
    """The relations of the loops around."""

    def placed(self, rel: Rel, asked: _Asked | None) -> Rel:
        """The relation with answers, of which the rows that are asked for matter."""
        if free_locals(rel).isdisjoint(self.ids):
            return rel
        match rel:
            case algebra.LocalGet():
                return self._answer(rel, (), asked)
            case algebra.Filter(input=algebra.LocalGet() as get, predicates=predicates):
                return algebra.Filter(self._answer(get, predicates, asked), predicates)
            case algebra.Join():
                return self._join(rel, asked)
            case algebra.Let(value=value, body=body):
                return replace(rel, value=self.placed(value, None), body=self.placed(body, asked))
            case algebra.LetRec(body=body):
                around, self.loops = self.loops, self.loops | set(rel.ids)
                inside = tuple(self.placed(value, None) for value in rel.values)
                self.loops = around
                return replace(rel, values=inside, body=self.placed(body, asked))
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
                below = asked and asked.through(_carried(rel))
                return with_children(rel, tuple(self.placed(child, below) for child in children(rel)))
            case _:
                assert_never(rel)

    def _answer(self, get: algebra.LocalGet, predicates: tuple[Scalar, ...], asked: _Asked | None) -> Rel:
        given = constants(predicates)
        if given is not None:
            columns, rows = given
            places = dict(zip(columns, range(len(columns)), strict=True))
            asked = _Asked(rows, places, float(len(rows.rows)), _shown(rows))
        if asked is None:
            self.failures.append(f"nothing is given where {get.id} is read")
            return get
        order = sorted(asked.columns)
        seed, every = asked.seed, all_columns(asked.seed)
        chosen = tuple(every[asked.columns[column]] for column in order)
        if chosen != every:
            seed = values(seed, chosen)
        found = self.asking.answer(get.id, order, seed, asked.rows)
        if isinstance(found, Declined):
            self.failures.append(found.reason)
            return get
        self._note(get.id, order, asked.origin)
        return found

    def _note(self, id_: str, columns: list[int], origin: str) -> None:
        explanation = self.asking.prepared(id_, columns).explanation
        given = ", ".join(f"#{column}" for column in columns)
        details = tuple(f"{name}: {what}" for name, what in explanation.notes)
        text = f"{explanation.strategy.value}; {given} from {origin}"
        numbered = self.asking.rules.numbered.lines()
        self.notes.append(Note(id_, text, (*details, *explanation.rules, *numbered)))

    def _join(self, join: algebra.Join, asked: _Asked | None) -> Rel:
        """The inputs in an order in which those that are ready tell what is asked of others."""
        inputs = list(join.inputs)
        shared: list[tuple[str, Rel]] = []
        waiting = [place for place, one in enumerate(inputs) if not free_locals(one).isdisjoint(self.ids)]
        recursive = frozenset(waiting)
        for place in list(waiting):
            own = asked and asked.through(_columns_of(join, place))
            found = self._attempt(inputs[place], own)
            if found is not None:
                inputs[place] = found
                waiting.remove(place)
        while waiting:
            chosen = self._linked(join, inputs, waiting, recursive)
            if chosen is None:
                inputs[waiting[0]] = self.placed(inputs[waiting[0]], None)
                return replace(join, inputs=tuple(inputs))
            place, link = chosen
            inputs[place] = self._from_join(inputs, place, link, shared)
            waiting.remove(place)
        result: Rel = replace(join, inputs=tuple(inputs))
        for id_, value in reversed(shared):
            result = algebra.Let(id_, value, result)
        return result

    def _attempt(self, rel: Rel, asked: _Asked | None) -> Rel | None:
        """As ``placed``, or None with nothing noted if something is asked for as a whole."""
        notes, failures = len(self.notes), len(self.failures)
        found = self.placed(rel, asked)
        if len(self.failures) == failures:
            return found
        del self.notes[notes:], self.failures[failures:]
        return None

    def _linked(
        self, join: algebra.Join, inputs: list[Rel], waiting: list[int], recursive: frozenset[int]
    ) -> tuple[int, Link] | None:
        """The waiting input that the fewest values are asked of, with where they are from."""
        best: tuple[float, int, Link] | None = None
        for place in waiting:
            for link in links(join, place):
                source = inputs[link.source]
                inside = not free_locals(source).isdisjoint(self.loops)
                if link.source in waiting or inside or may_fail(source, self.lets):
                    continue
                rows = 0.0 if link.source in recursive else self.asking.sizes.rows(source)
                if rows <= FRACTION * self.asking.base_rows() and (best is None or rows < best[0]):
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
        asked = _Asked(values(source, link.given), columns, rows, "a join")
        return self.placed(inputs[place], asked)


def _carried(rel: Rel) -> dict[int, int]:
    """For columns of an operator's inputs, the columns of its own with their values, by which rows go apart.

    What becomes of an input's row depends only on the rows with the same values there. Where rows are
    taken from others there are none, since filters may have been brought closer to some of them.
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
    """The columns of one input, with where they are in the join's."""
    start = sum(len(algebra.types(source)) for source in join.inputs[:place])
    return {column: start + column for column in range(len(algebra.types(join.inputs[place])))}


def _shown(rows: algebra.Constant) -> str:
    """The values of a question, the first few."""
    texts = [", ".join(map(repr, row)) for row in rows.rows[:3]]
    return " or ".join(texts) + (" ..." if len(rows.rows) > 3 else "")
