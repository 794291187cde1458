"""Placement rules per kind of node: the required placement of inputs, and that of the output.

In a delta join, changes move along their path from one owner of a key to the next.

In a loop, recursive relations are partitioned, and the other inputs are placed where the rounds
read them. Each worker usually has its share of those inputs. If every worker has all of them
instead, fewer rows move. In the closure p(x, z) :- p(x, y), e(y, z) a row stays with the owner of
x, because all edges are there. A loop is placed in both ways, and for each column that can
partition its recursive relations. The plan that sends least wins.
"""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from kpg.compiler.physical.placement import (
    LARGE,
    PARTITIONED,
    REPLICATED,
    WORKER_0,
    Level,
    LookupVotes,
    PartitionKey,
    PlacedPlan,
    Placement,
    Tables,
    check_early_materialization,
    concat_placement,
    has_sink,
    map_placement,
    move_to_owners_of_first,
    negate_placement,
    select_needed,
)
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import AccumulatorKind, lookup_aggregate
from kpg.runtime.plan import AnyNode, Combine, Exchange, Mfp, Plan, Ref, Route, user
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, Scalar, children


def place_node(level: Level, ref: Ref, node: AnyNode) -> Ref:
    """Add the node to the level's new list, after the nodes that it needs, and return its position."""
    if isinstance(node, user.Node):
        return _place_user_node(level, node)
    if isinstance(node, plan.Enter | plan.Variable | plan.Loop | plan.Leave):
        return place_loop_node(level, ref, node)
    match node:
        case plan.Source(table=table):
            return level.add(node, _table_placement(level, table))
        case plan.Constant():
            return level.add(node, REPLICATED)
        case plan.Import(view=view):
            return level.add(node, level.tables.view_placement(view))
        case plan.Linear(input=source, mfp=mfp):
            return _place_linear(level, source, mfp)
        case plan.Negate(input=source):
            new, place = level.stream(source)
            return level.add(plan.Negate(new), negate_placement(place))
        case plan.Concat(inputs=sources):
            return _place_concat(level, sources, ref)
        case plan.Arrange():
            # Rows of an input cannot be read again. Later lookups share its index, which has one placement.
            owned = level.votes.best_column(ref) == 0 or any(
                isinstance(other, user.Input) for other in level.nodes
            )
            return level.place_arrangement(ref, move_to_owners_of_first if owned else _partition_large)
        case plan.Reduce():
            return _place_reduce(level, node, level.votes.best_column(ref))
        case plan.Distinct(input=source):
            return _place_by_row(level, plan.Distinct, source, ref)
        case plan.Threshold(input=source):
            return _place_by_row(level, plan.Threshold, source, ref)
        case plan.TopK():
            return _place_topk(level, node)
        case plan.BasicReduce(input=source, key=key):
            return _place_by_group(level, node, source, key)
        case plan.Window(input=source, partition=partition):
            return _place_by_group(level, node, source, partition, width=None)
        case plan.Fold(input=source, key=key) | plan.Single(input=source, key=key):
            return _place_stream_by_group(level, node, source, key)
        case plan.Expand(input=source, kept=width):
            new, place = _partitioned_stream(level, source)
            return level.add(plan.renumber_inputs(node, lambda _: new), _keep_leading_keys(place, width))
        case plan.Ego(sources=sources):
            brought = {source: level.move_to_worker_0(level.stream(source)[0]) for source in sources}
            return level.add(plan.renumber_inputs(node, brought.__getitem__), WORKER_0)
        case plan.RangeJoin():
            return _place_range_join(level, node)
        case plan.DeltaJoin():
            return place_delta_join(level, node)
        case plan.Delta() | plan.HalfJoin():
            raise InternalError(f"{type(node).__name__} must be placed with its join")
        case plan.Exchange():
            raise InternalError("a plan with exchanges cannot be placed again")
        case _:
            assert_never(node)


def _table_placement(level: Level, table: str) -> Placement:
    owner = level.tables.owner_column(table)
    if owner is not None:
        return Placement(by=frozenset[PartitionKey]({(table, owner, 0)}), stable=True)
    return REPLICATED if level.tables.partition_column(table) is None else LARGE


