"""``groups``: accumulators by group, as counts, exact sums and fractions."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from kpg.runtime.kernels import groups as kernels
from kpg.runtime.kernels import moments
from kpg.runtime.kernels.accumulators import COUNT, SUM, SUM_DOUBLE
from kpg.runtime.state.groups import Accumulator, GroupTable, state_words
from kpg.runtime.trace.updates import Updates
from kpg.runtime.types import ERROR, NULL, float_to_word, word_to_float
from tests.model.references import Arguments, Case, Random, reference
from tests.model.references.words import Row, Words, fits, size, spread, tuples, words

UNIT = Fraction(1, 2**1074)
KINDS = (COUNT, SUM, SUM_DOUBLE)
ALL_KINDS = (*KINDS, *range(moments.SPREAD, moments.BIT_XOR + 1))
PAIRS = (moments.SPREAD, moments.SPREAD_DOUBLE, moments.COMOMENT, moments.COMOMENT_DOUBLE)
TWICE = (moments.COMOMENT, moments.COMOMENT_DOUBLE)
DOUBLES = (moments.SPREAD_DOUBLE, moments.COMOMENT_DOUBLE)


@dataclass
class Total:
    """One aggregate of a group: operands that are not NULL, their sum, and of doubles NaNs and infinities."""

    kind: int
    count: int = 0
    sum: Fraction = Fraction(0)
    special: list[int] = field(default_factory=lambda: [0, 0, 0])
    second: Fraction = Fraction(0)
    products: Fraction = Fraction(0)
    bits: list[int] = field(default_factory=lambda: [0] * 64)

    def add(self, word: int, other: int, diff: int) -> None:
        """Add an operand, or a pair, so many times."""
        if word == NULL or (self.kind in PAIRS and other == NULL):
            return
        if self.kind in PAIRS:
            self._add_pair(word, other, diff)
            return
        if self.kind >= moments.BIT_AND:
            self.bits = [count + diff * (word >> bit & 1) for bit, count in enumerate(self.bits)]
        self.count += diff
        if self.kind == SUM:
            self.sum += word * diff
        elif self.kind == SUM_DOUBLE:
            value = word_to_float(word)
            if value != value or abs(value) == float("inf"):
                self.special[0 if value != value else 1 if value > 0 else 2] += diff
            else:
                self.sum += Fraction(value) * diff

    def _add_pair(self, word: int, other: int, diff: int) -> None:
        """In units of the least double; products are cut off below 2**-1124."""
        self.count += diff
        x, y = Fraction(word), Fraction(other)
        if self.kind in DOUBLES:
            first, second = word_to_float(word), word_to_float(other)
            if not (np.isfinite(first) and np.isfinite(second)):
                self.special[0] += diff
                return
            x, y = Fraction(first), Fraction(second)
        product = x * y
        if self.kind in DOUBLES:
            product = Fraction(int(product * 2**1124), 2**1124)
        self.sum += x * diff
        self.products += product * diff
        if self.kind in TWICE:
            self.second += y * diff

    def plus(self, other: "Total") -> "Total":
        """The two added up."""
        special = [a + b for a, b in zip(self.special, other.special, strict=True)]
        bits = [a + b for a, b in zip(self.bits, other.bits, strict=True)]
        return Total(
            self.kind,
            self.count + other.count,
            self.sum + other.sum,
            special,
            self.second + other.second,
            self.products + other.products,
            bits,
        )

    def word(self) -> int:
        """The aggregate's result."""
        if self.kind == COUNT:
            return self.count
        if self.count == 0:
            return NULL
        if self.kind in PAIRS:
            return self._comoment()
        if self.kind >= moments.BIT_AND:
            known = [
                {moments.BIT_AND: n == self.count, moments.BIT_OR: n > 0, moments.BIT_XOR: n % 2 == 1}
                for n in self.bits
            ]
            word = sum(1 << bit for bit, found in enumerate(known) if found[self.kind])
            return word - 2**64 if word >= 2**63 else word
        if self.kind == SUM:
            return int(self.sum) if ERROR < self.sum < 2**63 else ERROR
        nan, positive, negative = self.special
        if nan > 0 or (positive > 0 and negative > 0):
            return float_to_word(float("nan"))
        if positive > 0 or negative > 0:
            return float_to_word(float("inf" if positive > 0 else "-inf"))
        try:
            return float_to_word(float(self.sum))
        except OverflowError:
            return ERROR

    def _comoment(self) -> int:
        """Rounded to 53 bits, then divided by the count, then put in the range of doubles."""
        if self.special[0] > 0:
            return float_to_word(float("nan"))
        second = self.second if self.kind in TWICE else self.sum
        exact = self.products * self.count - self.sum * second
        if exact < 0 and self.kind not in TWICE:
            return 0
        if not exact:
            return 0
        ratio = abs(exact)
        exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
        try:
            value = math.ldexp(float(ratio / Fraction(2) ** exponent) / self.count, exponent)
        except OverflowError:
            return ERROR
        return float_to_word(math.copysign(1, exact) * value)


