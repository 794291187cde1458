"""Inner joins as delta joins: one path of lookups for the changes of each relation.

A stream row holds *items*, which are computed scalars of the problem: mainly rowids and the
columns of derived relations. Each stage keeps only the items that later stages need. Columns of a
base table are fetched where they are used, unless a lookup key carries them.

A comparison with a single maintained value, such as a global aggregate, becomes a
:class:`ThresholdJoin` (TPC-H Q11, Q22).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from kpg.compiler.algebra.scalars import never_fails
from kpg.compiler.physical.access_paths import Need, choose_sequences
from kpg.compiler.physical.context import ColumnFinder, Planning, express_children_over, express_over
from kpg.compiler.physical.join_order import (
    EquivalenceClass,
    EquivalenceClasses,
    HalfJoinChoice,
    classify,
    fan_out,
    path_orders,
)
from kpg.compiler.physical.join_problem import Problem, Relation, Slots
from kpg.runtime import plan
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan import Mfp, Ref, Types
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, Scalar, children, columns, remap
from kpg.runtime.types import BOOLEAN, Type, have_same_words

Places = Mapping[Scalar, int]


@dataclass(frozen=True, slots=True)
class Target:
    """An arrangement to look up: its columns as items, and the number of leading ones in the lookup key."""

    arrangement: Ref
    items: tuple[Scalar, ...]
    key_length: int


@dataclass(frozen=True, slots=True)
class PlannedHalfJoin:
    """A planned half-join with an arrangement of relation ``slot``."""

    arrangement: Ref
    slot: int
    key: tuple[int, ...]
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class PlannedPath:
    """A planned path: ``mfp`` over the changes of a relation, then the half-joins."""

    mfp: Mfp
    half_joins: tuple[PlannedHalfJoin, ...]


@dataclass(slots=True)
class PathBuilder:
    """Builder of the path for the changes of relation ``start`` along ``steps`` into ``targets``.

    ``items`` are the columns of its stream. The streams and arrangements of the ``prefiltered``
    relations already satisfy their local predicates.
    """

    problem: Problem
    classes: EquivalenceClasses
    start: int
    items: tuple[Scalar, ...]
    steps: tuple[HalfJoinChoice, ...]
    targets: tuple[Target, ...]
    prefiltered: Slots
    first_members: dict[EquivalenceClass, Scalar] = field(default_factory=dict)
    """For each equivalence class, the member that was bound first."""
    pending: list[Scalar] = field(default_factory=list)

    def build(self) -> PlannedPath:
        """Return the path."""
        self.pending = [
            p for p in self.classes.other_predicates if not is_prefiltered(self.problem, p, self.prefiltered)
        ]
        bound: Slots = frozenset((self.start,))
        places = _places(self.items)
        tests = self._tests(places, places, frozenset(), bound, ())
        row, start = self._stage(0, tests, places, bound)
        half_joins: list[PlannedHalfJoin] = []
        for index, (step, target) in enumerate(zip(self.steps, self.targets, strict=True)):
            stream = _places(row)
            key = tuple(stream[scalar] for scalar in self._key(index))
            places = _places((*row, *target.items))
            before, bound = bound, bound | {step.slot}
            tests = self._tests(stream, places, before, bound, target.items[: target.key_length])
            row, mfp = self._stage(index + 1, tests, places, bound)
            half_joins.append(PlannedHalfJoin(target.arrangement, step.slot, key, mfp))
        return PlannedPath(start, tuple(half_joins))

    def _key(self, index: int) -> list[Scalar]:
        """Return the bound scalars that lookup ``index`` uses, in the order of the arrangement."""
        classes = {member: class_ for class_, member in self.steps[index].key}
        target = self.targets[index]
        return [self.first_members[classes[item]] for item in target.items[: target.key_length]]

    def _tests(
        self, stream: Places, places: Places, before: Slots, bound: Slots, lookup_key: Sequence[Scalar]
    ) -> tuple[Scalar, ...]:
        """Return the tests for the newly bound relation.

        They are equalities that the lookup does not imply, then other predicates.
        """
        tests: list[Scalar] = []
        looked_up = frozenset(lookup_key)
        for class_ in self.classes.reading_any(bound - before):
            fresh = class_.newly_available(before, bound)
            if not fresh:
                continue
            if class_ in self.first_members:
                known = self._express(self.first_members[class_], stream)
                fresh = [member for member in fresh if member not in looked_up]
            else:
                self.first_members[class_] = fresh[0]
                known = self._express_member(fresh[0], places)
                if (
                    class_.strict
                    and self.problem.can_be_null(fresh[0])
                    and not self._is_null_filtered(fresh[0])
                ):
                    tests.append(Call("is_not_null", (known,), BOOLEAN))
                fresh = fresh[1:]
            tests += [class_.equality(known, self._express_member(member, places)) for member in fresh]
        ready = [p for p in self.pending if self.problem.slots(p) <= bound]
        self.pending = [p for p in self.pending if not self.problem.slots(p) <= bound]
        return (*tests, *(self._express(predicate, places) for predicate in ready))

    def _is_null_filtered(self, member: Scalar) -> bool:
        """Return whether the member belongs to a relation that has removed its NULLs already."""
        alone = self.classes.by_member[member].own_members
        return any(alone.get(slot) == member for slot in self.prefiltered)

    def _stage(
        self, index: int, tests: tuple[Scalar, ...], places: Places, bound: Slots
    ) -> tuple[tuple[Scalar, ...], Mfp]:
        """Return the items of the row after stage ``index``, and the mfp that computes them."""
        checkpoint()
        if index == len(self.steps):
            outputs = self.problem.outputs
            return outputs, Mfp(tests, tuple(self._express(output, places) for output in outputs))
        items = dict.fromkeys(self._key(index))
        items.update(dict.fromkeys(self._carried_items(self._later_scalars(bound), places, bound)))
        if not items:
            items = dict.fromkeys(list(places)[:1])
        return tuple(items), Mfp(tests, tuple(self._express(item, places) for item in items))

    def _later_scalars(self, bound: Slots) -> Iterable[Scalar]:
        """Yield the scalars that later stages compute or compare."""
        yield from self.problem.outputs
        yield from self.pending
        for class_ in self.classes.classes:
            late = class_.unavailable(bound)
            if late and class_ in self.first_members:
                yield self.first_members[class_]
            # The value of the class cannot replace a member whose equality with it is still to be tested.
            for member in late:
                yield from children(member)

    def _carried_items(self, needed: Iterable[Scalar], places: Places, bound: Slots) -> list[Scalar]:
        """Return the available items from which the bound parts of the ``needed`` scalars can be computed."""
        kept: set[Scalar] = set()
        stack = list(dict.fromkeys(needed))
        while stack:
            scalar = stack.pop()
            if self.problem.slots(scalar).isdisjoint(bound):
                continue
            item = self._item(scalar, places)
            if item is not None:
                kept.add(item)
            else:
                stack.extend(children(scalar))
        return sorted(kept, key=places.__getitem__)

    def _item(self, scalar: Scalar, places: Places) -> Scalar | None:
        """Return an item with the scalar's value: the scalar itself or a member of its equivalence class."""
        if scalar in places:
            return scalar
        class_ = self.classes.class_of(scalar)
        return next((member for member in class_.members if member in places), None) if class_ else None

    def _express(self, scalar: Scalar, places: Places) -> Scalar:
        """Return the scalar over the columns of a row with these items."""
        return express_over(scalar, self._finder(places))

    def _express_member(self, scalar: Scalar, places: Places) -> Scalar:
        """Return the scalar without using its class, whose equality is not tested yet."""
        if scalar in places:
            return Column(places[scalar], scalar.type)
        return express_children_over(scalar, self._finder(places))

    def _finder(self, places: Places) -> ColumnFinder:
        def find(scalar: Scalar) -> int | None:
            item = self._item(scalar, places)
            return None if item is None else places[item]

        return find


