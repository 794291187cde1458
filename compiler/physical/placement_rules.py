"""Placement rules per kind of node: the placement that each input needs and the one that the output has.

In a delta join, changes move along their path from one owner of a key to the next.

In a loop, recursive relations are parted and the other inputs are placed where the rounds read them. Each
worker usually has its share of those inputs. If every worker has all of them instead, fewer rows move: in the
closure p(x, z) :- p(x, y), e(y, z) a row stays with the owner of x, because all edges are there. A loop is
placed in both ways, and for each column that can part its recursive relations. The plan that sends least
wins.
"""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from kpg.compiler.physical.placement import (
    FIRST,
    HELD,
    LOOSE,
    PARTED,
    Key,
    Level,
    Placed,
    Placement,
    Tables,
    Wishes,
    check_early,
    listens,
    mapped,
    needed,
    negated,
    owned_by_first,
    summed,
)
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import AccumulatorKind, aggregate_named
from kpg.runtime.plan import AnyNode, Combine, Exchange, Mfp, Plan, Ref, Route, user
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Fetch, Scalar, children


def placed(level: Level, ref: Ref, node: AnyNode) -> Ref:
    """The node in the level's new list, with what it needs before it."""
    if isinstance(node, user.Node):
        return _of_users(level, node)
    if isinstance(node, plan.Enter | plan.Variable | plan.Loop | plan.Leave):
        return of_loops(level, ref, node)
    match node:
        case plan.Source(table=table):
            return level.add(node, _of_table(level, table))
        case plan.Constant():
            return level.add(node, HELD)
        case plan.Import(view=view):
            return level.add(node, level.tables.view(view))
        case plan.Linear(input=source, mfp=mfp):
            return _linear(level, source, mfp)
        case plan.Negate(input=source):
            new, place = level.stream(source)
            return level.add(plan.Negate(new), negated(place))
        case plan.Concat(inputs=sources):
            return _concat(level, sources, ref)
        case plan.Arrange():
            # What has come by an input is not to be had again: who looks it up later shares its index.
            owned = level.wishes.of(ref) == 0 or any(isinstance(one, user.Input) for one in level.nodes)
            return level.arranged(ref, owned_by_first if owned else _parted)
        case plan.Reduce():
            return _reduce(level, node, level.wishes.of(ref))
        case plan.Distinct(input=source):
            return _whole_rows(level, plan.Distinct, source, ref)
        case plan.Threshold(input=source):
            return _whole_rows(level, plan.Threshold, source, ref)
        case plan.TopK():
            return _top_k(level, node)
        case plan.BasicReduce(input=source, key=key):
            return _of_groups(level, node, source, key)
        case plan.Window(input=source, partition=partition):
            return _of_groups(level, node, source, partition, width=None)
        case plan.Fold(input=source, key=key) | plan.Single(input=source, key=key):
            return _of_stream(level, node, source, key)
        case plan.Expand(input=source, kept=width):
            new, place = _not_loose(level, source)
            return level.add(plan.moved(node, lambda _: new), _narrowed(place, width))
        case plan.Ego(sources=sources):
            brought = {source: level.first(level.stream(source)[0]) for source in sources}
            return level.add(plan.moved(node, brought.__getitem__), FIRST)
        case plan.RangeJoin():
            return _range_join(level, node)
        case plan.DeltaJoin():
            return delta_join(level, node)
        case plan.Delta() | plan.HalfJoin():
            raise InternalError(f"{type(node).__name__} is placed with its join")
        case plan.Exchange():
            raise InternalError("a plan with exchanges is placed again")
        case _:
            assert_never(node)


def _of_table(level: Level, table: str) -> Placement:
    owner = level.tables.owner(table)
    if owner is not None:
        return Placement(by=frozenset[Key]({(table, owner, 0)}), steady=True)
    return HELD if level.tables.home(table) is None else LOOSE


def _linear(level: Level, source: Ref, mfp: Mfp) -> Ref:
    """Of a small table whose rows are at their owners what is read goes to all workers."""
    new, place = level.stream(source)
    made = level.add(plan.Linear(new, mfp), mapped(place, mfp))
    node = level.nodes[source]
    if isinstance(node, plan.Source) and level.tables.home(node.table) is None:
        return level.everywhere(made)
    return made