@dataclass
class Group:
    """How many rows there are, and the aggregates."""

    rows: int
    totals: list[Total]

    def add(self, row: Row, diff: int, spec: list[list[int]]) -> None:
        """Add a row, so many times."""
        self.rows += diff
        for total, (_, column, _, other) in zip(self.totals, spec, strict=True):
            total.add(0 if column < 0 else row[column], row[other] if other >= 0 else 0, diff)

    def plus(self, other: "Group") -> "Group":
        """The two added up."""
        totals = [a.plus(b) for a, b in zip(self.totals, other.totals, strict=True)]
        return Group(self.rows + other.rows, totals)

    @property
    def is_zero(self) -> bool:
        """Whether it can be forgotten."""
        return self == nothing([[total.kind, 0, 0, 0] for total in self.totals])


def nothing(spec: list[list[int]]) -> Group:
    """The group of no rows."""
    return Group(0, [Total(kind) for kind, *_ in spec])


def decoded(accumulators: list[int], spec: list[list[int]]) -> Group:
    """What accumulators mean."""
    totals = []
    for kind, _, offset, _ in spec:
        count, *rest = accumulators[offset : offset + state_words(kind)]
        total = Total(kind, count)
        if kind >= moments.BIT_AND:
            total.bits = rest
        if kind in PAIRS:
            _decode_pair(total, rest)
        if kind == SUM:
            total.sum = Fraction((rest[0] % 2**64) + (rest[1] << 64))
        elif kind == SUM_DOUBLE:
            total.special = rest[:3]
            total.sum = sum((limb << 32 * i for i, limb in enumerate(rest[3:])), 0) * UNIT
        totals.append(total)
    return Group(accumulators[0], totals)


def _decode_pair(total: Total, words: list[int]) -> None:
    double = total.kind in DOUBLES
    sums = moments.DOUBLE_LIMBS if double else moments.SUM_LIMBS
    products = moments.DOUBLE_PRODUCT_LIMBS if double else moments.PRODUCT_LIMBS
    total.special = [words[0], 0, 0]
    limbs = [words[1 : 1 + sums], words[1 + sums : 1 + sums + products], words[1 + sums + products :]]
    first, product, second = (sum(limb << 32 * i for i, limb in enumerate(part)) for part in limbs)
    total.sum, total.second = (Fraction(one) * (UNIT if double else 1) for one in (first, second))
    total.products = Fraction(product, 2**1124 if double else 1)


def some_accumulators(
    random: Random, key: int, width: int, kinds: tuple[int, ...] = ALL_KINDS
) -> tuple[Accumulator, ...]:
    """Of columns behind the key, or, for a count, of none."""
    found = []
    for kind in random.choice(kinds, int(random.integers(0, 4))).tolist():
        none = kind == COUNT and random.random() < 0.5
        column = -1 if none else int(random.integers(key, width))
        other = int(random.integers(key, width)) if kind in TWICE else column
        found.append(Accumulator(kind, column, other if kind in PAIRS else -1))
    return tuple(found)


def operands(random: Random, key: int, width: int, n: int) -> Words:
    """Rows: keys of few values, and words that are doubles too."""
    data = np.empty((width, n), np.int64)
    data[:key] = random.integers(0, 5, (key, n)) if random.random() < 0.7 else words(random, key, n)
    for column in range(key, width):
        data[column] = words(random, n)
        if random.random() < 0.5:
            some = [
                float_to_word(one)
                for one in (0.0, -0.1, 1e308, -1e308, 5e-324, 3.5, float("inf"), float("nan"))
            ]
            data[column] = random.choice(some, n)
    return data


def amounts(random: Random, n: int) -> Words:
    """Diffs, at times large."""
    if random.random() < 0.3:
        return np.array([random.choice([1, -1, 2])], np.int64)
    return random.choice([-1, 1, 1, 2, 1 << 40, -(1 << 33)], n).astype(np.int64)


def some_table(random: Random, key: int, accumulators: tuple[Accumulator, ...], width: int) -> GroupTable:
    """A table after some steps, of which some were rolled back."""
    table = GroupTable(key, accumulators)
    for _ in range(int(random.integers(0, 3))):
        n = size(random)
        if n:
            table.accumulate(Updates(operands(random, key, width, n), np.array([[1]]), amounts(random, n)))
        table.commit() if random.random() < 0.7 else table.rollback()
    return table


Shape = tuple[int, int, tuple[Accumulator, ...]]


