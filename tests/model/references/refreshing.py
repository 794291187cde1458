"""``groups.refresh``: a small step of a reduce in one call."""

from collections.abc import Iterator

import numpy as np

from kpg.runtime.kernels import groups as kernels
from kpg.runtime.types import ERROR, NULL
from tests.model.references import Arguments, Case, Random, reference
from tests.model.references.aggregates import (
    Group,
    amounts,
    nothing,
    operands,
    seen_groups,
    shape,
    some_table,
)
from tests.model.references.aggregates import accumulate as accumulated
from tests.model.references.words import Row, size, tuples

MOST = 10**18 - 1


def refresh_cases(random: Random) -> Iterator[Arguments]:
    key, width, accumulators = shape(random)
    what = int(random.choice([kernels.SUMS, kernels.SIGNS, kernels.MULTIPLICITIES]))
    table = some_table(random, key, accumulators, width)
    n = size(random)
    data, diff = operands(random, key, width, n), amounts(random, n)
    table._reserve(n)
    columns = key + (len(accumulators) if what == kernels.SUMS else 0)
    yield (
        data, diff, what, key, table.spec, table.slots, table.table, table.marker, table.free,
        table.touched_groups, table.old, table.state, np.empty(2 * n * columns, np.int64),
        np.empty(2 * n, np.int64),
    )  # fmt: skip


def seen_refresh(
    result, data, diff, what, nk, spec, slots, rows, marker, free, touched, old, state, out, out_diff
) -> object:
    groups = seen_groups(
        result, data, diff, 0, data.shape[1], nk, spec, slots, rows, marker, free, touched, old, state
    )
    width = nk + (len(spec) if what == kernels.SUMS else 0)
    changed = tuples(out[: width * result].reshape(width, result), result)
    doubtful = bool(state[kernels.DOUBTFUL]) if what == kernels.SUMS else None
    return groups, sorted(zip(changed, out_diff[:result].tolist(), strict=True)), doubtful


def shown(key: Row, group: Group) -> Row | None:
    """The row that a group's aggregates make; there is always one if there is no key."""
    return (*key, *(total.word() for total in group.totals)) if group.rows > 0 or not key else None


@reference("groups.refresh", refresh_cases, seen_refresh)
def refresh(
    data, diff, what, nk, spec, slots, rows, marker, free, touched, old, state, out, out_diff
) -> object:
    arguments = (data, diff, 0, data.shape[1], nk, spec, slots, rows, marker, free, touched, old, state)
    groups = accumulated.expected(Case(arguments))
    after, before, _ = groups
    found, doubtful = [], False
    for key, one in before.items():
        other = after.get(key, nothing(spec.tolist()))
        if what == kernels.SUMS:
            sides = shown(key, one), shown(key, other)
            doubtful |= any(is_doubtful(word) for word in (sides[1] or ())[nk:])
            if sides[0] != sides[1]:
                found += [(row, sign) for row, sign in zip(sides, (-1, 1), strict=True) if row is not None]
            continue
        counts = [max(0, group.rows) for group in (one, other)]
        if what == kernels.SIGNS:
            counts = [min(1, count) for count in counts]
        if counts[0] != counts[1]:
            found.append((key, counts[1] - counts[0]))
    return groups, sorted(found), doubtful if what == kernels.SUMS else None


def is_doubtful(word: int) -> bool:
    """Whether a sum may be out of its type's range."""
    return word == ERROR or (word != NULL and abs(word) > MOST)