def is_prefiltered(problem: Problem, predicate: Scalar, prefiltered: Slots) -> bool:
    """Return whether the predicate is local to a relation whose stream already satisfies it."""
    slots = problem.slots(predicate)
    return len(slots) == 1 and slots <= prefiltered


def _places(items: Sequence[Scalar]) -> Places:
    """Return the first position of each item."""
    return {item: place for place, item in reversed(tuple(enumerate(items)))}


SIGNS: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
MIRRORED: Final = {"lt": ">", "le": ">=", "gt": "<", "ge": "<="}


@dataclass(frozen=True, slots=True)
class ThresholdJoin:
    """The join ``left.0 comparison right.0`` of two smaller problems.

    ``mfp`` is over the outputs of ``left``.
    """

    left: Problem
    right: Problem
    comparison: str
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class _SingleRowComparison:
    slot: int
    predicate: Scalar
    value: Scalar
    bound: Scalar
    comparison: str


def find_threshold_join(problem: Problem, classes: EquivalenceClasses) -> ThresholdJoin | None:
    """Split off a single-row relation that only a comparison links to the others.

    Return None if there is none.
    """
    for slot, relation in enumerate(problem.relations):
        linked = any(slot in problem.slots(m) for class_ in classes.classes for m in class_.members)
        if len(problem.relations) < 2 or not relation.is_single or linked:
            continue
        if any(slot in problem.slots(output) for output in problem.outputs):
            continue
        linking = [
            p for p in classes.other_predicates if slot in problem.slots(p) and problem.slots(p) != {slot}
        ]
        found = _match_comparison(problem, slot, linking[0]) if len(linking) == 1 else None
        if found is not None:
            return _split_threshold(problem, found)
    return None


