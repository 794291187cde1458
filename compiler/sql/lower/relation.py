"""Relations whose columns have ids, and the operators on them that lowering uses.

A join equates the ids that both inputs have: this joins a subquery, lowered over correlation values, with the
rows that they came from. A semijoin keeps the rows of ``left`` that some row of ``right`` matches, with their
multiplicities. An antijoin is ``left`` minus its semijoin. Both are built from joins, unions and negation.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import count

from kpg.compiler.algebra import facts, scalars
from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import width
from kpg.compiler.sql.bound_tree import Ids, Node, Resolved
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar, columns, remap
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, Type

DEAD = -1
"""The id of a column that nothing refers to."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A relation with the ids of its columns.

    ``keys``: sets of ids known to be unique, beyond what :func:`facts.unique_keys` can see.
    """

    rel: Rel
    ids: tuple[int, ...]
    keys: tuple[Ids, ...] = ()

    def place(self, id_: int) -> int:
        """The position of a column."""
        return self.ids.index(id_)

    def over(self, scalar: Scalar) -> Scalar:
        """A scalar over ids as a scalar over positions."""
        return remap(scalar, self.place)

    def type_of(self, id_: int) -> Type:
        """The type of a column."""
        return algebra.types(self.rel)[self.place(id_)]

    def has(self, ids: Iterable[int]) -> bool:
        """Whether all the columns are here."""
        return set(ids) <= set(self.ids)


@dataclass(slots=True)
class Lowering:
    """The state of lowering one query: shared relations so far, and supplies of ids."""

    resolved: Resolved
    lower: Callable[[Node, Lowered | None, Ids], Lowered]
    """Lowers a node over correlation values: see :mod:`kpg.compiler.sql.lower.query`."""
    lets: dict[str, Rel] = field(default_factory=dict)
    """What is bound around the relation: lets under their names, loops, without body, under any other."""
    around: "Lowering | None" = None
    """Lowers what does not depend on the ``loop`` that this one is within."""
    loop: frozenset[str] = frozenset()
    """The names of the shared queries of that loop."""
    common: dict[str, Lowered] = field(default_factory=dict)
    unfilled: set[int] = field(default_factory=set)
    """Identities of Group nodes whose rows for empty groups nobody needs."""
    ids: "count[int]" = field(default_factory=count)
    names: "count[int]" = field(default_factory=count)

    _facts: facts.Facts | None = None

    @property
    def bound(self) -> Mapping[str, Rel]:
        """The values of all lets that the relation being lowered can refer to."""
        return self.lets if self.around is None else ChainMap(self.lets, dict(self.around.bound))

    @property
    def facts(self) -> facts.Facts:
        """The facts about relations among these lets, to which only others are added: each is found once."""
        if self.around is not None:
            return facts.Facts(self.bound)
        if self._facts is None:
            self._facts = facts.Facts(self.lets)
        return self._facts

    def known(self, name: str) -> Lowered | None:
        """A shared query that is bound already, here or around."""
        if name in self.common or self.around is None:
            return self.common.get(name)
        return self.around.known(name)

    def fresh(self) -> int:
        """An id that no column has."""
        return next(self.ids)

    def let_name(self) -> str:
        """A name that no let has."""
        return f"l{next(self.names)}"

    def keys(self, lowered: Lowered) -> list[Ids]:
        """The unique keys of a relation, in ids, smallest first."""
        seen = [
            frozenset(lowered.ids[column] for column in key) for key in self.facts.unique_keys(lowered.rel)
        ]
        return sorted(
            (key for key in {*seen, *lowered.keys} if DEAD not in key), key=lambda k: (len(k), sorted(k))
        )

    def is_unique(self, lowered: Lowered, ids: Iterable[int]) -> bool:
        """Whether no two rows agree on the columns."""
        chosen = frozenset(ids)
        return any(key <= chosen for key in self.keys(lowered))

    def nullable(self, lowered: Lowered) -> dict[int, bool]:
        """For each column, whether it can be NULL."""
        return dict(zip(lowered.ids, self.facts.nullable(lowered.rel), strict=True))

    def can_be_null(self, lowered: Lowered, scalar: Scalar) -> bool:
        """Whether a scalar over the relation's ids can be NULL."""
        return scalars.can_be_null(lowered.over(scalar), self.facts.nullable(lowered.rel))

    def share(self, lowered: Lowered) -> Lowered:
        """The relation in a form that may be used several times: by name, unless it is a mere selection."""
        if _is_cheap(lowered.rel):
            return lowered
        name = self.let_name()
        self.lets[name] = lowered.rel
        return replace(lowered, rel=algebra.LocalGet(name, algebra.types(lowered.rel)))


