"""Loops when many workers run them: what is recursive is parted, and the rest is where its rounds need it.

Usually a worker has its share of what a loop reads from outside, and what its rounds derive goes from owner
to owner. If each worker has all that is read from outside, fewer rows have to go anywhere: those of a closure
p(x, z) :- p(x, y), e(y, z) stay with the owner of x, since all edges are there. So a loop is placed in both
ways, and with what is recursive parted by one column or another; the way that has the least sent is taken.
"""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from kpg.compiler.physical.placement import FIRST, PARTED, Level, Placement, listens, needed
from kpg.compiler.physical.placing import strictly
from kpg.runtime import plan
from kpg.runtime.plan import Exchange, Ref, Route, user
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, Scalar, children

MOST: Final = 4
"""Recursive collections of a loop that is placed in several ways."""
LEAVES_MANY: Final = frozenset({"is_not_null", "ne", "lt", "le", "gt", "ge"})
"""Filters of a column after which it usually has about as many words as before."""


def of_loops(level: Level, ref: Ref, node: plan.Enter | plan.Variable | plan.Loop | plan.Leave) -> Ref:
    """A loop, or what connects it, in the level's new list."""
    match node:
        case plan.Enter(input=source):
            return _enter(level, ref, source)
        case plan.Variable(index=index):
            return _variable(level, node, level.variables[index])
        case plan.Loop():
            return _loop(level, ref, node)
        case plan.Leave(loop=loop, result=result):
            new, _ = level.stream(loop)
            return level.add(plan.Leave(new, result), level.loops[loop][1][result])
        case _:
            assert_never(node)


def _enter(level: Level, ref: Ref, source: Ref) -> Ref:
    assert level.outer is not None
    new, place = level.outer.stream(source)
    if place.loose and not level.whole:
        wished = level.wishes.of(ref)
        new = level.outer.parted(new) if wished is None else level.outer.owned(new, wished)
    return level.add(plan.Enter(new), level.outer.places[new])


def _variable(level: Level, node: plan.Variable, place: Placement) -> Ref:
    initial = node.initial
    if initial is not None:
        initial = strictly(level, level.stream(initial)[0], place)
    return level.add(plan.Variable(node.index, node.types, initial), place)


@dataclass(frozen=True, slots=True)
class _Way:
    """A loop as it would be, and where its results are."""

    loop: plan.Loop
    body: tuple[Placement, ...]
    results: tuple[Placement, ...]
    cost: int


def _loop(level: Level, ref: Ref, node: plan.Loop) -> Ref:
    """Each recursive collection is parted by the column that it is looked up by most, or a better one."""
    wishes = level.wishes.bodies[ref]
    by = [wishes.of(result) or 0 for result in node.results]
    best = _way(level, ref, node, by, whole=False)
    if len(by) <= MOST and not any(isinstance(inner, plan.Loop) for inner in node.body):
        widths = _widths(node)
        for place in range(len(by)):
            for column in (by[place], *(other for other in range(widths[place]) if other != by[place])):
                tried = [*by[:place], column, *by[place + 1 :]]
                found = _way(level, ref, node, tried, whole=True)
                if found is not None and best is not None and found.cost < best.cost:
                    best, by = found, tried
    assert best is not None
    made = level.add(best.loop, PARTED)
    level.bodies[made] = best.body
    level.loops[ref] = made, best.results
    return made


def _widths(node: plan.Loop) -> list[int]:
    found = {inner.index: len(inner.types) for inner in node.body if isinstance(inner, plan.Variable)}
    return [found.get(index, 0) for index in range(len(node.results))]


