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
from kpg.compiler.sql.bound_tree import BoundQuery, Ids, Node
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar, columns, remap
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, Type

DEAD = -1
"""The id of a column that nothing refers to."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation with the ids of its columns.

    ``keys``: sets of ids known to be unique, beyond what :func:`facts.unique_keys` can see.
    """

    rel: Rel
    ids: tuple[int, ...]
    keys: tuple[Ids, ...] = ()

    def position(self, id_: int) -> int:
        """Return the position of a column."""
        return self.ids.index(id_)

    def to_positions(self, scalar: Scalar) -> Scalar:
        """Return a scalar over ids as a scalar over positions."""
        return remap(scalar, self.position)

    def type_of(self, id_: int) -> Type:
        """Return the type of a column."""
        return algebra.types(self.rel)[self.position(id_)]

    def has_columns(self, ids: Iterable[int]) -> bool:
        """Return whether the relation has all the columns."""
        return set(ids) <= set(self.ids)


@dataclass(slots=True)
class Lowering:
    """State of lowering one query: its lets so far, and the supplies of ids and names."""

    bound_query: BoundQuery
    lower: Callable[[Node, Relation | None, Ids], Relation]
    """Function that lowers a node over correlation values: ``lower_node`` in ``query``."""
    lets: dict[str, Rel] = field(default_factory=dict)
    """Lets and loops around the relation, in order of definition.

    A let has its name as the key. A loop is a LetRec with a placeholder body, under a key of its
    own.
    """
    enclosing: "Lowering | None" = None
    """Lowering of the parts that do not depend on ``loop``; None outside loops."""
    loop: frozenset[str] = frozenset()
    """Names of the shared queries of the loop that is being lowered."""
    shared_queries: dict[str, Relation] = field(default_factory=dict)
    """Lowered shared queries by name."""
    unpadded_groups: set[int] = field(default_factory=set)
    """Identities (``id``) of Group nodes that need no row for empty groups."""
    ids: "count[int]" = field(default_factory=count)
    names: "count[int]" = field(default_factory=count)

    _facts: facts.Facts | None = None

    @property
    def let_values(self) -> Mapping[str, Rel]:
        """Return the values of all lets that the relation can refer to."""
        return self.lets if self.enclosing is None else ChainMap(self.lets, dict(self.enclosing.let_values))

    @property
    def facts(self) -> facts.Facts:
        """Return the facts about relations over these lets.

        They are cached: a let never changes, so facts stay valid when lets are added.
        """
        if self.enclosing is not None:
            return facts.Facts(self.let_values)
        if self._facts is None:
            self._facts = facts.Facts(self.lets)
        return self._facts

    def find_shared(self, name: str) -> Relation | None:
        """Return a shared query that is lowered already, here or in an enclosing lowering, or None."""
        if name in self.shared_queries or self.enclosing is None:
            return self.shared_queries.get(name)
        return self.enclosing.find_shared(name)

    def new_id(self) -> int:
        """Return an unused column id."""
        return next(self.ids)

    def new_let_name(self) -> str:
        """Return an unused name of a let."""
        return f"l{next(self.names)}"

    def keys(self, relation: Relation) -> list[Ids]:
        """Return the unique keys of a relation as sets of ids, smallest first."""
        found = [
            frozenset(relation.ids[column] for column in key) for key in self.facts.unique_keys(relation.rel)
        ]
        return sorted(
            (key for key in {*found, *relation.keys} if DEAD not in key), key=lambda k: (len(k), sorted(k))
        )

    def is_unique(self, relation: Relation, ids: Iterable[int]) -> bool:
        """Return whether no two rows agree on the columns."""
        chosen = frozenset(ids)
        return any(key <= chosen for key in self.keys(relation))

    def nullable(self, relation: Relation) -> dict[int, bool]:
        """Return, for each column id, whether the column can be NULL."""
        return dict(zip(relation.ids, self.facts.nullable(relation.rel), strict=True))

    def can_be_null(self, relation: Relation, scalar: Scalar) -> bool:
        """Return whether a scalar over the relation's ids can be NULL."""
        return scalars.can_be_null(relation.to_positions(scalar), self.facts.nullable(relation.rel))

    def share(self, relation: Relation) -> Relation:
        """Return the relation in a form that can be read several times.

        It becomes a let, unless it only selects from a base table, a let or a constant.
        """
        if _is_cheap(relation.rel):
            return relation
        name = self.new_let_name()
        self.lets[name] = relation.rel
        return replace(relation, rel=algebra.LocalGet(name, algebra.types(relation.rel)))


def _is_cheap(rel: Rel) -> bool:
    while isinstance(rel, algebra.Filter | algebra.Project):
        rel = rel.input
    return isinstance(rel, algebra.Get | algebra.LocalGet | algebra.Constant)


