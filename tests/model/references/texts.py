"""``text``, ``slots``: hash tables, and what is asked of strings."""

import itertools
import re
from collections.abc import Iterator

import numpy as np

from kpg.runtime.dictionary import NO_NULLS, Dictionary
from kpg.runtime.kernels import text
from kpg.runtime.types import NULL
from tests.model.references import Arguments, Random, reference
from tests.model.references.words import size

PIECES = ["", "a", "b", "ab", "ba", "%", "é", "日本", "😀", "abcdefgh", "abcdefghi", "xyz" * 7]


def strings(random: Random, n: int) -> list[str]:
    """Short ones of few letters, and some of several bytes a letter."""
    return ["".join(random.choice(PIECES, int(random.integers(0, 4)))) for _ in range(n)]


def known(random: Random) -> tuple[Dictionary, list[str]]:
    """A dictionary, and its strings by code."""
    dictionary = Dictionary()
    found = list(dict.fromkeys(strings(random, size(random, 1))))
    dictionary.intern(found)
    return dictionary, found


def arena_of(dictionary: Dictionary) -> tuple:
    return dictionary.arena, dictionary.offsets


def read(arena, offsets, codes) -> list[bytes]:
    """The strings of codes."""
    return [arena[offsets[code] : offsets[code + 1]].tobytes() for code in codes]


def frozen(given: bytes) -> np.ndarray:
    return np.frombuffer(given, np.uint8)


def intern_cases(random: Random) -> Iterator[Arguments]:
    dictionary, before = known(random)
    given = [one.encode() for one in strings(random, size(random))]
    bounds = np.cumsum([0, *map(len, given)])
    nulls = NO_NULLS if random.random() < 0.5 else random.integers(0, 2, len(given)).astype(np.uint8)
    dictionary._reserve(len(given), int(bounds[-1]))
    out = np.full(len(given), -9, np.int64)
    first = int(random.integers(0, len(given) + 1))
    yield (
        frozen(b"".join(given)), bounds, nulls, *arena_of(dictionary), dictionary._slots, len(before), out,
        first, len(given),
    )  # fmt: skip


def seen_codes(result, source, bounds, nulls, arena, offsets, slots, count, out, first, last) -> object:
    return out.tolist(), read(arena, offsets, range(result)), in_order(slots)


def in_order(slots) -> list[int]:
    """The codes in a hash table, all of which can be found: no empty slot is between them and their homes."""
    pairs, mask = slots.reshape(-1, 2).tolist(), len(slots) // 2 - 1
    for place, (code, value) in enumerate(pairs):
        home = value & mask
        while code >= 0 and home != place:
            assert pairs[home][0] >= 0
            home = (home + 1) & mask
    return sorted(code for code, _ in pairs if code >= 0)


@reference("text.intern", intern_cases, seen_codes)
def intern(source, bounds, nulls, arena, offsets, slots, count, out, first, last) -> object:
    codes = {one: code for code, one in enumerate(read(arena, offsets, range(count)))}
    expected = out.tolist()
    for i in range(first, last):
        if len(nulls) and nulls[i]:
            expected[i] = NULL
        else:
            one = source[bounds[i] : bounds[i + 1]].tobytes()
            expected[i] = codes.setdefault(one, len(codes))
    return expected, list(codes), list(range(len(codes)))


def find_cases(random: Random) -> Iterator[Arguments]:
    dictionary, before = known(random)
    for one in (*strings(random, 5), before[0], before[-1]):
        yield frozen(one.encode()), *arena_of(dictionary), dictionary._slots


@reference("text.find", find_cases, lambda result, *arguments: result)
def find(source, arena, offsets, slots) -> object:
    found = read(arena, offsets, in_order(slots))
    return found.index(source.tobytes()) if source.tobytes() in found else -1


def rehash_cases(random: Random) -> Iterator[Arguments]:
    dictionary, _ = known(random)
    yield dictionary._slots, np.full(4 * len(dictionary._slots), -1, np.int64)


