"""Inner joins as delta joins: streams, arrangements and one path per relation."""

from collections.abc import Sequence
from functools import partial

from kpg.compiler.algebra.failing import never_fails
from kpg.compiler.physical.access import Need, choose
from kpg.compiler.physical.classes import Classes, classify
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.mfp import over
from kpg.compiler.physical.order import Step, fan_out, lookup_orders
from kpg.compiler.physical.paths import Path, PathBuilder, Target, is_settled
from kpg.compiler.physical.problem import Problem, Relation, Slots
from kpg.compiler.physical.range_join import Threshold, find_threshold
from kpg.runtime import plan
from kpg.runtime.plan import Mfp, Ref, Types
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, Scalar, columns, remap
from kpg.runtime.types import BOOLEAN, Type


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