def _match_comparison(problem: Problem, slot: int, predicate: Scalar) -> _SingleRowComparison | None:
    if not isinstance(predicate, Call) or predicate.function not in SIGNS:
        return None
    left, right = predicate.args
    if left.type.is_interned or not have_same_words(left.type, right.type):
        return None
    if problem.slots(right) == {slot} and slot not in problem.slots(left):
        return _SingleRowComparison(slot, predicate, left, right, SIGNS[predicate.function])
    if problem.slots(left) == {slot} and slot not in problem.slots(right):
        return _SingleRowComparison(slot, predicate, right, left, MIRRORED[predicate.function])
    return None


def _split_threshold(problem: Problem, comparison: _SingleRowComparison) -> ThresholdJoin:
    own = tuple(p for p in problem.predicates if problem.slots(p) == {comparison.slot})
    others = tuple(p for p in problem.predicates if p not in own and p != comparison.predicate)
    relations = tuple(r for slot, r in enumerate(problem.relations) if slot != comparison.slot)
    carried = dict.fromkeys([comparison.value])
    for output in problem.outputs:
        carried.update(dict.fromkeys(_leaves(output, comparison.value)))
    items = tuple(carried)
    left = Problem(relations, others, items)
    not_null = Call("is_not_null", (comparison.bound,), BOOLEAN)
    right = Problem((problem.relations[comparison.slot],), (*own, not_null), (comparison.bound,))
    places: dict[Scalar, int] = {item: place for place, item in enumerate(items)}
    outputs = tuple(express_over(output, places.get) for output in problem.outputs)
    return ThresholdJoin(left, right, comparison.comparison, Mfp((), outputs))


def _leaves(scalar: Scalar, excluded: Scalar) -> Iterator[Scalar]:
    """Yield the columns that a scalar reads, except those inside ``excluded``."""
    if scalar == excluded:
        return
    if isinstance(scalar, Column):
        yield scalar
    for child in children(scalar):
        yield from _leaves(child, excluded)


@dataclass(frozen=True, slots=True)
class Stream:
    """A relation's stream of changes, and its columns as items of the problem."""

    ref: Ref
    items: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True, eq=False)
class JoinDraft:
    """A join with fixed lookup orders.

    The arrangements that it looks up are chosen later.
    """

    problem: Problem
    classes: EquivalenceClasses
    streams: tuple[Stream, ...]
    orders: tuple[tuple[HalfJoinChoice, ...], ...]
    prefiltered: Slots


def plan_join(planning: Planning, problem: Problem) -> Ref:
    """Return a stream of the problem's outputs."""
    classes = classify(problem)
    threshold = find_threshold_join(problem, classes) if planning.outer is None else None
    if threshold is not None:
        return _plan_range_join(planning, threshold)
    settled = frozenset(
        slot
        for slot, relation in enumerate(problem.relations)
        if relation.table is None or _needs_filtered_arrangement(problem, classes, slot)
    )
    slots = range(len(problem.relations))
    streams = tuple(_relation_stream(planning, problem, classes, slot, settled) for slot in slots)
    if len(problem.relations) == 1:
        return _plan_single_relation(planning, problem, classes, streams[0], settled)
    orders = path_orders(problem, classes)
    for step in (step for steps in orders for step in steps if step.slot not in settled):
        need = _need(problem, step)
        if need is not None:
            planning.access.add_need(need)
    draft = JoinDraft(problem, classes, streams, orders, settled)
    return planning.builder.defer(
        partial(_build_delta_join, planning, draft), _output_types(planning, problem, streams)
    )


