"""Delta joins when many workers run them: changes go on their path from one owner of a key to the next."""

from kpg.compiler.physical.placement import (
    FIRST,
    HELD,
    Key,
    Level,
    Placement,
    mapped,
    summed,
)
from kpg.runtime import plan
from kpg.runtime.plan import Exchange, Ref, Route


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