def _place_linear(level: Level, source: Ref, mfp: Mfp) -> Ref:
    """Place a map.

    If it reads a small table whose rows are at their owners, the result is replicated.
    """
    new, place = level.stream(source)
    mapped_ref = level.add(plan.Linear(new, mfp), map_placement(place, mfp))
    node = level.nodes[source]
    if isinstance(node, plan.Source) and level.tables.partition_column(node.table) is None:
        return level.replicate(mapped_ref)
    return mapped_ref


def _place_user_node(level: Level, node: user.Node) -> Ref:
    match node:
        case user.Input(types=types):
            return level.add(node, Placement(by=frozenset({0})) if types else WORKER_0)
        case user.UserReduce(input=source, key=key):
            return _place_by_group(level, node, source, key)
        case user.Apply(input=source) | user.EnterAt(input=source):
            new = level.partition(level.stream(source)[0])
            place = level.placements[new]
            return level.add(
                plan.renumber_inputs(node, lambda _: new), WORKER_0 if place.at_worker_0 else PARTITIONED
            )
        case user.Custom(inputs=sources):
            brought = {source: level.move_to_worker_0(level.stream(source)[0]) for source in sources}
            result = level.add(plan.renumber_inputs(node, brought.__getitem__), WORKER_0)
            return level.add(Exchange(result, Route.FIRST, held=True), WORKER_0)
        case user.Sink(input=source):
            new = level.partition(level.stream(source)[0])
            return level.add(plan.renumber_inputs(node, lambda _: new), level.placements[new])
        case _:
            assert_never(node)


def _partition_large(level: Level, new: Ref) -> Ref:
    """Return the rows unchanged, but each worker's share of those of a large table."""
    return level.partition(new) if level.placements[new].large else new


def _place_rows_by_value(level: Level, new: Ref) -> Ref:
    """Return the rows partitioned so that equal rows meet at one worker."""
    new = level.partition(new)
    place = level.placements[new]
    return new if place.by or place.at_worker_0 or place.stable else level.move_to_owners(new, 0)


def _partitioned_stream(level: Level, source: Ref) -> tuple[Ref, Placement]:
    new = _partition_large(level, level.stream(source)[0])
    return new, level.placements[new]


def _keep_leading_keys(place: Placement, width: int) -> Placement:
    """Return the placement of rows after a projection to their first ``width`` columns."""
    if place.replicated or place.at_worker_0:
        return place
    return Placement(
        by=frozenset[PartitionKey](key for key in place.by if isinstance(key, int) and key < width)
    )


def _place_concat(level: Level, sources: Sequence[Ref], ref: Ref) -> Ref:
    news = [level.stream(source)[0] for source in sources]
    if all(level.placements[new].replicated and not level.placements[new].large for new in news):
        return level.add(plan.Concat(tuple(news)), REPLICATED)
    parted = _align_inputs(level, news)
    place = concat_placement([level.placements[new] for new in parted])
    if not place.by and not place.at_worker_0 and level.can_fail and any(map(level.has_negation, sources)):
        # A failed row and its negation cancel only at one worker.
        if level.width(ref):
            place = Placement(by=frozenset({0}))
            parted = [_move_to(level, new, place) for new in news]
        else:
            parted, place = [level.move_to_worker_0(new) for new in news], WORKER_0
    return level.add(plan.Concat(tuple(parted)), place)


def _align_inputs(level: Level, news: Sequence[Ref]) -> list[Ref]:
    """Return the streams with each row at one worker.

    Replicated streams are partitioned as the others are.
    """
    places = [level.placements[new] for new in news if not level.placements[new].replicated]
    columns = [key for key in concat_placement(places).by if isinstance(key, int)] if places else []
    if not columns or all(place.at_worker_0 for place in places):
        return [level.partition(new) for new in news]
    place = Placement(by=frozenset({min(columns)}))
    return [_move_to(level, new, place) if level.placements[new].replicated else new for new in news]


def _move_to(level: Level, new: Ref, place: Placement) -> Ref:
    (column,) = (key for key in place.by if isinstance(key, int))
    return (
        level.move_to_owners(new, column)
        if level.placements[new].large
        else enforce_placement(level, new, place)
    )