def _is_cheap(rel: Rel) -> bool:
    while isinstance(rel, algebra.Filter | algebra.Project):
        rel = rel.input
    return isinstance(rel, algebra.Get | algebra.LocalGet | algebra.Constant)


def project(lowered: Lowered, ids: Iterable[int]) -> Lowered:
    """The chosen columns, each once, in that order; keys among them stay known."""
    chosen = tuple(dict.fromkeys(ids))
    if chosen == lowered.ids:
        return lowered
    keys = tuple(key for key in lowered.keys if key <= set(chosen))
    places = tuple(lowered.place(id_) for id_ in chosen)
    rel = lowered.rel
    if isinstance(rel, algebra.Project):
        places = tuple(rel.columns[place] for place in places)
        rel = rel.input
    if places != tuple(range(width(rel))):
        rel = algebra.Project(rel, places)
    return Lowered(rel, chosen, keys)


def keep(lowered: Lowered, ids: Ids) -> Lowered:
    """The columns among ``ids``, in the order they have."""
    return project(lowered, (id_ for id_ in lowered.ids if id_ in ids))


def narrowed(ctx: Lowering, lowered: Lowered, ids: Ids) -> Lowered:
    """The columns among ``ids`` and those of a key, which stays known."""
    keys = ctx.keys(lowered)
    narrow = keep(lowered, ids | (keys[0] if keys else frozenset()))
    return Lowered(narrow.rel, narrow.ids, tuple(key for key in keys if narrow.has(key)))


def renamed(lowered: Lowered, old: int, new: int) -> Lowered:
    """The relation with another id for a column."""
    ids = tuple(new if id_ == old else id_ for id_ in lowered.ids)
    keys = tuple(frozenset(new if id_ == old else id_ for id_ in key) for key in lowered.keys)
    return Lowered(lowered.rel, ids, keys)


def where(lowered: Lowered, predicates: Sequence[Scalar]) -> Lowered:
    """The rows that satisfy the predicates (over ids)."""
    tests = tuple(lowered.over(predicate) for predicate in predicates)
    if not tests:
        return lowered
    rel = lowered.rel
    if isinstance(rel, algebra.Join):
        return replace(lowered, rel=algebra.Join(rel.inputs, rel.on + tests))
    if isinstance(rel, algebra.Filter):
        return replace(lowered, rel=algebra.Filter(rel.input, rel.predicates + tests))
    return replace(lowered, rel=algebra.Filter(rel, tests))


def extend(lowered: Lowered, ids: Sequence[int], scalars: Sequence[Scalar]) -> Lowered:
    """The relation with more columns."""
    if not ids:
        return lowered
    rel = algebra.Map(lowered.rel, tuple(lowered.over(scalar) for scalar in scalars))
    return Lowered(rel, lowered.ids + tuple(ids), lowered.keys)


def _shifted(tests: Sequence[Scalar], by: int) -> Sequence[Scalar]:
    """The predicates over columns whose numbers are higher ``by`` so many."""
    return [remap(test, lambda column: column + by) for test in tests] if by else tests


def by_part(
    parts: Sequence[Lowered], predicates: Sequence[Scalar]
) -> tuple[list[list[Scalar]], list[Scalar]]:
    """For each part the predicates over its columns alone, and the predicates that are over no part alone."""
    own: list[list[Scalar]] = [[] for _ in parts]
    rest: list[Scalar] = []
    having: dict[int, list[int]] = {}
    for place, part in enumerate(parts if predicates else ()):
        for id_ in part.ids:
            having.setdefault(id_, []).append(place)
    for predicate in predicates:
        read = columns(predicate)
        places = having.get(min(read), []) if read else []
        places = [place for place in dict.fromkeys(places) if len(read) == 1 or parts[place].has(read)]
        for place in places:
            own[place].append(predicate)
        if not places:
            rest.append(predicate)
    return own, rest