def _of_users(level: Level, node: user.Node) -> Ref:
    match node:
        case user.Input(types=types):
            return level.add(node, Placement(by=frozenset({0})) if types else FIRST)
        case user.UserReduce(input=source, key=key):
            return _of_groups(level, node, source, key)
        case user.Apply(input=source) | user.EnterAt(input=source):
            new = level.parted(level.stream(source)[0])
            place = level.places[new]
            return level.add(plan.moved(node, lambda _: new), FIRST if place.first else PARTED)
        case user.Custom(inputs=sources):
            brought = {source: level.first(level.stream(source)[0]) for source in sources}
            made = level.add(plan.moved(node, brought.__getitem__), FIRST)
            return level.add(Exchange(made, Route.FIRST, held=True), FIRST)
        case user.Sink(input=source):
            new = level.parted(level.stream(source)[0])
            return level.add(plan.moved(node, lambda _: new), level.places[new])
        case _:
            assert_never(node)


def _parted(level: Level, new: Ref) -> Ref:
    """Rows as they are, if they are parted or all of them are held for good."""
    return level.parted(new) if level.places[new].loose else new


def _at_owners(level: Level, new: Ref) -> Ref:
    """Each row at one worker, for which it only matters what row it is."""
    new = level.parted(new)
    place = level.places[new]
    return new if place.by or place.first or place.steady else level.owned(new, 0)


def _not_loose(level: Level, source: Ref) -> tuple[Ref, Placement]:
    new = _parted(level, level.stream(source)[0])
    return new, level.places[new]


def _narrowed(place: Placement, width: int) -> Placement:
    """Where rows are of which the first columns are kept."""
    if place.held or place.first:
        return place
    return Placement(by=frozenset[Key](key for key in place.by if isinstance(key, int) and key < width))


def _concat(level: Level, sources: Sequence[Ref], ref: Ref) -> Ref:
    news = [level.stream(source)[0] for source in sources]
    if all(level.places[new].held and not level.places[new].loose for new in news):
        return level.add(plan.Concat(tuple(news)), HELD)
    parted = _beside(level, news)
    place = summed([level.places[new] for new in parted])
    if not place.by and not place.first and level.fails and any(map(level.takes_away, sources)):
        # A row that has failed is forgotten where it is taken away again: they have to meet.
        if level.widths(ref):
            place = Placement(by=frozenset({0}))
            parted = [_at(level, new, place) for new in news]
        else:
            parted, place = [level.first(new) for new in news], FIRST
    return level.add(plan.Concat(tuple(parted)), place)


def _beside(level: Level, news: Sequence[Ref]) -> list[Ref]:
    """Each row at one worker: what all have goes where the others' rows are, if these have a place."""
    places = [level.places[new] for new in news if not level.places[new].held]
    columns = [key for key in summed(places).by if isinstance(key, int)] if places else []
    if not columns or all(place.first for place in places):
        return [level.parted(new) for new in news]
    place = Placement(by=frozenset({min(columns)}))
    return [_at(level, new, place) if level.places[new].held else new for new in news]


def _at(level: Level, new: Ref, place: Placement) -> Ref:
    (column,) = (key for key in place.by if isinstance(key, int))
    return level.owned(new, column) if level.places[new].loose else strictly(level, new, place)


def strictly(level: Level, new: Ref, place: Placement) -> Ref:
    """Rows at one place, held or not before."""
    now = level.places[new]
    if place.first:
        return new if now.first else level.add(Exchange(new, Route.FIRST, held=now.held), FIRST)
    (column,) = (key for key in place.by if isinstance(key, int))
    if column in now.by:
        return new
    return level.add(Exchange(new, Route.OWNER, column, held=now.held), place)


def _reduce(level: Level, node: plan.Reduce, wished: int | None) -> Ref:
    new, _ = level.stream(node.input)
    new = level.together(new, node.key, wished, _combine(node))
    place = level.places[new]
    if node.key or place.held:
        return level.add(plan.moved(node, lambda _: new), _narrowed(place, node.key))
    # Its one row is there over no rows, too: what other workers have of it is none.
    everywhere = level.add(plan.moved(node, lambda _: new), HELD)
    return level.add(Exchange(everywhere, Route.FIRST, held=True), FIRST)


def _combine(node: plan.Reduce) -> Combine | None:
    """How rows are added up before they are sent, if that is exact: counts, and sums of whole numbers."""
    summed = []
    for aggregate in node.aggregates:
        match aggregate_named(aggregate.function).accumulator:
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


def _whole_rows(level: Level, kind: type[plan.Distinct] | type[plan.Threshold], source: Ref, ref: Ref) -> Ref:
    new, _ = level.stream(source)
    width = level.widths(source)
    new = level.together(new, width, level.wishes.of(ref))
    return level.add(kind(new), level.places[new])