def shape(random: Random) -> Shape:
    """Key columns, all columns, and what is kept of each group."""
    key = int(random.integers(0, 4))
    width = key + int(random.integers(1, 3))
    return key, width, some_accumulators(random, key, width)


def contents(slots: Words, rows: Words, nk: int, spec: Words) -> dict[Row, Group]:
    """The groups that can be found, by key."""
    found: dict[Row, Group] = {}
    for group in (slots[slots != 0] - 1).tolist():
        _, *row = rows[group].tolist()
        assert tuple(row[:nk]) not in found
        found[tuple(row[:nk])] = decoded(row[nk:], spec.tolist())
    return found


def accumulate_cases(random: Random) -> Iterator[Arguments]:
    key, width, accumulators = shape(random)
    table = some_table(random, key, accumulators, width)
    n = size(random)
    data, diff = operands(random, key, width, n), amounts(random, n)
    table._reserve(n)
    first = int(random.integers(0, n + 1)) if random.random() < 0.3 else 0
    yield (
        data, diff, first, n, key, table.spec, table.slots, table.table, table.marker, table.free,
        table.touched_groups, table.old, table.state,
    )  # fmt: skip


def seen_groups(
    result, data, diff, first, last, nk, spec, slots, rows, marker, free, touched, old, state
) -> object:
    entries = int(state[2])
    keys = tuples(np.ascontiguousarray(rows[touched[:entries], 1 : 1 + nk].T), entries)
    before = [decoded(one, spec.tolist()) for one in old[:entries].tolist()]
    return (
        contents(slots, rows, nk, spec),
        dict(zip(keys, before, strict=True)),
        bool(state[kernels.OVERFLOW]),
    )


@reference("groups.accumulate", accumulate_cases, seen_groups)
def accumulate(data, diff, first, last, nk, spec, slots, rows, marker, free, touched, old, state) -> object:
    found, before = contents(slots, rows, nk, spec), {}
    overflow = False
    given = list(zip(tuples(data), spread(diff, data.shape[1]), strict=True))[first:last]
    for row, amount in given:
        before.setdefault(row[:nk], found.get(row[:nk], nothing(spec.tolist())).plus(nothing(spec.tolist())))
        group = found.setdefault(row[:nk], nothing(spec.tolist()))
        group.add(row, amount, spec.tolist())
        overflow |= not fits(group.rows)
    return found, before, overflow


def time_cases(random: Random) -> Iterator[Arguments]:
    key, width, accumulators = shape(random)
    table = some_table(random, key, accumulators, width)
    n = size(random, 1)
    data, diff, time = operands(random, key, width, n), amounts(random, n), random.integers(0, 3, (1, n))
    table._reserve(n)
    order = np.lexsort(time)
    new, when = np.empty((n, table.words), np.int64), np.empty(n, np.int64)
    yield (
        data, time, diff, order, key, table.spec, table.slots, table.table, table.marker, table.free,
        table.touched_groups, table.old, new, when, table.state,
    )  # fmt: skip


def seen_entries(
    result, data, time, diff, order, nk, spec, slots, rows, marker, free, touched, old, new, when, state
) -> object:
    entries, aggregates = int(state[2]), spec.tolist()
    found = {}
    for entry in range(entries):
        key = tuple(rows[touched[entry], 1 : 1 + nk].tolist()), int(time[0, when[entry]])
        assert key not in found
        found[key] = decoded(old[entry].tolist(), aggregates), decoded(new[entry].tolist(), aggregates)
    return contents(slots, rows, nk, spec), found, result - marker


@reference("groups.accumulate_times", time_cases, seen_entries)
def accumulate_times(
    data, time, diff, order, nk, spec, slots, rows, marker, free, touched, old, new, when, state
) -> object:
    aggregates = spec.tolist()
    found, entries = contents(slots, rows, nk, spec), {}
    given = list(zip(tuples(data), time[0].tolist(), spread(diff, data.shape[1]), strict=True))
    for at in sorted({at for _, at, _ in given}):
        before = {}
        for row, _, amount in (one for one in given if one[1] == at):
            group = found.setdefault(row[:nk], nothing(aggregates))
            before.setdefault(row[:nk], group.plus(nothing(aggregates)))
            group.add(row, amount, aggregates)
        for key, one in before.items():
            entries[key, at] = one, found[key].plus(nothing(aggregates))
    return found, entries, len(set(time[0].tolist()))


def changed(random: Random) -> tuple[GroupTable, int]:
    """A table in the middle of a step."""
    key, width, accumulators = shape(random)
    table = some_table(random, key, accumulators, width)
    n = size(random, 1)
    diff = random.choice([-1, 1, 1], n).astype(np.int64)
    table.accumulate(Updates(operands(random, key, width, n), np.array([[1]]), diff))
    if key == 0 and random.random() < 0.5:
        table.old[0, 0] = NULL
    return table, table.entries


