"""Inner joins as delta joins: one path of lookups for the changes of each relation.

A stream row holds *items*: scalars of the problem that are computed already, mainly rowids and the columns of
derived relations. Each stage keeps only the items that later stages need. Columns of a base table are fetched
where they are used, unless a key carried them.

A comparison with one maintained value, such as a global aggregate, becomes a :class:`Threshold` instead
(TPC-H Q11, Q22).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from kpg.compiler.algebra.scalars import never_fails
from kpg.compiler.physical.access_paths import Need, choose
from kpg.compiler.physical.context import Finder, Planning, over, parts_over
from kpg.compiler.physical.join_order import Class, Classes, Step, classify, fan_out, lookup_orders
from kpg.compiler.physical.join_problem import Problem, Relation, Slots
from kpg.runtime import plan
from kpg.runtime.interrupts import checkpoint
from kpg.runtime.plan import Mfp, Ref, Types
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, Scalar, children, columns, remap
from kpg.runtime.types import BOOLEAN, Type, same_words

Places = Mapping[Scalar, int]


@dataclass(frozen=True, slots=True)
class Target:
    """An arrangement to look into: what its columns are, and how many of them the lookup gives."""

    arrangement: Ref
    items: tuple[Scalar, ...]
    length: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """What will be a half-join with an arrangement of relation ``slot``."""

    arrangement: Ref
    slot: int
    key: tuple[int, ...]
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class Path:
    """What will be a chain of nodes: ``mfp`` of the changes of a relation, then the lookups."""

    mfp: Mfp
    lookups: tuple[Lookup, ...]


@dataclass(slots=True)
class PathBuilder:
    """Builds the path of the changes of relation ``start`` along ``steps`` into ``targets``.

    ``items`` are the columns of its stream; ``settled`` the relations whose streams and arrangements
    have applied their local predicates already.
    """

    problem: Problem
    classes: Classes
    start: int
    items: tuple[Scalar, ...]
    steps: tuple[Step, ...]
    targets: tuple[Target, ...]
    settled: Slots
    first: dict[Class, Scalar] = field(default_factory=dict)
    """The member by which a class was bound first."""
    pending: list[Scalar] = field(default_factory=list)

    def build(self) -> Path:
        """The path."""
        self.pending = [p for p in self.classes.rest if not is_settled(self.problem, p, self.settled)]
        bound: Slots = frozenset((self.start,))
        places = _places(self.items)
        tests = self._tests(places, places, frozenset(), bound, ())
        row, start = self._stage(0, tests, places, bound)
        lookups: list[Lookup] = []
        for index, (step, target) in enumerate(zip(self.steps, self.targets, strict=True)):
            stream = _places(row)
            key = tuple(stream[scalar] for scalar in self._key(index))
            places = _places((*row, *target.items))
            before, bound = bound, bound | {step.slot}
            tests = self._tests(stream, places, before, bound, target.items[: target.length])
            row, mfp = self._stage(index + 1, tests, places, bound)
            lookups.append(Lookup(target.arrangement, step.slot, key, mfp))
        return Path(start, tuple(lookups))

    def _key(self, index: int) -> list[Scalar]:
        """The bound scalars that lookup ``index`` looks up, in the arrangement's order."""
        classes = {member: one for one, member in self.steps[index].key}
        target = self.targets[index]
        return [self.first[classes[item]] for item in target.items[: target.length]]

    def _tests(
        self, stream: Places, places: Places, before: Slots, bound: Slots, looked: Sequence[Scalar]
    ) -> tuple[Scalar, ...]:
        """What can be checked now: equalities that the lookup does not cover, then other predicates."""
        tests: list[Scalar] = []
        for one in self.classes.reading(bound - before):
            fresh = one.fresh(before, bound)
            if not fresh:
                continue
            if one in self.first:
                known = self._located(self.first[one], stream)
                fresh = [member for member in fresh if member not in looked]
            else:
                self.first[one] = fresh[0]
                known = self._computed(fresh[0], places)
                if one.strict and self.problem.can_be_null(fresh[0]) and not self._is_own(fresh[0]):
                    tests.append(Call("is_not_null", (known,), BOOLEAN))
                fresh = fresh[1:]
            tests += [one.test(known, self._computed(member, places)) for member in fresh]
        ready = [p for p in self.pending if self.problem.slots(p) <= bound]
        self.pending = [p for p in self.pending if not self.problem.slots(p) <= bound]
        return (*tests, *(self._located(predicate, places) for predicate in ready))

    def _is_own(self, member: Scalar) -> bool:
        """Whether a member is of a relation that has left out its NULLs already."""
        alone = self.classes.by_member[member].alone
        return any(alone.get(slot) == member for slot in self.settled)

    def _stage(
        self, index: int, tests: tuple[Scalar, ...], places: Places, bound: Slots
    ) -> tuple[tuple[Scalar, ...], Mfp]:
        """The items of the row after stage ``index``, and the mfp that makes it."""
        checkpoint()
        if index == len(self.steps):
            outputs = self.problem.outputs
            return outputs, Mfp(tests, tuple(self._located(output, places) for output in outputs))
        items = dict.fromkeys(self._key(index))
        items.update(dict.fromkeys(self._carried(self._needed(bound), places, bound)))
        if not items:
            items = dict.fromkeys(list(places)[:1])
        return tuple(items), Mfp(tests, tuple(self._located(item, places) for item in items))

    def _needed(self, bound: Slots) -> Iterable[Scalar]:
        """The scalars that later stages compute or compare."""
        yield from self.problem.outputs
        yield from self.pending
        for one in self.classes.classes:
            late = one.late(bound)
            if late and one in self.first:
                yield self.first[one]
            # The class's value is no substitute for a member that is to be compared with it.
            for member in late:
                yield from children(member)

    def _carried(self, needed: Iterable[Scalar], places: Places, bound: Slots) -> list[Scalar]:
        """The items at hand from which the needed scalars can be computed, as far as they are bound."""
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
        """An item that has the scalar's value: itself, or a member of its class."""
        if scalar in places:
            return scalar
        one = self.classes.of(scalar)
        return next((member for member in one.members if member in places), None) if one else None

    def _located(self, scalar: Scalar, places: Places) -> Scalar:
        """The scalar over the columns of a row with the given items."""
        return over(scalar, self._finder(places))

    def _computed(self, scalar: Scalar, places: Places) -> Scalar:
        """As :meth:`_located`, but without help of the scalar's class: its equality is yet to be checked."""
        if scalar in places:
            return Column(places[scalar], scalar.type)
        return parts_over(scalar, self._finder(places))

    def _finder(self, places: Places) -> Finder:
        def find(scalar: Scalar) -> int | None:
            item = self._item(scalar, places)
            return None if item is None else places[item]

        return find


