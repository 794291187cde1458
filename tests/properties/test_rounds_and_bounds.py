"""``__ITERATION__()`` and lattices against plain Python, while facts come and go."""

from hypothesis import given, settings
from hypothesis import strategies as st

import kpg

Pairs = frozenset[tuple[int, int]]
RULES = {
    "linear": "p(x, z, __ITERATION__() + 1) :- p(x, y, _), e(y, z), __ITERATION__() < 3.",
    "both": "p(x, z, __ITERATION__() + 1) :- p(x, y, _), p(y, z, _), __ITERATION__() < 3.",
    "valued": "p(x, z, i + __ITERATION__()) :- p(x, y, i), e(y, z), __ITERATION__() < 3, i < 3.",
}
ROUNDS = ".decl e(x: number, y: number) e(9, 9). .decl p(x: number, y: number, i: number) .output p "
BOUNDS = """
    .type M <: number
    .lattice M<> { Bottom -> 0, Lub -> _ bor _, Glb -> _ band _ }
    .decl e(x: number, y: number) e(9, 9).
    .decl i(x: number, m: M) i(9, 1).
    .decl s(x: number, m: M<>)
    s(x, m) :- i(x, m).
    s(y, m) :- s(x, m), e(x, y).
    .decl t(x: number, m: M<>)
    t(x, m) :- s(x, m), i(_, m).
    t(y, m) :- t(x, m), s(y, m), e(y, x).
    .decl w(x: number)
    w(x) :- t(x, 2).
    .output s, t, w
"""
pairs = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5)
masks = st.frozensets(st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 3, 4])), max_size=4)


def _change(name: str, old: frozenset[tuple[int, ...]], new: frozenset[tuple[int, ...]]) -> str:
    gone = "".join(f"-{name}{row}. " for row in old - new)
    return gone + "".join(f"+{name}{row}. " for row in new - old)


def _derived(kinds: list[str], edges: Pairs) -> set[tuple[int, int, int]]:
    """Soufflé's evaluation: rounds in which one of the atoms is of what the round before brought."""
    every = {(x, y, 0) for x, y in edges}
    delta = set(every)
    for number in range(3):
        made = set[tuple[int, int, int]]()
        for kind in kinds:
            if kind == "both":
                both = [(left, right) for left in delta for right in every]
                both += [(left, right) for left in every for right in delta]
                made |= {(x, z, number + 1) for (x, y, _), (a, z, _) in both if a == y}
            else:
                steps = [(x, z, i) for x, y, i in delta for a, z in edges if a == y]
                made |= {(x, z, i + number) for x, z, i in steps if i < 3} if kind == "valued" else set()
                made |= {(x, z, number + 1) for x, z, _ in steps} if kind == "linear" else set()
        delta = made - every
        every |= delta
    return every


@settings(max_examples=5)
@given(
    kinds=st.lists(st.sampled_from(sorted(RULES)), min_size=1, max_size=2, unique=True),
    history=st.lists(pairs, min_size=1, max_size=4),
)
def test_rounds(kinds: list[str], history: list[Pairs]) -> None:
    with kpg.connect() as db:
        rules = "p(x, y, 0) :- e(x, y). " + " ".join(RULES[kind] for kind in kinds)
        program = db.datalog(ROUNDS + rules)
        before: Pairs = frozenset({(9, 9)})
        for edges in history:
            program.update(_change("e", before, edges))
            before = edges
            assert set(program["p"]) == _derived(kinds, edges)


def _bounds(edges: Pairs, given_: Pairs) -> tuple[dict[int, int], dict[int, int]]:
    s: dict[int, int] = {}
    t: dict[int, int] = {}
    for _ in range(40):
        for x, mask in given_:
            s[x] = s.get(x, 0) | mask
        for x, y in edges:
            s[y] = s.get(y, 0) | s.get(x, 0)
    for _ in range(40):
        for x, mask in s.items():
            for _, other in given_:
                t[x] = t.get(x, 0) | (mask & other)
        for y, x in edges:
            t[y] = t.get(y, 0) | (t.get(x, 0) & s.get(y, 0))
    return {x: m for x, m in s.items() if m}, {x: m for x, m in t.items() if m}


@settings(max_examples=4)
@given(history=st.lists(st.tuples(pairs, masks), min_size=2, max_size=6))
def test_bounds(history: list[tuple[Pairs, Pairs]]) -> None:
    with kpg.connect() as db:
        program = db.datalog(BOUNDS)
        before: tuple[Pairs, Pairs] = (frozenset({(9, 9)}), frozenset({(9, 1)}))
        for edges, given_ in history:
            program.update(_change("e", before[0], edges) + _change("i", before[1], given_))
            before = (edges, given_)
            s, t = _bounds(edges, given_)
            assert dict(program["s"]) == s and dict(program["t"]) == t
            assert set(program["w"]) == {(x,) for x, mask in t.items() if mask & 2}