def project(relation: Relation, ids: Iterable[int]) -> Relation:
    """Return the columns ``ids``, each once, in that order; keys among them stay known."""
    chosen = tuple(dict.fromkeys(ids))
    if chosen == relation.ids:
        return relation
    keys = tuple(key for key in relation.keys if key <= set(chosen))
    places = tuple(relation.position(id_) for id_ in chosen)
    rel = relation.rel
    if isinstance(rel, algebra.Project):
        places = tuple(rel.columns[place] for place in places)
        rel = rel.input
    if places != tuple(range(width(rel))):
        rel = algebra.Project(rel, places)
    return Relation(rel, chosen, keys)


def keep(relation: Relation, ids: Ids) -> Relation:
    """Return the columns that are in ``ids``, in their present order."""
    return project(relation, (id_ for id_ in relation.ids if id_ in ids))


def keep_with_key(ctx: Lowering, relation: Relation, ids: Ids) -> Relation:
    """Return the columns in ``ids`` and those of the smallest key, so that the key stays known."""
    keys = ctx.keys(relation)
    narrow = keep(relation, ids | (keys[0] if keys else frozenset()))
    return Relation(narrow.rel, narrow.ids, tuple(key for key in keys if narrow.has_columns(key)))


def rename_column(relation: Relation, old: int, new: int) -> Relation:
    """Return the relation with the id ``old`` of a column replaced by ``new``."""
    ids = tuple(new if id_ == old else id_ for id_ in relation.ids)
    keys = tuple(frozenset(new if id_ == old else id_ for id_ in key) for key in relation.keys)
    return Relation(relation.rel, ids, keys)


def where(relation: Relation, predicates: Sequence[Scalar]) -> Relation:
    """Return the rows that satisfy the predicates over ids."""
    tests = tuple(relation.to_positions(predicate) for predicate in predicates)
    if not tests:
        return relation
    rel = relation.rel
    if isinstance(rel, algebra.Join):
        return replace(relation, rel=algebra.Join(rel.inputs, rel.on + tests))
    if isinstance(rel, algebra.Filter):
        return replace(relation, rel=algebra.Filter(rel.input, rel.predicates + tests))
    return replace(relation, rel=algebra.Filter(rel, tests))


def extend(relation: Relation, ids: Sequence[int], scalars: Sequence[Scalar]) -> Relation:
    """Return the relation with more columns: ``scalars`` over ids, under the new ``ids``."""
    if not ids:
        return relation
    rel = algebra.Map(relation.rel, tuple(relation.to_positions(scalar) for scalar in scalars))
    return Relation(rel, relation.ids + tuple(ids), relation.keys)


def _shifted(tests: Sequence[Scalar], by: int) -> Sequence[Scalar]:
    """The predicates over columns whose numbers are ``by`` higher."""
    return [remap(test, lambda column: column + by) for test in tests] if by else tests