def _needs_filtered_arrangement(problem: Problem, classes: EquivalenceClasses, slot: int) -> bool:
    """Return whether a lookup key of the relation can fail for rows that its local predicates reject.

    Such rows must not be in the arrangement, even of a base table.
    """
    keys = (class_.own_members.get(slot) for class_ in classes.classes)
    return any(is_prefiltered(problem, p, frozenset((slot,))) for p in classes.other_predicates) and not all(
        key is None or never_fails(key) for key in keys
    )


def _output_types(planning: Planning, problem: Problem, streams: Sequence[Stream]) -> Types:
    """Return the types of the outputs.

    The relations' streams know the table of each rowid column.
    """
    known: dict[Scalar, Type] = {}
    for stream in streams:
        known.update(zip(stream.items, planning.builder.types[stream.ref], strict=True))
    return tuple(known.get(output, output.type) for output in problem.outputs)


def _build_delta_join(planning: Planning, draft: JoinDraft) -> plan.DeltaJoin:
    problem, streams = draft.problem, draft.streams
    derived = _key_sequences(draft.prefiltered, draft.orders)
    found = [
        tuple(_target(planning, problem, step, streams[step.slot], derived) for step in steps)
        for steps in draft.orders
    ]
    if planning.outer is not None:
        streams = _use_arrangement_order(draft, found)
    ends = []
    for start, (steps, targets) in enumerate(zip(draft.orders, found, strict=True)):
        items = streams[start].items
        path = PathBuilder(problem, draft.classes, start, items, steps, targets, draft.prefiltered).build()
        ends.append(_add_path(planning, streams[start].ref, start, path))
    return plan.DeltaJoin(tuple(ends))


def _add_path(planning: Planning, stream: Ref, start: int, path: PlannedPath) -> Ref:
    """Add the nodes of a path, and return the last one."""
    builder = planning.builder
    end = builder.add(plan.Delta(stream, path.mfp))
    for half in path.half_joins:
        end = builder.add(plan.HalfJoin(end, half.arrangement, start, half.slot, half.key, half.mfp))
    return end


def _use_arrangement_order(draft: JoinDraft, targets: Sequence[Sequence[Target]]) -> tuple[Stream, ...]:
    """Replace streams by arrangements whose order puts repeated derivations of one result row together.

    This holds if the result drops a column behind the first. Rows that differ only in that column are
    then adjacent and derive the same rows. Their entry in the distinct above is still in the cache.
    """
    read = frozenset[int]().union(*(columns(scalar) for scalar in draft.problem.outputs))
    result = list(draft.streams)
    for steps, found in zip(draft.orders, targets, strict=True):
        for step, target in zip(steps, found, strict=True):
            left_out = any(columns(item).isdisjoint(read) for item in target.items[1:])
            if left_out and step.slot in draft.prefiltered and result[step.slot] is draft.streams[step.slot]:
                result[step.slot] = Stream(target.arrangement, target.items)
    return tuple(result)


def _plan_single_relation(
    planning: Planning, problem: Problem, classes: EquivalenceClasses, stream: Stream, prefiltered: Slots
) -> Ref:
    path = PathBuilder(problem, classes, 0, stream.items, (), (), prefiltered).build()
    return planning.builder.linear(stream.ref, path.mfp)


def _relation_stream(
    planning: Planning, problem: Problem, classes: EquivalenceClasses, slot: int, prefiltered: Slots
) -> Stream:
    """Return the relation's changes: rowids of a table, or the required columns of a derived relation."""
    relation = problem.relations[slot]
    if relation.table is not None and slot not in prefiltered:
        return Stream(planning.builder.add(plan.Source(relation.table)), (relation.rowid,))
    own = [
        p
        for p in classes.other_predicates
        if is_prefiltered(problem, p, prefiltered) and slot in problem.slots(p)
    ]
    items = _required_columns(problem, classes, relation, own)
    own += [Call("is_not_null", (member,), BOOLEAN) for member in _nullable_keys(problem, classes, slot)]
    first = relation.start if relation.table is None else relation.rowid.index

    def local(scalar: Scalar) -> Scalar:
        return remap(scalar, lambda column: column - first)

    mfp = Mfp(tuple(local(predicate) for predicate in own), tuple(local(item) for item in items))
    if relation.table is not None:
        source = planning.builder.add(plan.Source(relation.table))
        return Stream(planning.builder.linear(source, mfp), items)
    if isinstance(relation.source, int):
        return Stream(planning.builder.linear(relation.source, mfp), items)
    return Stream(planning.lower(planning, relation.source, mfp), items)