def _top_k(level: Level, node: plan.TopK) -> Ref:
    """Of rows that are at several workers each first finds its own top: only these are sent."""
    arrangement = level.arranged(node.input, _parted)
    place = level.places[arrangement]
    here = place.held or place.first
    here = here or any(isinstance(key, int) and key < node.group for key in place.by)
    if here:
        return level.add(plan.moved(node, lambda _: arrangement), _narrowed(place, node.group))
    # Where paths of a join end at different workers, one may have what is to be taken from another's rows.
    scattered = not (place.by or (place.steady and not _is_loose(level, node.input)))
    if node.limit is None or level.outer is not None or (scattered and node.group):
        return _of_groups(level, node, node.input, node.group)
    if scattered:
        arrangement = level.arranged(node.input, _at_owners)
        place = level.places[arrangement]
    local = plan.TopK(arrangement, node.group, node.limit + node.offset, 0, node.exact)
    mine = level.add(local, place)
    brought = level.together(mine, node.group, 0)
    again = level.add(plan.Arrange(brought, node.group), level.places[brought])
    place = _narrowed(level.places[brought], node.group)
    return level.add(plan.moved(node, lambda _: again), place)


def _is_loose(level: Level, arrangement: Ref) -> bool:
    """Whether an arrangement is of rows that all hold: those of some groups are at hand then."""
    node = level.nodes[arrangement]
    return isinstance(node, plan.Arrange) and level.stream(node.input)[1].loose


def _of_groups(level: Level, node: AnyNode, source: Ref, group: int, width: int | None = 0) -> Ref:
    """What reads the groups of an arrangement; ``width`` None: it keeps all of its columns."""
    arrangement = level.arranged(source, lambda lower, new: lower.together(new, group, 0))
    place = level.places[arrangement]
    kept = place if width is None else _narrowed(place, group)
    return level.add(plan.moved(node, lambda _: arrangement), kept)


def _of_stream(level: Level, node: plan.Fold | plan.Single, source: Ref, key: int) -> Ref:
    new, _ = level.stream(source)
    new = level.together(new, key, 0)
    place = level.places[new]
    kept = place if isinstance(node, plan.Single) else _narrowed(place, key)
    return level.add(plan.moved(node, lambda _: new), kept)


def _range_join(level: Level, node: plan.RangeJoin) -> Ref:
    if node.key:
        left = level.arranged(node.left, owned_by_first)
        right = level.arranged(node.right, owned_by_first)
    else:
        left = level.arranged(node.left, _parted)
        right = level.arranged(node.right, lambda lower, new: lower.everywhere(new))
    place = level.places[left]
    if node.key and place.held and not level.places[right].held:
        place = Placement(by=frozenset({0}))
    moved = {node.left: left, node.right: right}
    new = plan.RangeJoin(moved[node.left], moved[node.right], node.key, node.comparison, node.mfp)
    return level.add(new, mapped(place, node.mfp))


def delta_join(level: Level, node: plan.DeltaJoin) -> Ref:
    """The join with exchanges on its paths, where rows have to look up what is at another worker."""
    paths = plan.paths_of(level.nodes, node)
    if all(level.places[level.stream(path.delta.input)[0]].first for path in paths):
        return level.add(plan.DeltaJoin(tuple(_at_first(level, path) for path in paths)), FIRST)
    whole = level.whole and not all(level.places[_stream(level, path, whole=True)].held for path in paths)
    ends = [_path(level, path, parted=False, whole=whole) for path in paths]
    if all(level.places[end].held for end in ends):
        return level.add(plan.DeltaJoin(tuple(ends)), HELD)
    # Rows that all have, matched with what all have, would come out at each of them.
    ends = [
        _path(level, path, parted=True, whole=False) if level.places[end].held else end
        for path, end in zip(paths, ends, strict=True)
    ]
    return level.add(plan.DeltaJoin(tuple(ends)), summed([level.places[end] for end in ends]))


def _stream(level: Level, path: plan.Path, *, whole: bool) -> Ref:
    """What goes on a path; ``whole``: what is from outside all at each worker."""
    new, place = level.stream(path.delta.input)
    node = level.out[new]
    if not whole or place.held or not isinstance(node, plan.Enter) or level.outer is None:
        return new
    entered = level.outer.everywhere(node.input)
    return level.add(plan.Enter(entered), level.outer.places[entered])