def by_part(
    parts: Sequence[Relation], predicates: Sequence[Scalar]
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
        places = [
            place for place in dict.fromkeys(places) if len(read) == 1 or parts[place].has_columns(read)
        ]
        for place in places:
            own[place].append(predicate)
        if not places:
            rest.append(predicate)
    return own, rest


def join(ctx: Lowering, parts: Sequence[Relation], predicates: Sequence[Scalar] = ()) -> Relation:
    """Return the inner join on the predicates over ids and on the ids that parts share.

    Predicates over one part are applied to that part.
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
    joined = Relation(algebra.Join(tuple(inputs), tuple(on)), tuple(ids))
    return where(joined, rest)


def distinct(ctx: Lowering, relation: Relation, ids: Iterable[int]) -> Relation:
    """Return the distinct combinations of values in the columns."""
    chosen = tuple(dict.fromkeys(ids))
    narrow = project(relation, chosen)
    if ctx.is_unique(relation, chosen):
        return narrow
    return Relation(algebra.Distinct(narrow.rel), narrow.ids)


def union(parts: Sequence[Relation]) -> Relation:
    """Return the union (ALL) of relations with the same ids, in any column order."""
    aligned = [project(part, parts[0].ids) for part in parts]
    return Relation(algebra.Union(tuple(part.rel for part in aligned)), parts[0].ids)


def minus(whole: Relation, part: Relation) -> Relation:
    """Return the rows of ``whole`` without those of ``part``, a sub-multiset of it."""
    negated = algebra.Negate(project(part, whole.ids).rel)
    return Relation(algebra.Union((whole.rel, negated)), whole.ids, whole.keys)


def one_row(ctx: Lowering) -> Relation:
    """Return a relation of one row, with one column that nothing refers to."""
    return Relation(algebra.Constant(((0,),), (INTEGER,)), (ctx.new_id(),))


def row_count(ctx: Lowering, relation: Relation, positive: bool) -> Relation:
    """Return one row with the number of rows if it is positive, or if it is zero; else no row.

    ``positive`` selects which.
    """
    id_ = ctx.new_id()
    reduce = algebra.Reduce(relation.rel, (), (algebra.AggregateCall("count", (), False, BIGINT),))
    test = Call("gt" if positive else "eq", (Column(id_, BIGINT), Literal(0, BIGINT)), BOOLEAN)
    return where(Relation(reduce, (id_,)), [test])


@dataclass(frozen=True, slots=True)
class Match:
    """Match condition of two relations: equal ``pairs`` of scalars, equal common ids, true ``rest``.

    ``functions`` are the equality functions of the pairs.
    """

    pairs: tuple[tuple[Scalar, Scalar], ...]
    functions: tuple[str, ...]
    rest: tuple[Scalar, ...]
    common_ids: Ids


def split_equalities(left: Relation, right: Relation, predicates: Sequence[Scalar]) -> Match:
    """Split predicates over ids into equalities between the two sides and the rest."""
    pairs, functions, rest = [], [], []
    for predicate in predicates:
        sides = facts.equalities([predicate])
        if sides and _orient(left, right, *sides[0]) is not None:
            pair = _orient(left, right, *sides[0])
            assert pair is not None and isinstance(predicate, Call)
            pairs.append(pair)
            functions.append(predicate.function)
        else:
            rest.append(predicate)
    return Match(tuple(pairs), tuple(functions), tuple(rest), common_ids(left, right))


def common_ids(left: Relation, right: Relation) -> Ids:
    """Return the columns that both relations have."""
    return (frozenset(left.ids) & frozenset(right.ids)) - {DEAD}


def _orient(left: Relation, right: Relation, first: Scalar, second: Scalar) -> tuple[Scalar, Scalar] | None:
    for left_side, right_side in ((first, second), (second, first)):
        if (
            columns(left_side)
            and columns(right_side)
            and left.has_columns(columns(left_side))
            and right.has_columns(columns(right_side))
        ):
            return left_side, right_side
    return None


def matches_once(ctx: Lowering, right: Relation, match: Match) -> bool:
    """Return whether each left row matches at most one right row."""
    fixed = {side.index for _, side in match.pairs if isinstance(side, Column)}
    return ctx.is_unique(right, fixed | match.common_ids)


def semijoin(
    ctx: Lowering, left: Relation, right: Relation, predicates: Sequence[Scalar], needed: Ids
) -> Relation:
    """Return the rows of ``left`` that match, with at least its ``needed`` columns."""
    own = [p for p in predicates if left.has_columns(columns(p))]
    theirs = [p for p in predicates if p not in own and right.has_columns(columns(p))]
    both = [p for p in predicates if p not in own and p not in theirs]
    left, right = where(left, own), where(right, theirs)
    match = split_equalities(left, right, both)
    if not both and not match.common_ids:
        right = row_count(ctx, right, positive=True)
    if matches_once(ctx, right, match):
        return _with_keys(ctx, left, keep(join(ctx, [left, right], both), needed & set(left.ids)))
    if ctx.keys(left):
        retained = (needed | ctx.keys(left)[0]) & set(left.ids)
        joined = join(ctx, [left, right], both)
        return _with_keys(ctx, left, distinct(ctx, joined, (id_ for id_ in left.ids if id_ in retained)))
    if not match.rest:
        return keep(_join_values(ctx, left, right, match), needed & set(left.ids))
    used = frozenset[int]().union(*(columns(p) for p in both)) | match.common_ids
    values = distinct(ctx, left, (id_ for id_ in left.ids if id_ in used))
    matched = distinct(ctx, join(ctx, [values, right], both), values.ids)
    return keep(join(ctx, [left, matched]), needed & set(left.ids))


def _with_keys(ctx: Lowering, left: Relation, result: Relation) -> Relation:
    keys = tuple(key for key in ctx.keys(left) if result.has_columns(key))
    return Relation(result.rel, result.ids, keys)


def _join_values(ctx: Lowering, left: Relation, right: Relation, match: Match) -> Relation:
    """Join with the distinct values of the equalities' right sides."""
    computed = [side for _, side in match.pairs if not isinstance(side, Column)]
    names = [ctx.new_id() for _ in computed]
    right = extend(right, names, computed)
    fresh = iter(names)
    sides = [side if isinstance(side, Column) else Column(next(fresh), side.type) for _, side in match.pairs]
    values = distinct(ctx, right, (*sorted(match.common_ids), *(side.index for side in sides)))
    tests = [
        Call(function, (left_side, side), BOOLEAN)
        for function, (left_side, _), side in zip(match.functions, match.pairs, sides, strict=True)
    ]
    return join(ctx, [left, values], tests)


def antijoin(
    ctx: Lowering, left: Relation, right: Relation, predicates: Sequence[Scalar], needed: Ids
) -> Relation:
    """Return the rows of ``left`` that match no right row, with at least its ``needed`` columns."""
    used = frozenset[int]().union(*(columns(p) for p in predicates)) | common_ids(left, right)
    retained = (needed | used) & set(left.ids)
    keys = ctx.keys(left)
    if keys:
        retained |= keys[0]
    narrow = project(left, (id_ for id_ in left.ids if id_ in retained))
    shared = ctx.share(_with_keys(ctx, left, narrow))
    return minus(shared, semijoin(ctx, shared, right, predicates, frozenset(shared.ids)))
