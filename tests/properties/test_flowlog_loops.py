"""FlowLog's loops against what their rounds are by definition, and after changes of their facts."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kpg

Rows = frozenset[tuple[int, ...]]
State = Mapping[str, Rows]

VALUES = range(4)
HEADS = ("a(x)", "b(x)", "done()")
BODIES: tuple[tuple[str, Callable[[State, int, int], bool]], ...] = (
    ("e(x, y)", lambda s, x, y: (x, y) in s["e"]),
    ("e(y, x)", lambda s, x, y: (y, x) in s["e"]),
    ("a(x)", lambda s, x, y: (x,) in s["a"]),
    ("a(y)", lambda s, x, y: (y,) in s["a"]),
    ("b(y)", lambda s, x, y: (y,) in s["b"]),
    ("!a(x)", lambda s, x, y: (x,) not in s["a"]),
    ("!b(x)", lambda s, x, y: (x,) not in s["b"]),
    ("x = 2", lambda s, x, y: x == 2),
)
Rule = tuple[int, tuple[int, ...]]
rules = st.tuples(st.integers(0, 2), st.lists(st.integers(2, 7), max_size=2).map(tuple))
edges = st.frozensets(st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES)), max_size=6)
conditions = st.tuples(
    st.sampled_from([None, -1, 0, 1, 2, 5]),
    st.sampled_from(["", "done", "done or b", "done and b"]),
    st.booleans(),
)  # fmt: skip
MOST = 40
HEADER = (
    '.pragma "max-rounds" "200" .decl e(x: int32, y: int32) .decl a(x: int32) .decl b(x: int32) .decl done()'
    " a(0). b(1)."
)


def _derived(some: Sequence[Rule], before: State, edges: Rows) -> dict[str, Rows]:
    """What the rules make of a round; each has e(x, y) or e(y, x) in it."""
    state = {**before, "e": edges}
    made: dict[str, set[tuple[int, ...]]] = {"a": set(), "b": set(), "done": set()}
    for head, body in some:
        for x, y in product(VALUES, VALUES):
            if BODIES[0][1](state, x, y) and all(BODIES[part][1](state, x, y) for part in body):
                made[HEADS[head][: HEADS[head].index("(")]].add((x,) if head < 2 else ())
    return {name: frozenset(rows) for name, rows in made.items()}


def _rounds(
    some: Sequence[Rule],
    iterative: frozenset[str],
    condition: tuple[int | None, str, bool],
    base: State,
    edges: Rows,
) -> State | None:
    """The relations after the loop, as FlowLog's dataflow has them; None if it does not end."""
    most, until, both = condition
    names = ("a", "b", "done")
    state: State = {name: base[name] if name in iterative else frozenset() for name in names}
    for number in range(MOST):
        derived = _derived(some, state, edges)
        made = {name: derived[name] if name in iterative else base[name] | derived[name] for name in names}
        if iterative:
            follows = {name: made[name] if name in iterative else made[name] | state[name] for name in names}
        else:
            follows = made
        signals = {"": False, "done": bool(made["done"]), "done or b": bool(made["done"] or made["b"]),
                   "done and b": bool(made["done"] and made["b"])}  # fmt: skip
        is_late, is_seen = most is not None and number > most, signals[until]
        stops = (is_late and is_seen) if both and most is not None and until else (is_late or is_seen)
        if stops:
            return state if iterative else made
        if follows == state:
            return state
        state = follows
    return None


def _text(some: Sequence[Rule], iterative: frozenset[str], condition: tuple[int | None, str, bool]) -> str:
    most, until, both = condition
    parts = [f"while {{ @it <= {most} }}" if most != -1 else "while { @it < 0 }"] if most is not None else []
    parts += [f"until {{ {until} }}"] if until else []
    start = f"loop {(' or ' if both and len(parts) > 1 else ' ').join(parts)}" if parts else "fixpoint"
    marks = " ".join(f".iterative {name}" for name in sorted(iterative))
    lines = [
        f"{HEADS[head]} :- {', '.join(['e(x, y)', *(BODIES[p][0] for p in body)])}." for head, body in some
    ]
    return f"{start} {{ {marks} {' '.join(lines)} }}"


@settings(max_examples=8)
@given(
    some=st.lists(rules, min_size=1, max_size=4).map(lambda found: [(0, ()), (1, (6,)), (2, (2, 7)), *found]),
    iterative=st.frozensets(st.sampled_from(["a", "b"])),
    condition=conditions,
    facts=st.lists(edges, min_size=1, max_size=3),
)
def test_loops_are_their_rounds(
    some: list[Rule], iterative: frozenset[str], condition: tuple[int | None, str, bool], facts: list[Rows]
) -> None:
    if condition[0] is None and not condition[1] and not iterative:
        some = [(head, tuple(part for part in body if part not in (5, 6))) for head, body in some]
    base: State = {"a": frozenset({(0,)}), "b": frozenset({(1,)}), "done": frozenset()}
    expected = [_rounds(some, iterative, condition, base, rows) for rows in facts]
    assume(all(one is not None for one in expected))
    outputs = ".output a .output b .output done"
    with kpg.connect() as db:
        loop = _text(some, iterative, condition)
        program = db.datalog(f"{HEADER} {''.join(f'e({x}, {y}). ' for x, y in facts[0])} {outputs} {loop}")
        before = facts[0]
        for rows, found in zip(facts, expected, strict=True):
            gone = "".join(f"-e({x}, {y}). " for x, y in before - rows)
            program.update(gone + "".join(f"+e({x}, {y}). " for x, y in rows - before))
            before = rows
            assert found is not None
            for name in ("a", "b"):
                assert frozenset(program[name]) == found[name], (name, loop)
            assert bool(list(program["done"])) == bool(found["done"]), loop
