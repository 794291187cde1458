"""Order as words: arrangements whose first rows are a group's top rows."""

from collections.abc import Sequence

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.physical.context import Planning
from kpg.compiler.physical.mfp import compose
from kpg.runtime import plan
from kpg.runtime.functions import TEXT_WORDS
from kpg.runtime.plan import Mfp, Ref
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER


@dataclass(frozen=True, slots=True)
class SortKey:
    """A value to order by. ``can_be_null`` may err on the side of True."""

    value: Scalar
    descending: bool
    nulls_first: bool
    can_be_null: bool

    def words(self) -> tuple[Scalar, ...]:
        """Scalars whose words order as the key does (text: as far as its first bytes tell)."""
        if self.value.type.is_interned:
            return tuple(self._word(part) for part in range(TEXT_WORDS))
        # NULL is the smallest word, and words order as values do.
        if not self.descending and (self.nulls_first or not self.can_be_null):
            return (self.value,)
        return (self._word(0),)

    def _word(self, part: int) -> Call:
        flags = (int(self.descending), int(self.nulls_first), part)
        return Call("order_word", (self.value, *(Literal(flag, INTEGER) for flag in flags)), BIGINT)


def plan_topk(planning: Planning, topk: algebra.TopK, mfp: Mfp) -> Ref:
    """The mfp over the first rows of each group."""
    if topk.limit is None and topk.offset == 0:
        return planning.lower(planning, topk.input, mfp)
    types = algebra.types(topk.input)
    flags = planning.facts.nullable(topk.input)
    columns = tuple(Column(index, type_) for index, type_ in enumerate(types))
    keys = tuple(
        SortKey(columns[by.column], by.descending, by.nulls_first, flags[by.column]) for by in topk.order
    )
    group = tuple(columns[index] for index in topk.group)
    ordered = ordered_rows(group, keys, columns)
    ref = planning.lower(planning, topk.input, Mfp((), ordered.outputs))
    arranged = planning.builder.arrange(ref, len(group))
    ref = planning.builder.add(plan.TopK(arranged, len(group), topk.limit, topk.offset, ordered.exact))
    values = [Column(ordered.outputs.index(column), column.type) for column in columns]
    return planning.builder.linear(ref, compose(mfp, values))


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The columns of an arrangement (group, order words, rest), and ``plan.TopK.exact`` for it."""

    outputs: tuple[Scalar, ...]
    exact: tuple[tuple[int, int, bool], ...]


def ordered_rows(group: Sequence[Scalar], keys: Sequence[SortKey], values: Sequence[Scalar]) -> OrderedRows:
    """Rows of ``values``, those of a group together and in order."""
    outputs = list(group)
    texts: list[tuple[int, SortKey]] = []
    for key in keys:
        if key.value.type.is_interned:
            texts.append((len(outputs), key))
        outputs += key.words()
    outputs += [value for value in values if value not in outputs]
    exact = tuple((first, outputs.index(key.value), key.descending) for first, key in texts)
    return OrderedRows(tuple(outputs), exact)