def _path(level: Level, path: plan.Path, *, parted: bool, whole: bool) -> Ref:
    new = _stream(level, path, whole=whole)
    stays = whole and level.places[new].held
    # Rows that all have find what each worker has wherever that is: it need not be brought anywhere.
    arrangements, held = list[Ref](), stays or (not parted and level.places[new] == HELD)
    for half in path.half_joins:
        arrangements.append(_arrangement(level, half, whole=whole, held=held))
        held = held and level.places[arrangements[-1]].held
    if parted:
        new = level.parted(new)
    elif level.places[new].loose and not stays:
        held = bool(arrangements) and level.places[arrangements[0]].held
        key = path.half_joins[0].key if arrangements else ()
        share = None if held or not key else level.owned_share(new, path.delta.mfp, key[0])
        new = level.parted(new) if share is None else share
    here = level.add(plan.Delta(new, path.delta.mfp), mapped(level.places[new], path.delta.mfp))
    width = len(path.delta.mfp.outputs)
    for half, arrangement in zip(path.half_joins, arrangements, strict=True):
        here = _brought(level, here, half, level.places[arrangement])
        place = _met(level.places[here], half, level.places[arrangement], width)
        joined = plan.HalfJoin(here, arrangement, half.start, half.relation, half.key, half.mfp)
        here = level.add(joined, mapped(place, half.mfp))
        width = len(half.mfp.outputs)
    return here


def _at_first(level: Level, path: plan.Path) -> Ref:
    """A path between relations that are at worker 0, and stay there."""
    new, _ = level.stream(path.delta.input)
    here = level.add(plan.Delta(new, path.delta.mfp), FIRST)
    for half in path.half_joins:
        there = level.arranged(half.arrangement, lambda lower, found: lower.first(found))
        joined = plan.HalfJoin(here, there, half.start, half.relation, half.key, half.mfp)
        here = level.add(joined, FIRST)
    return here


def _arrangement(level: Level, half: plan.HalfJoin, *, whole: bool, held: bool) -> Ref:
    """What is looked up, at the owners of its keys.

    ``whole``: what is from outside is all at each worker. ``held``: so are the rows that look it up, each
    worker's part of it wherever that is.
    """

    def bring(lower: Level, new: Ref) -> Ref:
        place = lower.places[new]
        if whole and (place.held or lower is not level):
            return lower.everywhere(new)
        if held and (place.by or place.first):
            return new
        if held and place.loose and half.key:
            return lower.parted(new)  # a key that most rows have weighs on nobody
        return lower.owned(new, 0) if half.key else lower.everywhere(new)

    return level.arranged(half.arrangement, bring)


def _brought(level: Level, here: Ref, half: plan.HalfJoin, there: Placement) -> Ref:
    """Rows on their way where what they look up is."""
    place = level.places[here]
    if there.held or place.held or half.key[0] in place.by:
        return here
    column = half.key[0]
    return level.add(Exchange(here, Route.OWNER, column), Placement(by=frozenset({column})))


def _met(place: Placement, half: plan.HalfJoin, there: Placement, width: int) -> Placement:
    """Where pairs are: rows of ``width`` columns, then those of an arrangement."""
    if place.held and there.held:
        return HELD
    by: set[Key] = set(place.by)
    if not there.held:
        by |= {_moved(key, width) for key in there.by}
        by |= {column for at, column in enumerate(half.key) if at in there.by}
    by |= {width + at for at, column in enumerate(half.key) if column in by}
    return Placement(by=frozenset(by))


def _moved(key: Key, width: int) -> Key:
    return key + width if isinstance(key, int) else (key[0], key[1], key[2] + width)


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
    body = Level(
        node.body, level.tables, wishes, placed, outer=level, variables=variables, loop=ref, whole=whole
    )
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


def place(query: Plan, tables: Tables) -> Placed:
    """The plan with exchanges where it needs them."""
    level = Level(query.nodes, tables, Wishes(query.nodes), placed)
    output, _ = level.stream(query.output)
    if _was_sent(level.out, output):
        output = level.arrange(output, level.widths(query.output))
    for ref, node in enumerate(query.nodes):
        if listens(node):
            level.stream(ref)
    nodes, places, bodies, at = needed(level, (output,))
    check_early(nodes, tables)
    return Placed(Plan(nodes, at[output]), places, bodies)


def _was_sent(nodes: Sequence[AnyNode], ref: Ref) -> bool:
    """Whether some of a node's rows are what an exchange has sent, which keeps none."""
    node = nodes[ref]
    if isinstance(node, plan.Concat):
        return any(_was_sent(nodes, source) for source in node.inputs)
    if isinstance(node, plan.Linear | plan.Negate):
        return _was_sent(nodes, node.input)
    return isinstance(node, Exchange) and (not node.held or _was_sent(nodes, node.input))