def is_settled(problem: Problem, predicate: Scalar, settled: Slots) -> bool:
    """Whether the predicate is local to a relation that applies its local predicates itself."""
    slots = problem.slots(predicate)
    return len(slots) == 1 and slots <= settled


def _places(items: Sequence[Scalar]) -> Places:
    """Where each item is, the first time it occurs."""
    return {item: place for place, item in reversed(tuple(enumerate(items)))}


SIGNS: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
MIRRORED: Final = {"lt": ">", "le": ">=", "gt": "<", "ge": "<="}


@dataclass(frozen=True, slots=True)
class Threshold:
    """``left.0 comparison right.0`` over two smaller problems; ``mfp`` is over the left's outputs."""

    left: Problem
    right: Problem
    comparison: str
    mfp: Mfp


@dataclass(frozen=True, slots=True)
class _Found:
    slot: int
    predicate: Scalar
    value: Scalar
    bound: Scalar
    comparison: str


def find_threshold(problem: Problem, classes: Classes) -> Threshold | None:
    """The problem split at a one-row relation that only a comparison ties to the others, if there is one."""
    for slot, relation in enumerate(problem.relations):
        linked = any(slot in problem.slots(m) for one in classes.classes for m in one.members)
        if len(problem.relations) < 2 or not relation.is_single or linked:
            continue
        if any(slot in problem.slots(output) for output in problem.outputs):
            continue
        touching = [p for p in classes.rest if slot in problem.slots(p) and problem.slots(p) != {slot}]
        found = _comparison(problem, slot, touching[0]) if len(touching) == 1 else None
        if found is not None:
            return _split(problem, found)
    return None


