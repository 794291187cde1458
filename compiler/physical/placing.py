"""What each kind of node needs of where rows are, and where it has them itself."""

from collections.abc import Sequence
from typing import assert_never

from kpg.compiler.physical.placement import (
    FIRST,
    HELD,
    LOOSE,
    PARTED,
    Key,
    Level,
    Placement,
    mapped,
    negated,
    owned_by_first,
    summed,
)
from kpg.runtime import plan
from kpg.runtime.errors import InternalError
from kpg.runtime.functions import AccumulatorKind, aggregate_named
from kpg.runtime.plan import AnyNode, Combine, Exchange, Mfp, Ref, Route, user


def placed(level: Level, ref: Ref, node: AnyNode) -> Ref:
    """The node in the level's new list, with what it needs before it."""
    if isinstance(node, user.Node):
        return _of_users(level, node)
    if isinstance(node, plan.Enter | plan.Variable | plan.Loop | plan.Leave):
        from kpg.compiler.physical.placed_loops import of_loops

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
            from kpg.compiler.physical.placed_joins import delta_join

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