def enforce_placement(level: Level, new: Ref, place: Placement) -> Ref:
    """Return the rows at exactly this placement, whether they were replicated or not."""
    current = level.placements[new]
    if place.at_worker_0:
        return (
            new
            if current.at_worker_0
            else level.add(Exchange(new, Route.FIRST, held=current.replicated), WORKER_0)
        )
    (column,) = (key for key in place.by if isinstance(key, int))
    if column in current.by:
        return new
    return level.add(Exchange(new, Route.OWNER, column, held=current.replicated), place)


def _place_reduce(level: Level, node: plan.Reduce, preferred: int | None) -> Ref:
    new, _ = level.stream(node.input)
    new = level.colocate_groups(new, node.key, preferred, _combine(node))
    place = level.placements[new]
    if node.key or place.replicated:
        return level.add(plan.renumber_inputs(node, lambda _: new), _keep_leading_keys(place, node.key))
    # A global aggregate has a row at every worker, even over no rows. Only worker 0's is the result.
    everywhere = level.add(plan.renumber_inputs(node, lambda _: new), REPLICATED)
    return level.add(Exchange(everywhere, Route.FIRST, held=True), WORKER_0)


def _combine(node: plan.Reduce) -> Combine | None:
    """Return how rows can be pre-aggregated before they are sent, or None if that is not exact.

    It is exact for counts and for sums of integers and decimals.
    """
    summed = []
    for aggregate in node.aggregates:
        match lookup_aggregate(aggregate.function).accumulator:
            case AccumulatorKind.COUNT:
                pass
            case AccumulatorKind.SUM if not aggregate.type.is_float and not aggregate.type.is_interned:
                assert aggregate.argument is not None
                summed.append(aggregate.argument)
            case _:
                return None
    if any(column < node.key for column in summed):
        return None
    return Combine(node.key, tuple(dict.fromkeys(summed)))


def _place_by_row(
    level: Level, kind: type[plan.Distinct] | type[plan.Threshold], source: Ref, ref: Ref
) -> Ref:
    new, _ = level.stream(source)
    width = level.width(source)
    new = level.colocate_groups(new, width, level.votes.best_column(ref))
    return level.add(kind(new), level.placements[new])


def _place_topk(level: Level, node: plan.TopK) -> Ref:
    """Place a TopK.

    If groups span workers, each worker sends only its local top rows.
    """
    arrangement = level.place_arrangement(node.input, _partition_large)
    place = level.placements[arrangement]
    is_colocated = place.replicated or place.at_worker_0
    is_colocated = is_colocated or any(isinstance(key, int) and key < node.group for key in place.by)
    if is_colocated:
        return level.add(
            plan.renumber_inputs(node, lambda _: arrangement), _keep_leading_keys(place, node.group)
        )
    # Paths of a join may end at different workers, so one worker may have negations of another's rows.
    is_unstable = not (place.by or (place.stable and not _is_large(level, node.input)))
    if node.limit is None or level.outer is not None or (is_unstable and node.group):
        return _place_by_group(level, node, node.input, node.group)
    if is_unstable:
        arrangement = level.place_arrangement(node.input, _place_rows_by_value)
        place = level.placements[arrangement]
    local = plan.TopK(arrangement, node.group, node.limit + node.offset, 0, node.exact)
    local_top = level.add(local, place)
    brought = level.colocate_groups(local_top, node.group, 0)
    rearranged = level.add(plan.Arrange(brought, node.group), level.placements[brought])
    place = _keep_leading_keys(level.placements[brought], node.group)
    return level.add(plan.renumber_inputs(node, lambda _: rearranged), place)


def _is_large(level: Level, arrangement: Ref) -> bool:
    """Return whether an arrangement is of a large table's replicated rows."""
    node = level.nodes[arrangement]
    return isinstance(node, plan.Arrange) and level.stream(node.input)[1].large