def join(ctx: Lowering, parts: Sequence[Lowered], predicates: Sequence[Scalar] = ()) -> Lowered:
    """The inner join on the predicates (over ids) and on the ids that parts have in common.

    Predicates over one part are applied to it alone.
    """
    own, rest = by_part(parts, predicates)
    local = [where(part, tests) for part, tests in zip(parts, own, strict=True)]
    if len(local) == 1:
        return where(local[0], rest)
    inputs: list[Rel] = []
    ids: list[int] = []
    on: list[Scalar] = []
    nullable: dict[int, bool] = {}
    places: dict[int, int] = {}
    for part in local:
        flags = ctx.nullable(part)
        if isinstance(part.rel, algebra.Join):
            on += _shifted(part.rel.on, len(ids))
            inputs += part.rel.inputs
        else:
            inputs.append(part.rel)
        types = algebra.types(part.rel)
        for index, id_ in enumerate(part.ids):
            if id_ != DEAD and id_ in places:
                strict = not (nullable[id_] and flags[id_])
                pair = (Column(places[id_], types[index]), Column(len(ids), types[index]))
                on.append(Call("eq" if strict else "is_not_distinct", pair, BOOLEAN))
                ids.append(DEAD)
            else:
                places[id_] = len(ids)
                ids.append(id_)
        nullable |= flags
    joined = Lowered(algebra.Join(tuple(inputs), tuple(on)), tuple(ids))
    return where(joined, rest)


def distinct(ctx: Lowering, lowered: Lowered, ids: Iterable[int]) -> Lowered:
    """The combinations of values that the columns have, each once."""
    chosen = tuple(dict.fromkeys(ids))
    narrow = project(lowered, chosen)
    if ctx.is_unique(lowered, chosen):
        return narrow
    return Lowered(algebra.Distinct(narrow.rel), narrow.ids)


def union(parts: Sequence[Lowered]) -> Lowered:
    """The sum of relations with the same ids, which may be in different order."""
    aligned = [project(part, parts[0].ids) for part in parts]
    return Lowered(algebra.Union(tuple(part.rel for part in aligned)), parts[0].ids)


def minus(whole: Lowered, part: Lowered) -> Lowered:
    """The rows of ``whole`` that ``part``, a sub-multiset of it, has not."""
    taken = algebra.Negate(project(part, whole.ids).rel)
    return Lowered(algebra.Union((whole.rel, taken)), whole.ids, whole.keys)


def one_row(ctx: Lowering) -> Lowered:
    """One row of one column that nothing refers to."""
    return Lowered(algebra.Constant(((0,),), (INTEGER,)), (ctx.fresh(),))


def row_count(ctx: Lowering, lowered: Lowered, positive: bool) -> Lowered:
    """The number of rows: one row, only if that is positive, or only if it is zero."""
    id_ = ctx.fresh()
    counted = algebra.Reduce(lowered.rel, (), (algebra.AggregateCall("count", (), False, BIGINT),))
    test = Call("gt" if positive else "eq", (Column(id_, BIGINT), Literal(0, BIGINT)), BOOLEAN)
    return where(Lowered(counted, (id_,)), [test])


@dataclass(frozen=True, slots=True)
class Match:
    """How rows of two relations match: equal in pairs of scalars and in shared ids, and ``rest`` true."""

    pairs: tuple[tuple[Scalar, Scalar], ...]
    functions: tuple[str, ...]
    rest: tuple[Scalar, ...]
    shared: Ids


def match_of(left: Lowered, right: Lowered, predicates: Sequence[Scalar]) -> Match:
    """The predicates (over ids) sorted into equalities between the two sides and others."""
    pairs, functions, rest = [], [], []
    for predicate in predicates:
        sides = facts.equalities([predicate])
        if sides and _oriented(left, right, *sides[0]) is not None:
            pair = _oriented(left, right, *sides[0])
            assert pair is not None and isinstance(predicate, Call)
            pairs.append(pair)
            functions.append(predicate.function)
        else:
            rest.append(predicate)
    return Match(tuple(pairs), tuple(functions), tuple(rest), shared_ids(left, right))


