"""Inner joins as delta joins: streams, arrangements and one path per relation."""

from collections.abc import Sequence
from dataclasses import dataclass

from kpg.compiler.physical.access import Need, choose
from kpg.compiler.physical.classes import Classes, classify
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.order import Step, fan_out, lookup_order
from kpg.compiler.physical.paths import PathBuilder, Target, is_settled
from kpg.compiler.physical.problem import Problem, Relation, Slots
from kpg.compiler.physical.range_join import Threshold, find_threshold
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.scalar import Call, Column, Fetch, Scalar, children, columns, remap, with_children
from kpg.runtime.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class Stream:
    """A relation's stream of changes: its columns as items of the problem."""

    ref: Ref
    items: tuple[Scalar, ...]


def plan_join(planning: Planning, problem: Problem) -> Ref:
    """A stream of the problem's outputs."""
    classes = classify(problem)
    threshold = find_threshold(problem, classes)
    if threshold is not None:
        return _range_join(planning, threshold)
    settled = frozenset(i for i, r in enumerate(problem.relations) if r.table is None)
    streams = [_stream(planning, problem, classes, slot) for slot in range(len(problem.relations))]
    if len(problem.relations) == 1:
        return _only_one(planning, problem, classes, streams[0], settled)
    orders = [lookup_order(problem, classes, start) for start in range(len(problem.relations))]
    derived = _derived_sequences(settled, orders)
    paths = []
    for start, steps in enumerate(orders):
        targets = tuple(_target(planning, problem, step, streams, derived) for step in steps)
        builder = PathBuilder(problem, classes, start, streams[start].items, steps, targets, settled)
        paths.append(builder.build())
    return planning.builder.add(plan.Join(tuple(stream.ref for stream in streams), tuple(paths)))


def _only_one(planning: Planning, problem: Problem, classes: Classes, stream: Stream, settled: Slots) -> Ref:
    path = PathBuilder(problem, classes, 0, stream.items, (), (), settled).build()
    return planning.builder.linear(stream.ref, path.mfp)


def _stream(planning: Planning, problem: Problem, classes: Classes, slot: int) -> Stream:
    """The relation's changes: rowids of a table, the columns in demand of a derived relation."""
    relation = problem.relations[slot]
    if relation.table is not None:
        return Stream(planning.builder.add(plan.Source(relation.table)), (relation.rowid,))
    own = [p for p in classes.rest if is_settled(problem, p, frozenset((slot,)))]
    items = _demanded(problem, classes, relation, own)
    own += [Call("is_not_null", (member,), BOOLEAN) for member in _compared(problem, classes, slot)]

    def local(scalar: Scalar) -> Scalar:
        return remap(scalar, lambda column: column - relation.start)

    mfp = Mfp(tuple(local(predicate) for predicate in own), tuple(local(item) for item in items))
    if isinstance(relation.source, int):
        return Stream(planning.builder.linear(relation.source, mfp), items)
    return Stream(planning.lower(planning, relation.source, mfp), items)


def _compared(problem: Problem, classes: Classes, slot: int) -> list[Scalar]:
    """What the relation's rows are compared by and could be NULL, for which there is no match."""
    members = (one.member_in(slot) for one in classes.classes if one.strict)
    return [member for member in members if member is not None and problem.can_be_null(member)]


def _demanded(
    problem: Problem, classes: Classes, relation: Relation, own: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """The columns of a derived relation that more than its own predicates reads; one, if it has any."""
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
    streams: Sequence[Stream],
    derived: dict[int, tuple[tuple[Scalar, ...], ...]],
) -> Target:
    """The arrangement that a step looks into."""
    stream = streams[step.slot]
    members = frozenset(member for _, member in step.key)
    if step.slot not in derived:
        return _table_target(planning, problem, step, stream)
    for sequence in derived[step.slot]:
        if members == frozenset(sequence[: len(members)]):
            return _arranged(planning, stream, sequence, len(members))
    raise InternalError("no arrangement was chosen for a lookup")


def _arranged(planning: Planning, stream: Stream, sequence: tuple[Scalar, ...], length: int) -> Target:
    """The stream arranged by a sequence of scalars, the rest of its columns behind."""
    items = (*sequence, *(item for item in stream.items if item not in sequence))
    places: dict[Scalar, int] = {item: place for place, item in enumerate(stream.items)}
    mfp = Mfp((), tuple(over(item, places) for item in items))
    ref = planning.builder.arrange(planning.builder.linear(stream.ref, mfp), len(sequence))
    return Target(ref, items, length)


def over(scalar: Scalar, places: dict[Scalar, int]) -> Scalar:
    """The scalar over rows that have other scalars' values at the given places."""
    if scalar in places:
        return Column(places[scalar], scalar.type)
    return with_children(scalar, tuple(over(child, places) for child in children(scalar)))


def _table_target(planning: Planning, problem: Problem, step: Step, stream: Stream) -> Target:
    """An arrangement of a whole base table: by columns, which others can share, if that is possible."""
    relation = problem.relations[step.slot]
    assert relation.table is not None
    members = [member for _, member in step.key]
    stored = {member.column: pair for pair in step.key if isinstance(member := pair[1], Fetch)}
    if relation.rowid in members:
        return _arranged(planning, stream, (relation.rowid,), 1)
    if not all(isinstance(m, Fetch) and m.rowid == relation.rowid for m in members):
        return _arranged(planning, stream, tuple(members), len(members))
    fan_outs = tuple((column, fan_out(problem, step.slot, (pair,))) for column, pair in stored.items())
    need = Need(relation.table, frozenset(stored), fan_outs)
    sequence, length = planning.access.find(need)
    types = relation.types
    key = tuple(Fetch(relation.table, column, relation.rowid, types[column]) for column in sequence)
    return _arranged(planning, stream, key, length)


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
