"""Remove columns that no reader uses."""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import assert_never

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import transform_up, width, with_unique_ids
from kpg.runtime.plan.nodes import call_columns, moved_call
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Scalar, columns, remap

Columns = frozenset[int]


def prune_columns(rel: Rel, spare: int = 0) -> Rel:
    """Every relation gets the columns that the operators above it need, every reduce their aggregates.

    Base tables keep theirs: their columns are fetched one by one where they are read. A relation of which
    nothing is read keeps the column at the place ``spare``.
    """
    pruning = _Pruning(spare)
    pruned = pruning.exact(with_unique_ids(rel), range(width(rel)))
    return transform_up(pruned, pruning.narrowed)


@dataclass(slots=True)
class _Pruning:
    """What is needed of the relations that lets bind, as far as has been seen, and what they were cut to."""

    spare: int
    needed: dict[str, set[int]] = field(default_factory=dict)
    kept: dict[algebra.LocalGet, list[int]] = field(default_factory=dict)

    def _spare(self, every: Sequence[int]) -> list[int]:
        return [every[self.spare]] if every else []

    def exact(self, rel: Rel, chosen: Sequence[int]) -> Rel:
        """The chosen columns of the relation, in that order."""
        asked = frozenset(chosen)
        pruned, kept = self.some(rel, asked)
        places = tuple(kept.index(column) for column in chosen)
        return _projected(pruned, places)

    def some(self, rel: Rel, asked: Columns) -> tuple[Rel, list[int]]:
        """The relation with at least the columns asked for, and which ones it has, ascending."""
        every = list(range(width(rel)))
        match rel:
            case algebra.Get() | algebra.Constant():
                return rel, every
            case algebra.LocalGet(id=id_):
                chosen = sorted(asked) or self._spare(every)
                self.needed.setdefault(id_, set()).update(chosen)
                return algebra.Project(rel, tuple(chosen)), chosen
            case algebra.Project(columns=projected):
                chosen = sorted(asked) or self._spare(every)
                return self.exact(rel.input, [projected[column] for column in chosen]), chosen
            case algebra.Map() | algebra.Filter():
                return self._selection(rel, asked)
            case algebra.Join():
                return self._join(rel, asked)
            case algebra.Reduce():
                return self._reduce(rel, asked)
            case algebra.Expand():
                return self._expand(rel, asked)
            case algebra.TopK(group=group, order=order):
                return self._ordered(rel, asked | set(group) | {by.column for by in order})
            case algebra.Window():
                return self._window(rel, asked)
            case algebra.Single(group=group):
                return self._ordered(rel, asked | set(group))
            case algebra.Distinct() | algebra.Threshold():
                return replace(rel, input=self.exact(rel.input, every)), every
            case algebra.Negate() | algebra.Union():
                chosen = sorted(asked) or self._spare(every)
                return self._sum(rel, chosen), chosen
            case algebra.Let():
                return self._let(rel, asked)
            case algebra.LetRec(values=values, body=body):
                exact = tuple(self.exact(value, range(width(value))) for value in values)
                pruned, kept = self.some(body, asked)
                return replace(rel, values=exact, body=pruned), kept
            case _:
                assert_never(rel)

    def _selection(self, rel: algebra.Map | algebra.Filter, asked: Columns) -> tuple[Rel, list[int]]:
        inner = width(rel.input)
        if isinstance(rel, algebra.Filter):
            source, kept = self.some(rel.input, asked | _read(rel.predicates))
            return algebra.Filter(source, _moved(rel.predicates, kept)), kept
        places = [index for index in range(len(rel.scalars)) if inner + index in asked]
        scalars = [rel.scalars[index] for index in places]
        below = frozenset(column for column in asked if column < inner)
        source, kept = self.some(rel.input, below | _read(scalars))
        if not scalars:
            return source, kept
        return algebra.Map(source, _moved(scalars, kept)), [*kept, *(inner + index for index in places)]

    def _join(self, join: algebra.Join, asked: Columns) -> tuple[Rel, list[int]]:
        wanted = asked | _read(join.on)
        inputs: list[Rel] = []
        kept: list[int] = []
        start = 0
        for source in join.inputs:
            stop = start + width(source)
            own = frozenset(column - start for column in wanted if start <= column < stop)
            pruned, columns_ = self.some(source, own)
            inputs.append(pruned)
            kept += [start + column for column in columns_]
            start = stop
        return replace(join, inputs=tuple(inputs), on=_moved(join.on, kept)), kept

    def _reduce(self, reduce: algebra.Reduce, asked: Columns) -> tuple[Rel, list[int]]:
        keys = len(reduce.keys)
        places = [index for index in range(len(reduce.aggregates)) if keys + index in asked]
        if not places and not keys:
            places = [0]
        calls = [reduce.aggregates[index] for index in places]
        source, kept = self.some(reduce.input, _read((*reduce.keys, *(a for c in calls for a in c.args))))
        aggregates = tuple(replace(call, args=_moved(call.args, kept)) for call in calls)
        pruned = algebra.Reduce(source, _moved(reduce.keys, kept), aggregates)
        return pruned, [*range(keys), *(keys + index for index in places)]

    def _expand(self, expand: algebra.Expand, asked: Columns) -> tuple[Rel, list[int]]:
        """All that calls make stays: how many rows there are depends on each."""
        inner, every = width(expand.input), width(expand)
        below = frozenset(column for column in asked if column < inner)
        source, kept = self.some(expand.input, below | _read(arg for c in expand.calls for arg in c.args))
        calls = tuple(replace(call, args=_moved(call.args, kept)) for call in expand.calls)
        return replace(expand, input=source, calls=calls), [*kept, *range(inner, every)]

    def _ordered(self, rel: algebra.TopK | algebra.Single, asked: Columns) -> tuple[Rel, list[int]]:
        chosen = sorted(asked) or self._spare(range(width(rel)))
        place = {column: index for index, column in enumerate(chosen)}
        source = self.exact(rel.input, chosen)
        group = tuple(place[column] for column in rel.group)
        if isinstance(rel, algebra.Single):
            return replace(rel, input=source, group=group), chosen
        order = tuple(replace(by, column=place[by.column]) for by in rel.order)
        return replace(rel, input=source, group=group, order=order), chosen

    def _window(self, window: algebra.Window, asked: Columns) -> tuple[Rel, list[int]]:
        """The calls that are asked for, and what they read; without any, just the input."""
        inner = width(window.input)
        places = [index for index in range(len(window.calls)) if inner + index in asked]
        below = frozenset(column for column in asked if column < inner)
        if not places:
            return self.some(window.input, below)
        calls = [window.calls[index] for index in places]
        read = {column for call in calls for column in call_columns(call)}
        sorting = {by.column for by in (*window.order, *window.ties)}
        source, kept = self.some(window.input, below | read | sorting | set(window.partition))
        place = {column: index for index, column in enumerate(kept)}
        pruned = algebra.Window(
            source,
            tuple(place[column] for column in window.partition),
            tuple(replace(by, column=place[by.column]) for by in window.order),
            tuple(replace(by, column=place[by.column]) for by in window.ties),
            tuple(moved_call(call, place.__getitem__) for call in calls),
        )
        return pruned, [*kept, *(inner + index for index in places)]

    def _sum(self, rel: algebra.Negate | algebra.Union, chosen: Sequence[int]) -> Rel:
        if isinstance(rel, algebra.Negate):
            return algebra.Negate(self.exact(rel.input, chosen))
        return algebra.Union(tuple(self.exact(source, chosen) for source in rel.inputs))

    def _let(self, let: algebra.Let, asked: Columns) -> tuple[Rel, list[int]]:
        """The body tells what is needed of the value."""
        body, kept = self.some(let.body, asked)
        chosen = sorted(self.needed.pop(let.id, set())) or self._spare(range(width(let.value)))
        value = self.exact(let.value, chosen)
        self.kept[algebra.LocalGet(let.id, algebra.types(let.value))] = chosen
        return algebra.Let(let.id, value, body), kept

    def narrowed(self, node: Rel) -> Rel:
        """A projection of a let's value over what is kept of that."""
        if not isinstance(node, algebra.Project) or not isinstance(node.input, algebra.LocalGet):
            return node
        get, chosen = node.input, self.kept.get(node.input)
        if chosen is None:
            return node
        cut = algebra.LocalGet(get.id, tuple(get.types[column] for column in chosen))
        return _projected(cut, tuple(chosen.index(column) for column in node.columns))


def _read(scalars: Iterable[Scalar]) -> Columns:
    return frozenset[int]().union(*(columns(scalar) for scalar in scalars))


def _moved(scalars: Iterable[Scalar], kept: list[int]) -> tuple[Scalar, ...]:
    """The scalars over rows that have only the ``kept`` columns."""
    place = {column: index for index, column in enumerate(kept)}
    return tuple(remap(scalar, place.__getitem__) for scalar in scalars)


def _projected(rel: Rel, columns_: tuple[int, ...]) -> Rel:
    return rel if columns_ == tuple(range(width(rel))) else algebra.Project(rel, columns_)