def shared_ids(left: Lowered, right: Lowered) -> Ids:
    """The columns that both have."""
    return (frozenset(left.ids) & frozenset(right.ids)) - {DEAD}


def _oriented(left: Lowered, right: Lowered, one: Scalar, other: Scalar) -> tuple[Scalar, Scalar] | None:
    for here, there in ((one, other), (other, one)):
        if columns(here) and columns(there) and left.has(columns(here)) and right.has(columns(there)):
            return here, there
    return None


def matches_once(ctx: Lowering, right: Lowered, match: Match) -> bool:
    """Whether no left row can match two right rows."""
    fixed = {side.index for _, side in match.pairs if isinstance(side, Column)}
    return ctx.is_unique(right, fixed | match.shared)


def semijoin(
    ctx: Lowering, left: Lowered, right: Lowered, predicates: Sequence[Scalar], needed: Ids
) -> Lowered:
    """The rows of ``left`` that match, with at least the ``needed`` columns of it."""
    own = [p for p in predicates if left.has(columns(p))]
    theirs = [p for p in predicates if p not in own and right.has(columns(p))]
    both = [p for p in predicates if p not in own and p not in theirs]
    left, right = where(left, own), where(right, theirs)
    match = match_of(left, right, both)
    if not both and not match.shared:
        right = row_count(ctx, right, positive=True)
    if matches_once(ctx, right, match):
        return _with_keys(ctx, left, keep(join(ctx, [left, right], both), needed & set(left.ids)))
    if ctx.keys(left):
        kept = (needed | ctx.keys(left)[0]) & set(left.ids)
        joined = join(ctx, [left, right], both)
        return _with_keys(ctx, left, distinct(ctx, joined, (id_ for id_ in left.ids if id_ in kept)))
    if not match.rest:
        return keep(_join_values(ctx, left, right, match), needed & set(left.ids))
    used = frozenset[int]().union(*(columns(p) for p in both)) | match.shared
    values = distinct(ctx, left, (id_ for id_ in left.ids if id_ in used))
    matched = distinct(ctx, join(ctx, [values, right], both), values.ids)
    return keep(join(ctx, [left, matched]), needed & set(left.ids))


def _with_keys(ctx: Lowering, left: Lowered, result: Lowered) -> Lowered:
    keys = tuple(key for key in ctx.keys(left) if result.has(key))
    return Lowered(result.rel, result.ids, keys)


def _join_values(ctx: Lowering, left: Lowered, right: Lowered, match: Match) -> Lowered:
    """Joins with the distinct values that the right sides of the equalities have."""
    computed = [side for _, side in match.pairs if not isinstance(side, Column)]
    names = [ctx.fresh() for _ in computed]
    right = extend(right, names, computed)
    fresh = iter(names)
    sides = [side if isinstance(side, Column) else Column(next(fresh), side.type) for _, side in match.pairs]
    values = distinct(ctx, right, (*sorted(match.shared), *(side.index for side in sides)))
    tests = [
        Call(function, (here, side), BOOLEAN)
        for function, (here, _), side in zip(match.functions, match.pairs, sides, strict=True)
    ]
    return join(ctx, [left, values], tests)


def antijoin(
    ctx: Lowering, left: Lowered, right: Lowered, predicates: Sequence[Scalar], needed: Ids
) -> Lowered:
    """The rows of ``left`` that match nothing, with at least the ``needed`` columns of it."""
    used = frozenset[int]().union(*(columns(p) for p in predicates)) | shared_ids(left, right)
    kept = (needed | used) & set(left.ids)
    keys = ctx.keys(left)
    if keys:
        kept |= keys[0]
    narrow = project(left, (id_ for id_ in left.ids if id_ in kept))
    whole = ctx.share(_with_keys(ctx, left, narrow))
    return minus(whole, semijoin(ctx, whole, right, predicates, frozenset(whole.ids)))