def _comparison(problem: Problem, slot: int, predicate: Scalar) -> _Found | None:
    if not isinstance(predicate, Call) or predicate.function not in SIGNS:
        return None
    left, right = predicate.args
    if left.type.is_interned or not same_words(left.type, right.type):
        return None
    if problem.slots(right) == {slot} and slot not in problem.slots(left):
        return _Found(slot, predicate, left, right, SIGNS[predicate.function])
    if problem.slots(left) == {slot} and slot not in problem.slots(right):
        return _Found(slot, predicate, right, left, MIRRORED[predicate.function])
    return None


def _split(problem: Problem, found: _Found) -> Threshold:
    own = tuple(p for p in problem.predicates if problem.slots(p) == {found.slot})
    others = tuple(p for p in problem.predicates if p not in own and p != found.predicate)
    relations = tuple(r for slot, r in enumerate(problem.relations) if slot != found.slot)
    carried = dict.fromkeys([found.value])
    for output in problem.outputs:
        carried.update(dict.fromkeys(_leaves(output, found.value)))
    items = tuple(carried)
    left = Problem(relations, others, items)
    known = Call("is_not_null", (found.bound,), BOOLEAN)
    right = Problem((problem.relations[found.slot],), (*own, known), (found.bound,))
    places: dict[Scalar, int] = {item: place for place, item in enumerate(items)}
    outputs = tuple(over(output, places.get) for output in problem.outputs)
    return Threshold(left, right, found.comparison, Mfp((), outputs))


def _leaves(scalar: Scalar, known: Scalar) -> Iterator[Scalar]:
    """The columns below a scalar, but for those inside the known one."""
    if scalar == known:
        return
    if isinstance(scalar, Column):
        yield scalar
    for child in children(scalar):
        yield from _leaves(child, known)


@dataclass(frozen=True, slots=True)
class Stream:
    """A relation's stream of changes: its columns as items of the problem."""

    ref: Ref
    items: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A join whose lookups are in order: what is open is the arrangements that they look into."""

    problem: Problem
    classes: Classes
    streams: tuple[Stream, ...]
    orders: tuple[tuple[Step, ...], ...]
    settled: Slots


def plan_join(planning: Planning, problem: Problem) -> Ref:
    """A stream of the problem's outputs."""
    classes = classify(problem)
    threshold = find_threshold(problem, classes) if planning.around is None else None
    if threshold is not None:
        return _range_join(planning, threshold)
    settled = frozenset(
        slot
        for slot, relation in enumerate(problem.relations)
        if relation.table is None or _is_guarded(problem, classes, slot)
    )
    slots = range(len(problem.relations))
    streams = tuple(_stream(planning, problem, classes, slot, settled) for slot in slots)
    if len(problem.relations) == 1:
        return _only_one(planning, problem, classes, streams[0], settled)
    orders = lookup_orders(problem, classes)
    for step in (step for steps in orders for step in steps if step.slot not in settled):
        need = _need(problem, step)
        if need is not None:
            planning.access.ask(need)
    draft = Draft(problem, classes, streams, orders, settled)
    return planning.builder.defer(partial(_joined, planning, draft), _types(planning, problem, streams))


