"""Remove columns that no reader uses."""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, width, with_unique_ids
from kpg.runtime.plan.nodes import call_columns, remap_call
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar, columns, remap

Columns = frozenset[int]


def prune_columns(rel: Rel, fallback: int = 0) -> Rel:
    """Remove the columns and aggregates that no operator above reads.

    Base tables keep all columns, because they are fetched one by one where they are read. A relation
    with no column read keeps the column at position ``fallback``.
    """
    pruning = _Pruner(fallback)
    pruned = pruning.prune_to(with_unique_ids(rel), range(width(rel)))
    return transform_up(pruned, pruning.narrow_let_projection)


@dataclass(slots=True)
class _Pruner:
    """Columns that readers need of each let seen so far, and the columns that its value has kept."""

    fallback: int
    columns_needed: dict[str, set[int]] = field(default_factory=dict)
    columns_kept: dict[algebra.LocalGet, list[int]] = field(default_factory=dict)

    def _fallback_column(self, every: Sequence[int]) -> list[int]:
        return [every[self.fallback]] if every else []

    def prune_to(self, rel: Rel, chosen: Sequence[int]) -> Rel:
        """Return the ``chosen`` columns of the relation, in that order."""
        required = frozenset(chosen)
        pruned, kept = self.prune(rel, required)
        places = tuple(kept.index(column) for column in chosen)
        return _project(pruned, places)

    def prune(self, rel: Rel, required: Columns) -> tuple[Rel, list[int]]:
        """Return the relation with the ``required`` columns, and its remaining columns, ascending."""
        every = list(range(width(rel)))
        match rel:
            case algebra.Get() | algebra.Constant():
                return rel, every
            case algebra.LocalGet(id=id_):
                chosen = sorted(required) or self._fallback_column(every)
                self.columns_needed.setdefault(id_, set()).update(chosen)
                return algebra.Project(rel, tuple(chosen)), chosen
            case algebra.Project(columns=projected):
                chosen = sorted(required) or self._fallback_column(every)
                return self.prune_to(rel.input, [projected[column] for column in chosen]), chosen
            case algebra.Map() | algebra.Filter():
                return self._selection(rel, required)
            case algebra.Join():
                return self._join(rel, required)
            case algebra.Reduce():
                return self._reduce(rel, required)
            case algebra.Expand():
                return self._expand(rel, required)
            case algebra.TopK(group=group, order=order):
                return self._topk_or_single(rel, required | set(group) | {by.column for by in order})
            case algebra.Window():
                return self._window(rel, required)
            case algebra.Single(group=group):
                return self._topk_or_single(rel, required | set(group))
            case algebra.Distinct() | algebra.Threshold():
                return replace(rel, input=self.prune_to(rel.input, every)), every
            case algebra.Negate() | algebra.Union():
                chosen = sorted(required) or self._fallback_column(every)
                return self._linear(rel, chosen), chosen
            case algebra.Let():
                return self._let(rel, required)
            case algebra.LetRec(values=values, body=body):
                exact = tuple(self.prune_to(value, range(width(value))) for value in values)
                pruned, kept = self.prune(body, required)
                return replace(rel, values=exact, body=pruned), kept
            case _:
                assert_never(rel)

    def _selection(self, rel: algebra.Map | algebra.Filter, required: Columns) -> tuple[Rel, list[int]]:
        inner = width(rel.input)
        if isinstance(rel, algebra.Filter):
            source, kept = self.prune(rel.input, required | _columns_read(rel.predicates))
            return algebra.Filter(source, _renumber(rel.predicates, kept)), kept
        places = [index for index in range(len(rel.scalars)) if inner + index in required]
        scalars = [rel.scalars[index] for index in places]
        below = frozenset(column for column in required if column < inner)
        source, kept = self.prune(rel.input, below | _columns_read(scalars))
        if not scalars:
            return source, kept
        return algebra.Map(source, _renumber(scalars, kept)), [*kept, *(inner + index for index in places)]

    def _join(self, join: algebra.Join, required: Columns) -> tuple[Rel, list[int]]:
        columns_read = required | _columns_read(join.on)
        inputs: list[Rel] = []
        kept: list[int] = []
        start = 0
        for source in join.inputs:
            stop = start + width(source)
            own = frozenset(column - start for column in columns_read if start <= column < stop)
            pruned, columns_ = self.prune(source, own)
            inputs.append(pruned)
            kept += [start + column for column in columns_]
            start = stop
        return replace(join, inputs=tuple(inputs), on=_renumber(join.on, kept)), kept

    def _reduce(self, reduce: algebra.Reduce, required: Columns) -> tuple[Rel, list[int]]:
        keys = len(reduce.keys)
        places = [index for index in range(len(reduce.aggregates)) if keys + index in required]
        if not places and not keys:
            places = [0]
        calls = [reduce.aggregates[index] for index in places]
        source, kept = self.prune(
            reduce.input, _columns_read((*reduce.keys, *(a for c in calls for a in c.args)))
        )
        aggregates = tuple(replace(call, args=_renumber(call.args, kept)) for call in calls)
        pruned = algebra.Reduce(source, _renumber(reduce.keys, kept), aggregates)
        return pruned, [*range(keys), *(keys + index for index in places)]

    def _expand(self, expand: algebra.Expand, required: Columns) -> tuple[Rel, list[int]]:
        """Keep all calls, because the number of rows depends on each."""
        inner, every = width(expand.input), width(expand)
        below = frozenset(column for column in required if column < inner)
        source, kept = self.prune(
            expand.input, below | _columns_read(arg for c in expand.calls for arg in c.args)
        )
        calls = tuple(replace(call, args=_renumber(call.args, kept)) for call in expand.calls)
        return replace(expand, input=source, calls=calls), [*kept, *range(inner, every)]

    def _topk_or_single(self, rel: algebra.TopK | algebra.Single, required: Columns) -> tuple[Rel, list[int]]:
        chosen = sorted(required) or self._fallback_column(range(width(rel)))
        place = {column: index for index, column in enumerate(chosen)}
        source = self.prune_to(rel.input, chosen)
        group = tuple(place[column] for column in rel.group)
        if isinstance(rel, algebra.Single):
            return replace(rel, input=source, group=group), chosen
        order = tuple(replace(by, column=place[by.column]) for by in rel.order)
        return replace(rel, input=source, group=group, order=order), chosen

    def _window(self, window: algebra.Window, required: Columns) -> tuple[Rel, list[int]]:
        """Keep only the required calls, or just the input if there are none."""
        inner = width(window.input)
        places = [index for index in range(len(window.calls)) if inner + index in required]
        below = frozenset(column for column in required if column < inner)
        if not places:
            return self.prune(window.input, below)
        calls = [window.calls[index] for index in places]
        read = {column for call in calls for column in call_columns(call)}
        sorting = {by.column for by in (*window.order, *window.ties)}
        source, kept = self.prune(window.input, below | read | sorting | set(window.partition))
        place = {column: index for index, column in enumerate(kept)}
        pruned = algebra.Window(
            source,
            tuple(place[column] for column in window.partition),
            tuple(replace(by, column=place[by.column]) for by in window.order),
            tuple(replace(by, column=place[by.column]) for by in window.ties),
            tuple(remap_call(call, place.__getitem__) for call in calls),
        )
        return pruned, [*kept, *(inner + index for index in places)]

    def _linear(self, rel: algebra.Negate | algebra.Union, chosen: Sequence[int]) -> Rel:
        if isinstance(rel, algebra.Negate):
            return algebra.Negate(self.prune_to(rel.input, chosen))
        return algebra.Union(tuple(self.prune_to(source, chosen) for source in rel.inputs))

    def _let(self, let: algebra.Let, required: Columns) -> tuple[Rel, list[int]]:
        """Prune the body first, which determines the columns needed of the value."""
        body, kept = self.prune(let.body, required)
        chosen = sorted(self.columns_needed.pop(let.id, set())) or self._fallback_column(
            range(width(let.value))
        )
        value = self.prune_to(let.value, chosen)
        self.columns_kept[algebra.LocalGet(let.id, algebra.types(let.value))] = chosen
        return algebra.Let(let.id, value, body), kept

    def narrow_let_projection(self, node: Rel) -> Rel:
        """Renumber a projection of a let's columns after the let's value was pruned."""
        if not isinstance(node, algebra.Project) or not isinstance(node.input, algebra.LocalGet):
            return node
        get, chosen = node.input, self.columns_kept.get(node.input)
        if chosen is None:
            return node
        cut = algebra.LocalGet(get.id, tuple(get.types[column] for column in chosen))
        return _project(cut, tuple(chosen.index(column) for column in node.columns))


def _columns_read(scalars: Iterable[Scalar]) -> Columns:
    return frozenset[int]().union(*(columns(scalar) for scalar in scalars))


def _renumber(scalars: Iterable[Scalar], kept: list[int]) -> tuple[Scalar, ...]:
    """Return the scalars over rows that have only the ``kept`` columns."""
    place = {column: index for index, column in enumerate(kept)}
    return tuple(remap(scalar, place.__getitem__) for scalar in scalars)


def _project(rel: Rel, columns_: tuple[int, ...]) -> Rel:
    return rel if columns_ == tuple(range(width(rel))) else algebra.Project(rel, columns_)