def _place_by_group(level: Level, node: AnyNode, source: Ref, group: int, width: int | None = 0) -> Ref:
    """Place a node that reads the groups of an arrangement.

    With ``width`` None it keeps all columns.
    """
    arrangement = level.place_arrangement(source, lambda lower, new: lower.colocate_groups(new, group, 0))
    place = level.placements[arrangement]
    kept = place if width is None else _keep_leading_keys(place, group)
    return level.add(plan.renumber_inputs(node, lambda _: arrangement), kept)


def _place_stream_by_group(level: Level, node: plan.Fold | plan.Single, source: Ref, key: int) -> Ref:
    new, _ = level.stream(source)
    new = level.colocate_groups(new, key, 0)
    place = level.placements[new]
    kept = place if isinstance(node, plan.Single) else _keep_leading_keys(place, key)
    return level.add(plan.renumber_inputs(node, lambda _: new), kept)


def _place_range_join(level: Level, node: plan.RangeJoin) -> Ref:
    if node.key:
        left = level.place_arrangement(node.left, move_to_owners_of_first)
        right = level.place_arrangement(node.right, move_to_owners_of_first)
    else:
        left = level.place_arrangement(node.left, _partition_large)
        right = level.place_arrangement(node.right, lambda lower, new: lower.replicate(new))
    place = level.placements[left]
    if node.key and place.replicated and not level.placements[right].replicated:
        place = Placement(by=frozenset({0}))
    moved = {node.left: left, node.right: right}
    new = plan.RangeJoin(moved[node.left], moved[node.right], node.key, node.comparison, node.mfp)
    return level.add(new, map_placement(place, node.mfp))


def place_delta_join(level: Level, node: plan.DeltaJoin) -> Ref:
    """Add the join, with exchanges on its paths where rows look up an arrangement at another worker."""
    paths = plan.paths_of(level.nodes, node)
    if all(level.placements[level.stream(path.delta.input)[0]].at_worker_0 for path in paths):
        return level.add(
            plan.DeltaJoin(tuple(_place_path_at_worker_0(level, path) for path in paths)), WORKER_0
        )
    replicate_inputs = level.replicates_inputs and not all(
        level.placements[_path_input(level, path, replicate_inputs=True)].replicated for path in paths
    )
    ends = [_place_path(level, path, partition=False, replicate_inputs=replicate_inputs) for path in paths]
    if all(level.placements[end].replicated for end in ends):
        return level.add(plan.DeltaJoin(tuple(ends)), REPLICATED)
    # Matches of replicated rows with replicated rows would occur at every worker.
    ends = [
        _place_path(level, path, partition=True, replicate_inputs=False)
        if level.placements[end].replicated
        else end
        for path, end in zip(paths, ends, strict=True)
    ]
    return level.add(plan.DeltaJoin(tuple(ends)), concat_placement([level.placements[end] for end in ends]))


def _path_input(level: Level, path: plan.DeltaPath, *, replicate_inputs: bool) -> Ref:
    """Return the input of a path.

    With ``replicate_inputs``, an input from outside the loop is replicated.
    """
    new, place = level.stream(path.delta.input)
    node = level.new_nodes[new]
    if not replicate_inputs or place.replicated or not isinstance(node, plan.Enter) or level.outer is None:
        return new
    entered = level.outer.replicate(node.input)
    return level.add(plan.Enter(entered), level.outer.placements[entered])


def _place_path(level: Level, path: plan.DeltaPath, *, partition: bool, replicate_inputs: bool) -> Ref:
    new = _path_input(level, path, replicate_inputs=replicate_inputs)
    stays = replicate_inputs and level.placements[new].replicated
    # Replicated rows find each worker's part of an arrangement wherever it is, so it need not move.
    arrangements, replicated = list[Ref](), stays or (not partition and level.placements[new] == REPLICATED)
    for half in path.half_joins:
        arrangements.append(
            _place_lookup_arrangement(level, half, replicate_inputs=replicate_inputs, replicated=replicated)
        )
        replicated = replicated and level.placements[arrangements[-1]].replicated
    if partition:
        new = level.partition(new)
    elif level.placements[new].large and not stays:
        replicated = bool(arrangements) and level.placements[arrangements[0]].replicated
        key = path.half_joins[0].key if arrangements else ()
        share = None if replicated or not key else level.partition_before_map(new, path.delta.mfp, key[0])
        new = level.partition(new) if share is None else share
    here = level.add(plan.Delta(new, path.delta.mfp), map_placement(level.placements[new], path.delta.mfp))
    width = len(path.delta.mfp.outputs)
    for half, arrangement in zip(path.half_joins, arrangements, strict=True):
        here = _move_to_lookup(level, here, half, level.placements[arrangement])
        place = _match_placement(level.placements[here], half, level.placements[arrangement], width)
        joined = plan.HalfJoin(here, arrangement, half.start, half.relation, half.key, half.mfp)
        here = level.add(joined, map_placement(place, half.mfp))
        width = len(half.mfp.outputs)
    return here