def _is_guarded(problem: Problem, classes: Classes, slot: int) -> bool:
    """Whether the relation's rows may be looked up by what can fail in those that its predicates reject.

    Such rows must not be in an arrangement: a base table's then holds the others only.
    """
    keys = (one.alone.get(slot) for one in classes.classes)
    return any(is_settled(problem, p, frozenset((slot,))) for p in classes.rest) and not all(
        key is None or never_fails(key) for key in keys
    )


def _types(planning: Planning, problem: Problem, streams: Sequence[Stream]) -> Types:
    """The types of the outputs: the relations' columns know which table's rowids they hold."""
    known: dict[Scalar, Type] = {}
    for stream in streams:
        known.update(zip(stream.items, planning.builder.types[stream.ref], strict=True))
    return tuple(known.get(output, output.type) for output in problem.outputs)


def _joined(planning: Planning, draft: Draft) -> plan.DeltaJoin:
    problem, streams = draft.problem, draft.streams
    derived = _derived_sequences(draft.settled, draft.orders)
    found = [
        tuple(_target(planning, problem, step, streams[step.slot], derived) for step in steps)
        for steps in draft.orders
    ]
    if planning.around is not None:
        streams = _in_order(draft, found)
    ends = []
    for start, (steps, targets) in enumerate(zip(draft.orders, found, strict=True)):
        items = streams[start].items
        path = PathBuilder(problem, draft.classes, start, items, steps, targets, draft.settled).build()
        ends.append(_chain(planning, streams[start].ref, start, path))
    return plan.DeltaJoin(tuple(ends))


def _chain(planning: Planning, stream: Ref, start: int, path: Path) -> Ref:
    """The last of the nodes that changes of a stream go through."""
    builder = planning.builder
    end = builder.add(plan.Delta(stream, path.mfp))
    for lookup in path.lookups:
        end = builder.add(plan.HalfJoin(end, lookup.arrangement, start, lookup.slot, lookup.key, lookup.mfp))
    return end


def _in_order(draft: Draft, targets: Sequence[Sequence[Target]]) -> tuple[Stream, ...]:
    """The streams, read from an arrangement where its order brings derivations of one row together.

    That is so if a column behind the first is left out of the result: rows that differ only in it are next to
    each other then, and derive the same rows, whose place in the distinct above is still in the cache.
    """
    read = frozenset[int]().union(*(columns(scalar) for scalar in draft.problem.outputs))
    result = list(draft.streams)
    for steps, found in zip(draft.orders, targets, strict=True):
        for step, target in zip(steps, found, strict=True):
            left_out = any(columns(item).isdisjoint(read) for item in target.items[1:])
            if left_out and step.slot in draft.settled and result[step.slot] is draft.streams[step.slot]:
                result[step.slot] = Stream(target.arrangement, target.items)
    return tuple(result)


def _only_one(planning: Planning, problem: Problem, classes: Classes, stream: Stream, settled: Slots) -> Ref:
    path = PathBuilder(problem, classes, 0, stream.items, (), (), settled).build()
    return planning.builder.linear(stream.ref, path.mfp)


def _stream(planning: Planning, problem: Problem, classes: Classes, slot: int, settled: Slots) -> Stream:
    """The relation's changes: rowids of a table, the columns in demand of a derived relation."""
    relation = problem.relations[slot]
    if relation.table is not None and slot not in settled:
        return Stream(planning.builder.add(plan.Source(relation.table)), (relation.rowid,))
    own = [p for p in classes.rest if is_settled(problem, p, settled) and slot in problem.slots(p)]
    items = _demanded(problem, classes, relation, own)
    own += [Call("is_not_null", (member,), BOOLEAN) for member in _compared(problem, classes, slot)]
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


def _compared(problem: Problem, classes: Classes, slot: int) -> list[Scalar]:
    """What the relation's rows are compared by and could be NULL, for which there is no match."""
    members = (one.alone.get(slot) for one in classes.classes if one.strict)
    return [member for member in members if member is not None and problem.can_be_null(member)]