def _way(level: Level, ref: Ref, node: plan.Loop, by: Sequence[int], *, whole: bool) -> _Way | None:
    """The loop with its collections parted by these columns; None if one worker might have to do most of it.

    ``whole``: each worker has all that is read from outside.
    """
    wishes, widths, before = level.wishes.bodies[ref], _widths(node), len(level.out)
    variables = [
        Placement(by=frozenset({column})) if width else FIRST
        for column, width in zip(by, widths, strict=True)
    ]
    body = Level(node.body, level.tables, wishes, outer=level, variables=variables, loop=ref, whole=whole)
    results = []
    for index, result in enumerate(node.results):
        new, _ = body.stream(result)
        if widths[index]:
            new = strictly(body, new, variables[index])
        results.append(new)
    for inner, found in enumerate(node.body):
        if listens(found):
            body.stream(inner)
    nodes, places, _, at = needed(body, results)
    if whole:
        for index, new in enumerate(results):
            if (
                widths[index]
                and not _scattered(body, new)
                and not _many(body, node.results[index], by[index])
            ):
                return None
    loop = plan.Loop(nodes, tuple(at[new] for new in results), node.limit, node.error_at_limit)
    outside = sum(isinstance(one, Exchange) and one.route is Route.EVERYWHERE for one in level.out[before:])
    return _Way(loop, places, tuple(body.places[new] for new in results), outside + sum(map(_cost, nodes)))


def _cost(node: plan.AnyNode) -> int:
    """What a node of a body costs in each round, by and large."""
    if isinstance(node, Exchange):
        return 0 if node.held else 2
    return int(isinstance(node, plan.Arrange))


def _scattered(body: Level, new: Ref) -> bool:
    """Whether rows are brought where they are by what they are."""
    node = body.out[new]
    if isinstance(node, Exchange):
        return not node.held
    if isinstance(node, plan.Concat | plan.Variable | plan.Enter | plan.Loop):
        return False
    return any(_scattered(body, below) for below in plan.inputs(node))


def _many(level: Level, ref: Ref, column: int) -> bool:
    """Whether a column of a node of the old list surely has many words: those of a large table.

    Rows that a recursive collection has from its rounds have words that it had before.
    """
    node = level.nodes[ref]
    match node:
        case plan.Source(table=table):
            return column == 0 and level.tables.home(table) is not None
        case plan.Linear(input=below, mfp=mfp):
            output = mfp.outputs[column]
            if any(_picks(one, output) for one in mfp.predicates):
                return False
            if isinstance(output, Fetch):
                return isinstance(output.rowid, Column) and _many(level, below, output.rowid.index)
            return isinstance(output, Column) and _many(level, below, output.index)
        case plan.Distinct(input=below) | plan.Threshold(input=below) | plan.Arrange(input=below):
            return _many(level, below, column)
        case plan.Reduce(input=below, key=key) | plan.TopK(input=below, group=key):
            return column < key and _many(level, below, column)
        case plan.Concat(inputs=inputs):
            return all(_many(level, below, column) for below in inputs)
        case plan.Enter(input=below):
            return level.outer is not None and _many(level.outer, below, column)
        case plan.Variable(initial=initial):
            return initial is None or _many(level, initial, column)
        case plan.DeltaJoin():
            return any(isinstance(one, plan.Variable) for one in _below(level, ref))
        case plan.Import(view=view):
            return not level.tables.view(view).held
        case (
            plan.Constant()
            | plan.Negate()
            | plan.Delta()
            | plan.HalfJoin()
            | plan.RangeJoin()
            | plan.Expand()
            | plan.BasicReduce()
            | plan.Window()
            | plan.Fold()
            | plan.Single()
            | plan.Ego()
            | plan.Loop()
            | plan.Leave()
            | user.Input()
            | user.Apply()
            | user.UserReduce()
            | user.Custom()
            | user.Sink()
            | user.EnterAt()
            | Exchange()
        ):
            return False
        case _:
            assert_never(node)


def _below(level: Level, ref: Ref) -> Iterator[plan.AnyNode]:
    """What a node of the old list is made of in its level."""
    seen, stack = set[Ref](), [ref]
    while stack:
        here = stack.pop()
        if here not in seen:
            seen.add(here)
            yield level.nodes[here]
            if not isinstance(level.nodes[here], plan.Enter | plan.Variable):
                stack += plan.inputs(level.nodes[here])


def _picks(predicate: Scalar, asked: Scalar) -> bool:
    """Whether a filter may leave few words of what it asks for."""
    if isinstance(predicate, Call) and predicate.function in LEAVES_MANY:
        return False
    return set(_read(predicate)) == {asked}


def _read(scalar: Scalar) -> Iterator[Scalar]:
    """The columns that a scalar is computed of."""
    if isinstance(scalar, Column | Fetch):
        yield scalar
    else:
        for one in children(scalar):
            yield from _read(one)