def _nullable_keys(problem: Problem, classes: EquivalenceClasses, slot: int) -> list[Scalar]:
    """Return the relation's lookup keys that can be NULL, which has no match."""
    members = (class_.own_members.get(slot) for class_ in classes.classes if class_.strict)
    return [member for member in members if member is not None and problem.can_be_null(member)]


def _required_columns(
    problem: Problem, classes: EquivalenceClasses, relation: Relation, own: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """Return the columns of a derived relation that the join itself reads, at least one if it has any."""
    if relation.table is not None:
        return (relation.rowid,)
    scalars = [*problem.outputs, *(p for p in classes.other_predicates if p not in own)]
    scalars += [member for class_ in classes.classes for member in class_.members]
    used = frozenset[int]().union(*(columns(scalar) for scalar in scalars))
    chosen = [column for column in range(relation.start, relation.stop) if column in used]
    return tuple(
        Column(column, relation.types[column - relation.start])
        for column in chosen or range(relation.start, relation.stop)[:1]
    )


def _key_sequences(
    prefiltered: Slots, orders: Sequence[Sequence[HalfJoinChoice]]
) -> dict[int, tuple[tuple[Scalar, ...], ...]]:
    """Return the lookup key sequences of each derived relation.

    Nested keys share one sequence.
    """
    result: dict[int, tuple[tuple[Scalar, ...], ...]] = {}
    for slot in sorted(prefiltered):
        keys = [
            tuple(member for _, member in step.key) for steps in orders for step in steps if step.slot == slot
        ]
        members = tuple(dict.fromkeys(member for key in keys for member in key))
        needs = {Need("", frozenset(members.index(member) for member in key)): None for key in keys}
        sequences = choose_sequences(needs, (), ())
        result[slot] = tuple(tuple(members[place] for place in sequence) for sequence in sequences)
    return result


def _target(
    planning: Planning,
    problem: Problem,
    step: HalfJoinChoice,
    stream: Stream,
    derived: dict[int, tuple[tuple[Scalar, ...], ...]],
) -> Target:
    """Return the arrangement that a step looks up.

    A table's is keyed by columns if possible, to be shared.
    """
    members = tuple(member for _, member in step.key)
    if step.slot in derived:
        sequences = derived[step.slot]
        fitting = (
            candidate for candidate in sequences if frozenset(members) == frozenset(candidate[: len(members)])
        )
        return _arrange(planning, stream, next(fitting), len(members))
    need = _need(problem, step)
    if need is None:
        return _arrange(planning, stream, members, len(members))
    sequence, length = planning.access.find(need)
    relation = problem.relations[step.slot]
    key = tuple(Fetch(need.table, column, relation.rowid, relation.types[column]) for column in sequence)
    return _arrange(planning, stream, key, length)


def _need(problem: Problem, step: HalfJoinChoice) -> Need | None:
    """Return the need for an arrangement of a base table, or None for a lookup by rowid or a computed key."""
    relation = problem.relations[step.slot]
    stored = {member.column: pair for pair in step.key if isinstance(member := pair[1], Fetch)}
    is_plain = all(isinstance(member, Fetch) and member.rowid == relation.rowid for _, member in step.key)
    if relation.table is None or not is_plain:
        return None
    fan_outs = tuple((column, fan_out(problem, step.slot, (pair,))) for column, pair in stored.items())
    return Need(relation.table, frozenset(stored), fan_outs)


def _arrange(planning: Planning, stream: Stream, sequence: tuple[Scalar, ...], length: int) -> Target:
    """Return the stream arranged by a sequence of scalars, followed by its other items."""
    items = (*sequence, *(item for item in stream.items if item not in sequence))
    places: dict[Scalar, int] = {item: place for place, item in enumerate(stream.items)}
    mfp = Mfp((), tuple(express_over(item, places.get) for item in items))
    ref = planning.builder.arrange(planning.builder.linear(stream.ref, mfp), len(sequence))
    return Target(ref, items, length)


def _plan_range_join(planning: Planning, threshold: ThresholdJoin) -> Ref:
    """Return the rows on one side of a maintained threshold, found without a scan of the others."""
    builder = planning.builder
    left = plan_join(planning, threshold.left)
    right = plan_join(planning, threshold.right)
    return builder.add(
        plan.RangeJoin(
            builder.arrange(left, 1), builder.arrange(right, 1), 0, threshold.comparison, threshold.mfp
        )
    )