def _place_path_at_worker_0(level: Level, path: plan.DeltaPath) -> Ref:
    """Place a path between relations that are all at worker 0."""
    new, _ = level.stream(path.delta.input)
    here = level.add(plan.Delta(new, path.delta.mfp), WORKER_0)
    for half in path.half_joins:
        there = level.place_arrangement(half.arrangement, lambda lower, found: lower.move_to_worker_0(found))
        joined = plan.HalfJoin(here, there, half.start, half.relation, half.key, half.mfp)
        here = level.add(joined, WORKER_0)
    return here


def _place_lookup_arrangement(
    level: Level, half: plan.HalfJoin, *, replicate_inputs: bool, replicated: bool
) -> Ref:
    """Place an arrangement that a path looks up, at the owners of its keys.

    Args:
      level: the level of the join.
      half: the half-join that looks it up.
      replicate_inputs: whether inputs from outside the loop are replicated.
      replicated: whether the rows that look it up are replicated, so that any partitioning will do.
    """

    def move(lower: Level, new: Ref) -> Ref:
        place = lower.placements[new]
        if replicate_inputs and (place.replicated or lower is not level):
            return lower.replicate(new)
        if replicated and (place.by or place.at_worker_0):
            return new
        if replicated and place.large and half.key:
            return lower.partition(new)  # avoids skew by a frequent key
        return lower.move_to_owners(new, 0) if half.key else lower.replicate(new)

    return level.place_arrangement(half.arrangement, move)


def _move_to_lookup(level: Level, here: Ref, half: plan.HalfJoin, there: Placement) -> Ref:
    """Move the rows of a path to the worker whose arrangement they look up."""
    place = level.placements[here]
    if there.replicated or place.replicated or half.key[0] in place.by:
        return here
    column = half.key[0]
    return level.add(Exchange(here, Route.OWNER, column), Placement(by=frozenset({column})))


def _match_placement(place: Placement, half: plan.HalfJoin, there: Placement, width: int) -> Placement:
    """Return the placement of matches: rows of ``width`` columns, followed by those of an arrangement."""
    if place.replicated and there.replicated:
        return REPLICATED
    by: set[PartitionKey] = set(place.by)
    if not there.replicated:
        by |= {_shift_key(key, width) for key in there.by}
        by |= {column for at, column in enumerate(half.key) if at in there.by}
    by |= {width + at for at, column in enumerate(half.key) if column in by}
    return Placement(by=frozenset(by))


def _shift_key(key: PartitionKey, width: int) -> PartitionKey:
    return key + width if isinstance(key, int) else (key[0], key[1], key[2] + width)


MAX_SEARCHED_RELATIONS: Final = 4
"""Maximum number of recursive relations of a loop for which several placements are compared."""
NON_SELECTIVE: Final = frozenset({"is_not_null", "ne", "lt", "le", "gt", "ge"})
"""Predicates on a column that usually leave about as many distinct values as there were."""


def place_loop_node(level: Level, ref: Ref, node: plan.Enter | plan.Variable | plan.Loop | plan.Leave) -> Ref:
    """Place a loop, or a node that connects it with its surroundings."""
    match node:
        case plan.Enter(input=source):
            return _place_enter(level, ref, source)
        case plan.Variable(index=index):
            return _place_variable(level, node, level.variables[index])
        case plan.Loop():
            return _place_loop(level, ref, node)
        case plan.Leave(loop=loop, result=result):
            new, _ = level.stream(loop)
            return level.add(plan.Leave(new, result), level.loops[loop][1][result])
        case _:
            assert_never(node)