def _demanded(
    problem: Problem, classes: Classes, relation: Relation, own: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """The columns of a derived relation that more than its own predicates reads; one, if it has any."""
    if relation.table is not None:
        return (relation.rowid,)
    scalars = [*problem.outputs, *(p for p in classes.rest if p not in own)]
    scalars += [member for one in classes.classes for member in one.members]
    used = frozenset[int]().union(*(columns(scalar) for scalar in scalars))
    chosen = [column for column in range(relation.start, relation.stop) if column in used]
    return tuple(
        Column(column, relation.types[column - relation.start])
        for column in chosen or range(relation.start, relation.stop)[:1]
    )


def _derived_sequences(
    settled: Slots, orders: Sequence[Sequence[Step]]
) -> dict[int, tuple[tuple[Scalar, ...], ...]]:
    """For each derived relation, the keys that it is arranged by: one for lookups by nested keys."""
    result: dict[int, tuple[tuple[Scalar, ...], ...]] = {}
    for slot in sorted(settled):
        keys = [
            tuple(member for _, member in step.key) for steps in orders for step in steps if step.slot == slot
        ]
        members = tuple(dict.fromkeys(member for key in keys for member in key))
        needs = {Need("", frozenset(members.index(member) for member in key)): None for key in keys}
        sequences = choose(needs, (), ())
        result[slot] = tuple(tuple(members[place] for place in sequence) for sequence in sequences)
    return result


def _target(
    planning: Planning,
    problem: Problem,
    step: Step,
    stream: Stream,
    derived: dict[int, tuple[tuple[Scalar, ...], ...]],
) -> Target:
    """The arrangement that a step looks into: of a table by columns if possible, which others can share."""
    members = tuple(member for _, member in step.key)
    if step.slot in derived:
        sequences = derived[step.slot]
        fitting = (one for one in sequences if frozenset(members) == frozenset(one[: len(members)]))
        return _arranged(planning, stream, next(fitting), len(members))
    need = _need(problem, step)
    if need is None:
        return _arranged(planning, stream, members, len(members))
    sequence, length = planning.access.find(need)
    relation = problem.relations[step.slot]
    key = tuple(Fetch(need.table, column, relation.rowid, relation.types[column]) for column in sequence)
    return _arranged(planning, stream, key, length)


def _need(problem: Problem, step: Step) -> Need | None:
    """What the step asks of a base table's arrangements, None if it looks up by rowid or what is computed."""
    relation = problem.relations[step.slot]
    stored = {member.column: pair for pair in step.key if isinstance(member := pair[1], Fetch)}
    plain = all(isinstance(member, Fetch) and member.rowid == relation.rowid for _, member in step.key)
    if relation.table is None or not plain:
        return None
    fan_outs = tuple((column, fan_out(problem, step.slot, (pair,))) for column, pair in stored.items())
    return Need(relation.table, frozenset(stored), fan_outs)


def _arranged(planning: Planning, stream: Stream, sequence: tuple[Scalar, ...], length: int) -> Target:
    """The stream arranged by a sequence of scalars, the rest of its columns behind."""
    items = (*sequence, *(item for item in stream.items if item not in sequence))
    places: dict[Scalar, int] = {item: place for place, item in enumerate(stream.items)}
    mfp = Mfp((), tuple(over(item, places.get) for item in items))
    ref = planning.builder.arrange(planning.builder.linear(stream.ref, mfp), len(sequence))
    return Target(ref, items, length)


def _range_join(planning: Planning, threshold: Threshold) -> Ref:
    """The rows below or above a maintained threshold, without a look at all the others."""
    builder = planning.builder
    left = plan_join(planning, threshold.left)
    right = plan_join(planning, threshold.right)
    return builder.add(
        plan.RangeJoin(
            builder.arrange(left, 1), builder.arrange(right, 1), 0, threshold.comparison, threshold.mfp
        )
    )