def current_cases(random: Random) -> Iterator[Arguments]:
    table, entries = changed(random)
    yield (
        table.touched_groups[:entries].copy(),
        table.table,
        table.key,
        np.empty((entries, table.words), np.int64),
    )


@reference("groups.current", current_cases, lambda result, numbers, rows, nk, new: new.tolist())
def current(numbers, rows, nk, new) -> object:
    return [rows[number].tolist()[1 + nk :] for number in numbers.tolist()]


def emit_cases(random: Random) -> Iterator[Arguments]:
    table, entries = changed(random)
    width = table.key + table.spec.shape[0]
    yield (
        table.touched_groups, table.old, table._current(entries), entries, table.table, table.key, table.spec,
        np.empty((width, 2 * entries), np.int64), *np.empty((2, 2 * entries), np.int64),
    )  # fmt: skip


def seen_output(result, *arguments) -> object:
    *_, out, diff, entry = arguments
    return [
        *zip(tuples(out[:, :result], result), diff[:result].tolist(), entry[:result].tolist(), strict=True)
    ]


@reference("groups.emit", emit_cases, seen_output)
def emit(touched, old, new, entries, rows, nk, spec, *out) -> object:
    found: list[Any] = []
    for entry in range(entries):
        key = tuple(rows[touched[entry], 1 : 1 + nk].tolist())
        sides = []
        for accumulators in (old[entry].tolist(), new[entry].tolist()):
            group = decoded(accumulators, spec.tolist())
            there = group.rows != NULL if nk == 0 else group.rows > 0
            sides.append((*key, *(total.word() for total in group.totals)) if there else None)
        if sides[0] != sides[1]:
            found += [(row, diff, entry) for row, diff in zip(sides, (-1, 1), strict=True) if row is not None]
    return found


def threshold_cases(random: Random) -> Iterator[Arguments]:
    table, entries = changed(random)
    out = np.empty((table.key, entries), np.int64), *np.empty((2, entries), np.int64)
    yield (
        table.touched_groups, table.old, table._current(entries), entries, table.table, table.key,
        int(random.integers(2)), *out,
    )  # fmt: skip


@reference("groups.emit_threshold", threshold_cases, seen_output)
def emit_threshold(touched, old, new, entries, rows, nk, distinct, *out) -> object:
    found = []
    for entry in range(entries):
        counts = [max(0, int(side[entry, 0])) for side in (old, new)]
        before, after = (min(count, 1) for count in counts) if distinct else counts
        if before != after:
            found.append((tuple(rows[touched[entry], 1 : 1 + nk].tolist()), after - before, entry))
    return found


def rebuild_cases(random: Random) -> Iterator[Arguments]:
    table, _ = changed(random)
    yield table.slots, np.zeros(4 * len(table.slots), np.int64), table.table, table.key


def found_groups(slots: Words) -> list[int]:
    return sorted(slot for slot in slots.tolist() if slot)


@reference("groups.rebuild", rebuild_cases, lambda result, source, slots, rows, nk: found_groups(slots))
def rebuild(source, slots, rows, nk) -> object:
    return found_groups(source)


def finish_cases(random: Random) -> Iterator[Case]:
    key, width, accumulators = shape(random)
    table = some_table(random, key, accumulators, width)
    n = size(random, 1)
    data = operands(random, key, width, n)
    table.accumulate(Updates(data, np.array([[1]]), np.ones(1, np.int64)))
    gone = random.random(n) < 0.7
    if gone.any():
        undone = np.ascontiguousarray(data[:, gone])
        table.accumulate(Updates(undone, np.array([[1]]), -np.ones(1, np.int64)))
    given = (table.touched_groups, table.spec, key, table.slots, table.table, table.free, table.state)
    yield Case(given)


def seen_finished(result, touched, spec, nk, slots, rows, free, state) -> object:
    fields = (kernels.LIVE, kernels.ENTRIES, kernels.OVERFLOW, kernels.MARKER)
    return contents(slots, rows, nk, spec), state[list(fields)].tolist()


@reference("groups.finish", finish_cases, seen_finished)
def finish(touched, spec, nk, slots, rows, free, state) -> object:
    entries = int(state[kernels.ENTRIES]) if nk else 0
    mentioned = {tuple(rows[group, 1 : 1 + nk].tolist()) for group in touched[:entries].tolist()}
    found = contents(slots, rows, nk, spec)
    kept = {key: group for key, group in found.items() if key not in mentioned or not group.is_zero}
    return kept, [len(kept), 0, 0, int(state[kernels.MARKER]) + 1]