def _place_enter(level: Level, ref: Ref, source: Ref) -> Ref:
    assert level.outer is not None
    new, place = level.outer.stream(source)
    if place.large and not level.replicates_inputs:
        wished = level.votes.best_column(ref)
        new = level.outer.partition(new) if wished is None else level.outer.move_to_owners(new, wished)
    return level.add(plan.Enter(new), level.outer.placements[new])


def _place_variable(level: Level, node: plan.Variable, place: Placement) -> Ref:
    initial = node.initial
    if initial is not None:
        initial = enforce_placement(level, level.stream(initial)[0], place)
    return level.add(plan.Variable(node.index, node.types, initial), place)


@dataclass(frozen=True, slots=True)
class _LoopPlacement:
    """A candidate placement of a loop, with the placements of its results."""

    loop: plan.Loop
    body_placements: tuple[Placement, ...]
    results: tuple[Placement, ...]
    cost: int


def _place_loop(level: Level, ref: Ref, node: plan.Loop) -> Ref:
    """Partition each recursive relation by the column that is looked up most, or by a cheaper one."""
    wishes = level.votes.bodies[ref]
    by = [wishes.best_column(result) or 0 for result in node.results]
    best = _try_placement(level, ref, node, by, replicate_inputs=False)
    if len(by) <= MAX_SEARCHED_RELATIONS and not any(isinstance(inner, plan.Loop) for inner in node.body):
        widths = _result_widths(node)
        for place in range(len(by)):
            for column in (by[place], *(other for other in range(widths[place]) if other != by[place])):
                candidate = [*by[:place], column, *by[place + 1 :]]
                found = _try_placement(level, ref, node, candidate, replicate_inputs=True)
                if found is not None and best is not None and found.cost < best.cost:
                    best, by = found, candidate
    assert best is not None
    loop_ref = level.add(best.loop, PARTITIONED)
    level.bodies[loop_ref] = best.body_placements
    level.loops[ref] = loop_ref, best.results
    return loop_ref


def _result_widths(node: plan.Loop) -> list[int]:
    found = {inner.index: len(inner.types) for inner in node.body if isinstance(inner, plan.Variable)}
    return [found.get(index, 0) for index in range(len(node.results))]


def _try_placement(
    level: Level, ref: Ref, node: plan.Loop, by: Sequence[int], *, replicate_inputs: bool
) -> _LoopPlacement | None:
    """Return the loop with its recursive relations partitioned by the columns ``by``.

    Returns None if one worker might do most of the work.

    With ``replicate_inputs``, each worker has all rows that the loop reads from outside.
    """
    wishes, widths, before = level.votes.bodies[ref], _result_widths(node), len(level.new_nodes)
    variables = [
        Placement(by=frozenset({column})) if width else WORKER_0
        for column, width in zip(by, widths, strict=True)
    ]
    body = Level(
        node.body,
        level.tables,
        wishes,
        place_node,
        outer=level,
        variables=variables,
        loop=ref,
        replicates_inputs=replicate_inputs,
    )
    results = []
    for index, result in enumerate(node.results):
        new, _ = body.stream(result)
        if widths[index]:
            new = enforce_placement(body, new, variables[index])
        results.append(new)
    for inner, found in enumerate(node.body):
        if has_sink(found):
            body.stream(inner)
    nodes, places, _, at = select_needed(body, results)
    if replicate_inputs:
        for index, new in enumerate(results):
            if (
                widths[index]
                and not _is_redistributed(body, new)
                and not _has_many_values(body, node.results[index], by[index])
            ):
                return None
    loop = plan.Loop(nodes, tuple(at[new] for new in results), node.limit, node.error_at_limit)
    outside = sum(
        isinstance(literal, Exchange) and literal.route is Route.EVERYWHERE
        for literal in level.new_nodes[before:]
    )
    return _LoopPlacement(
        loop, places, tuple(body.placements[new] for new in results), outside + sum(map(_cost, nodes))
    )


def _cost(node: plan.AnyNode) -> int:
    """Return the approximate cost of a node of a loop body per round."""
    if isinstance(node, Exchange):
        return 0 if node.held else 2
    return int(isinstance(node, plan.Arrange))