@reference(
    "text.rehash", rehash_cases, lambda result, old, new: (in_order(new), sorted(new.reshape(-1, 2).tolist()))
)
def rehash(old, new) -> object:
    pairs = [pair for pair in old.reshape(-1, 2).tolist() if pair[0] >= 0]
    return in_order(old), sorted([*pairs, *[[-1, -1]] * (len(new) // 2 - len(pairs))])


def forget_cases(random: Random) -> Iterator[Arguments]:
    dictionary, before = known(random)
    first = int(random.integers(0, len(before) + 1))
    yield first, len(before), *arena_of(dictionary), dictionary._slots


@reference("text.forget", forget_cases, lambda result, *arguments: in_order(arguments[-1]))
def forget(first, count, arena, offsets, slots) -> object:
    return list(range(first))


def codes_of(random: Random, before: list[str], *, nulls: bool) -> np.ndarray:
    codes = random.integers(0, len(before), size(random))
    if nulls:
        codes[random.random(len(codes)) < 0.2] = NULL
    return codes


def measure_cases(random: Random) -> Iterator[Arguments]:
    dictionary, before = known(random)
    codes = codes_of(random, before, nulls=True)
    yield codes, dictionary.offsets, np.empty(len(codes) + 1, np.int64)


@reference("text.measure", measure_cases, lambda result, codes, offsets, bounds: bounds.tolist())
def measure(codes, offsets, bounds) -> object:
    lengths = [0 if code == NULL else int(offsets[code + 1] - offsets[code]) for code in codes.tolist()]
    return [sum(lengths[:i]) for i in range(len(lengths) + 1)]


def gather_cases(random: Random) -> Iterator[Arguments]:
    dictionary, before = known(random)
    codes = codes_of(random, before, nulls=True)
    bounds = np.array(measure.expected(_case(codes, dictionary.offsets, None)), np.int64)
    yield codes, *arena_of(dictionary), bounds, np.zeros(int(bounds[-1]), np.uint8)


def _case(*arguments):
    from tests.model.references import Case

    return Case(arguments)


@reference("text.gather", gather_cases, lambda result, *arguments: arguments[-1].tobytes())
def gather(codes, arena, offsets, bounds, out) -> object:
    return b"".join(read(arena, offsets, [code for code in codes.tolist() if code != NULL]))


def contains_cases(random: Random) -> Iterator[Arguments]:
    dictionary, before = known(random)
    codes = codes_of(random, before, nulls=False)
    parts = [one.encode() for one in strings(random, int(random.integers(1, 3))) if one]
    shifts = np.array([len(part) for part in parts], np.int64).reshape(-1, 1).repeat(256, axis=1)
    for part, shift in zip(parts, shifts, strict=True):
        for place, byte in enumerate(part[:-1]):
            shift[byte] = len(part) - 1 - place
    bounds = np.cumsum([0, *map(len, parts)])
    yield (
        codes,
        *arena_of(dictionary),
        frozen(b"".join(parts)),
        bounds,
        shifts,
        np.empty(len(codes), np.int64),
    )


def writable(random: Random) -> Iterator[Arguments]:
    for codes, arena, offsets, parts, bounds, shifts, out in contains_cases(random):
        yield codes, arena, offsets, parts.copy(), bounds, np.ascontiguousarray(shifts), out


@reference("text.contains", writable, lambda result, *arguments: arguments[-1].tolist())
def contains(codes, arena, offsets, parts, bounds, shifts, out) -> object:
    ends = bounds.tolist()
    needles = [parts[a:b].tobytes() for a, b in itertools.pairwise(ends)]
    pattern = re.compile(b".*".join(map(re.escape, needles)), re.DOTALL)
    return [int(pattern.search(one) is not None) for one in read(arena, offsets, codes.tolist())]


def like_cases(random: Random) -> Iterator[Arguments]:
    dictionary, before = known(random)
    codes = codes_of(random, before, nulls=False)
    tokens: list[int] = []
    for _ in range(int(random.integers(0, 5))):
        kind = random.integers(3)
        letters = list(str(random.choice(PIECES)).encode())
        tokens += [text.ANY_STRING] if kind == 0 else [text.ANY_CHARACTER] if kind == 1 else letters
    yield codes, *arena_of(dictionary), np.array(tokens, np.int64), np.empty(len(codes), np.int64)


@reference("text.like", like_cases, lambda result, *arguments: arguments[-1].tolist())
def like(codes, arena, offsets, pattern, out) -> object:
    meaning = b""
    for token in pattern.tolist():
        if token == text.ANY_STRING:
            meaning += b".*"
        else:
            meaning += (
                rb"[^\x80-\xbf][\x80-\xbf]*+" if token == text.ANY_CHARACTER else re.escape(bytes([token]))
            )
    compiled = re.compile(meaning, re.DOTALL)
    return [int(compiled.fullmatch(one) is not None) for one in read(arena, offsets, codes.tolist())]


def widen_cases(random: Random) -> Iterator[Arguments]:
    old = random.integers(0, 3, size(random))
    yield old, np.zeros(2 * len(old), np.int64)


@reference("text.widen", widen_cases, lambda result, old, new: new.tolist())
def widen(old, new) -> object:
    return [*old.tolist(), *[0] * len(old)]


def rebuild_cases(random: Random) -> Iterator[Arguments]:
    source = np.zeros(128, np.int64)
    count = int(random.integers(0, 80))
    tags = random.integers(0, 2**32 if random.random() < 0.7 else 4, count)
    filled = (tags.astype(np.uint64) << np.uint64(32)).astype(np.int64) | np.arange(1, count + 1)
    source[random.permutation(128)[:count]] = filled
    yield source, np.zeros(256, np.int64)


def found_slots(slots) -> list[int]:
    """The filled slots, all of which can be found from the home that their hash says."""
    filled, mask = slots.tolist(), len(slots) - 1
    for place, slot in enumerate(filled):
        home = (slot >> 32) & mask
        while slot and home != place:
            assert filled[home]
            home = (home + 1) & mask
    return sorted(slot for slot in filled if slot)


@reference("slots.rebuild", rebuild_cases, lambda result, source, slots: found_slots(slots))
def rebuild(source, slots) -> object:
    return sorted(slot for slot in source.tolist() if slot)