def _is_redistributed(body: Level, new: Ref) -> bool:
    """Return whether the rows reach their worker through an exchange by value."""
    node = body.new_nodes[new]
    if isinstance(node, Exchange):
        return not node.held
    if isinstance(node, plan.Concat | plan.Variable | plan.Enter | plan.Loop):
        return False
    return any(_is_redistributed(body, below) for below in plan.inputs(node))


def _has_many_values(level: Level, ref: Ref, column: int) -> bool:
    """Return whether a column of an old node surely has many distinct values, as those of a large table.

    The rounds of a recursive relation derive no values that its initial rows lack.
    """
    node = level.nodes[ref]
    match node:
        case plan.Source(table=table):
            return column == 0 and level.tables.partition_column(table) is not None
        case plan.Linear(input=below, mfp=mfp):
            output = mfp.outputs[column]
            if any(_is_selective(one, output) for one in mfp.predicates):
                return False
            if isinstance(output, Fetch):
                return isinstance(output.rowid, Column) and _has_many_values(level, below, output.rowid.index)
            return isinstance(output, Column) and _has_many_values(level, below, output.index)
        case plan.Distinct(input=below) | plan.Threshold(input=below) | plan.Arrange(input=below):
            return _has_many_values(level, below, column)
        case plan.Reduce(input=below, key=key) | plan.TopK(input=below, group=key):
            return column < key and _has_many_values(level, below, column)
        case plan.Concat(inputs=inputs):
            return all(_has_many_values(level, below, column) for below in inputs)
        case plan.Enter(input=below):
            return level.outer is not None and _has_many_values(level.outer, below, column)
        case plan.Variable(initial=initial):
            return initial is None or _has_many_values(level, initial, column)
        case plan.DeltaJoin():
            return any(isinstance(one, plan.Variable) for one in _nodes_below(level, ref))
        case plan.Import(view=view):
            return not level.tables.view_placement(view).replicated
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


def _nodes_below(level: Level, ref: Ref) -> Iterator[plan.AnyNode]:
    """Yield the old nodes of the level from which a node is computed, including itself."""
    seen, stack = set[Ref](), [ref]
    while stack:
        here = stack.pop()
        if here not in seen:
            seen.add(here)
            yield level.nodes[here]
            if not isinstance(level.nodes[here], plan.Enter | plan.Variable):
                stack += plan.inputs(level.nodes[here])


def _is_selective(predicate: Scalar, column: Scalar) -> bool:
    """Return whether a filter may leave few distinct values of ``column``."""
    if isinstance(predicate, Call) and predicate.function in NON_SELECTIVE:
        return False
    return set(_columns_read(predicate)) == {column}


def _columns_read(scalar: Scalar) -> Iterator[Scalar]:
    """Yield the columns and fetched columns that a scalar reads."""
    if isinstance(scalar, Column | Fetch):
        yield scalar
    else:
        for child in children(scalar):
            yield from _columns_read(child)


def place(query: Plan, tables: Tables) -> PlacedPlan:
    """Return the plan with exchanges where its nodes need them."""
    level = Level(query.nodes, tables, LookupVotes(query.nodes), place_node)
    output, _ = level.stream(query.output)
    if _has_exchanged_rows(level.new_nodes, output):
        output = level.arrange(output, level.width(query.output))
    for ref, node in enumerate(query.nodes):
        if has_sink(node):
            level.stream(ref)
    nodes, places, bodies, at = select_needed(level, (output,))
    check_early_materialization(nodes, tables)
    return PlacedPlan(Plan(nodes, at[output]), places, bodies)


def _has_exchanged_rows(nodes: Sequence[AnyNode], ref: Ref) -> bool:
    """Return whether some of a node's rows come from an exchange, which keeps no state."""
    node = nodes[ref]
    if isinstance(node, plan.Concat):
        return any(_has_exchanged_rows(nodes, source) for source in node.inputs)
    if isinstance(node, plan.Linear | plan.Negate):
        return _has_exchanged_rows(nodes, node.input)
    return isinstance(node, Exchange) and (not node.held or _has_exchanged_rows(nodes, node.input))
