"""Single operators in loops, at every point of a small lattice of times (epoch, round, ...) of depth 2 to 4.

Rows of the tables left and right are updates: (r, s, t, sign, k, v) adds (k, v), or takes it away, at the
rounds (r, s, t). Loops that count their rounds bring each update in at its time, and log what the operator
under test has put out by each time; that must be the operator's function of the input accumulated by then.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest

from kpg.runtime.errors import DataError
from kpg.runtime.plan import BasicAggregate, BasicReduce, Plan
from kpg.runtime.scalar import If, Literal
from kpg.runtime.types import BIGINT, TEXT
from tests.properties import loops
from tests.properties.engine import Engine, Row
from tests.properties.plans import Builder, add, col, compare, number

LAST = 2
"""Rounds are 0 .. LAST."""
ROUNDS = 3
"""Round columns of left and right."""
STEPS = {1: 20, 2: 10, 3: 6}
"""Steps of a test, by its number of rounds."""
TEXTS = ("a", "bb", "c")
Rows = Counter[Row]


@dataclass(frozen=True)
class Case:
    """An operator over streams of (k, v), and the function that it is; ``text``: the last column is text."""

    build: Callable[[Builder, int, int], int]
    truth: Callable[[Rows, Rows], Rows]
    text: bool = False


def joined(left: Rows, right: Rows) -> Rows:
    """(k, v of the left, v of the right)."""
    result: Rows = Counter()
    for (k, v), n in left.items():
        for (other, w), m in right.items():
            if k == other:
                result[k, v, w] += n * m
    return result


def chained(left: Rows, right: Rows) -> Rows:
    """(x, y) for left(a, x), right(a, b), left(b, y)."""
    result: Rows = Counter()
    for (a, x), n in left.items():
        for (a2, b), m in right.items():
            for (b2, y), o in left.items():
                if a == a2 and b == b2:
                    result[x, y] += n * m * o
    return result


def groups(rows: Rows) -> dict[int, Rows]:
    found: dict[int, Rows] = defaultdict(Counter)
    for (k, v), n in rows.items():
        found[k][k, v] += n
    return found


def totals(left: Rows, right: Rows) -> Rows:
    result: Rows = Counter()
    for k, group in groups(left).items():
        count = sum(group.values())
        if count > 0:
            result[k, count, sum(v * n for (_, v), n in group.items())] += 1
    return result


def total(left: Rows, right: Rows) -> Rows:
    return Counter([(sum(left.values()),)])


def window(skip: int, limit: int | None) -> Callable[[Rows, Rows], Rows]:
    """The rows of positive multiplicity, in order, of each k."""

    def truth(left: Rows, right: Rows) -> Rows:
        result: Rows = Counter()
        for group in groups(left).values():
            ordered = sorted((+group).elements())
            result.update(ordered[skip : None if limit is None else skip + limit])
        return result

    return truth


def listed(left: Rows, right: Rows) -> Rows:
    """The texts of each k, as string_agg has them."""
    found = {k: sorted(TEXTS[v] for _, v in (+group).elements()) for k, group in groups(left).items()}
    return Counter((k, ",".join(texts)) for k, texts in found.items() if texts)


def list_texts(build: Builder, left: int) -> int:
    text = If(
        compare("eq", col(1), number(0)),
        Literal(TEXTS[0], TEXT),
        If(compare("eq", col(1), number(1)), Literal(TEXTS[1], TEXT), Literal(TEXTS[2], TEXT), TEXT),
        TEXT,
    )
    texts = build.linear(left, (0, text, Literal(",", TEXT)))
    aggregate = BasicAggregate("string_agg", (1, 2), (TEXT, TEXT), TEXT)
    return build.node(BasicReduce(build.arrange(texts, (0,)), 1, (aggregate,)), 2)


CASES: dict[str, Case] = {
    "nothing": Case(lambda build, a, b: a, lambda a, b: a),
    "arrange": Case(lambda build, a, b: build.linear(build.arrange(a, (0,)), (0, 1)), lambda a, b: a),
    "concat": Case(lambda build, a, b: build.concat(a, build.negate(b)), lambda a, b: sums(a, b, -1)),
    "join": Case(lambda build, a, b: build.join(a, b, [(0, 0)], (0, 1, 3)), joined),
    "self-join": Case(lambda build, a, b: build.join(a, a, [(0, 0)], (0, 1, 3)), lambda a, b: joined(a, a)),
    "delta join": Case(lambda build, a, b: build.chain(a, b, a), chained),
    "distinct": Case(lambda build, a, b: build.distinct(a), lambda a, b: Counter(list(+a))),
    "threshold": Case(lambda build, a, b: build.threshold(a), lambda a, b: +a),
    "count and sum": Case(lambda build, a, b: build.reduce(a, 1, ("count", None), ("sum", 1)), totals),
    "count of all": Case(lambda build, a, b: build.reduce(a, 0, ("count", None)), total),
    "least": Case(lambda build, a, b: build.top(a, 1), window(0, 1)),
    "2 after 1": Case(lambda build, a, b: build.top(a, 1, 2, 1), window(1, 2)),
    "all after 1": Case(lambda build, a, b: build.top(a, 1, None, 1), window(1, None)),
    "string_agg": Case(lambda build, a, b: list_texts(build, a), listed, text=True),
    "least of the right": Case(lambda build, a, b: build.top(b, 1), lambda a, b: window(0, 1)(b, a)),
    "count and sum of the right": Case(
        lambda build, a, b: build.reduce(b, 1, ("count", None), ("sum", 1)), lambda a, b: totals(b, a)
    ),
    "distinct of a join": Case(
        lambda build, a, b: build.distinct(build.join(a, b, [(0, 0)], (1, 3))),
        lambda a, b: Counter({row[1:]: 1 for row in +project(joined(a, b))}),
    ),
    "join of a least": Case(
        lambda build, a, b: build.join(build.top(a, 1), b, [(0, 0)], (0, 1, 3)),
        lambda a, b: joined(window(0, 1)(a, b), b),
    ),
}


def sums(left: Rows, right: Rows, sign: int) -> Rows:
    result = Counter(left)
    for row, n in right.items():
        result[row] += sign * n
    return result


def project(rows: Rows) -> Rows:
    """Rows with their first column made one value."""
    result: Rows = Counter()
    for row, n in rows.items():
        result[0, *row[1:]] += n
    return result


@dataclass(frozen=True)
class Clock:
    """Round variables of a body: the present round, and all rounds so far."""

    now: int
    past: int
    next: int
    sofar: int

    @classmethod
    def of(cls, body: Builder, zero: int) -> "Clock":
        now, past = body.variable(1, zero), body.variable(1, zero)
        following = body.linear(now, (add(col(0), number(1)),), compare("lt", col(0), number(LAST)))
        return cls(now, past, following, body.concat(past, following))


def signed(build: Builder, cells: int) -> int:
    """(k, v), counted by sign, of (sign, k, v)."""
    plus = build.linear(cells, (1, 2), compare("gt", col(0), number(0)))
    minus = build.linear(cells, (1, 2), compare("lt", col(0), number(0)))
    return build.concat(plus, build.negate(minus))


def logged(outer: Builder, body: Builder, clock: Clock, output: int, case: Case) -> int:
    """The sum over all rounds of (round, output row)."""
    width = body.widths[output]
    log = body.variable(1 + width, last=TEXT if case.text else BIGINT)
    entry = body.join(clock.now, output, [], range(1 + width))
    return outer.loop(body, clock.next, clock.sofar, body.concat(log, entry))[2]


def lattice(case: Case, rounds: int, *, shared: bool) -> Plan:
    """(round, ..., output row), in as many loops. If ``shared``, the right side is outside the innermost."""
    build = Builder()
    zero = build.constant((0,))
    order = (*range(rounds), *range(ROUNDS, ROUNDS + 3))
    cells = [build.linear(build.table(name), order) for name in ("left", "right")]
    return build.plan(nested(build, zero, cells, case, shared=shared))


def nested(outer: Builder, zero: int, cells: list[int], case: Case, *, shared: bool) -> int:
    """The log of a loop that takes cells by their first column, and leaves the rest to the loops within."""
    body = outer.body()
    clock = Clock.of(body, body.enter(zero))
    width = outer.widths[cells[0]]
    present = [body.join(body.enter(cell), clock.past, [(0, 0)], range(1, width)) for cell in cells]
    if width > 4:
        return logged(outer, body, clock, nested(body, body.enter(zero), present, case, shared=shared), case)
    streams = [signed(body, cell) for cell in present]
    if shared:
        streams[1] = body.enter(signed(outer, outer.linear(cells[1], range(1, width))))
    return logged(outer, body, clock, case.build(body, *streams), case)


def expected(engine: Engine, case: Case, rounds: int, *, shared: bool) -> Rows:
    """What the log must hold, by the tables as they are."""
    result: Rows = Counter()
    for time in product(range(LAST + 1), repeat=rounds):
        left = accumulated(engine.contents("left"), time)
        right = accumulated(engine.contents("right"), time[:-1] if shared else time)
        result.update({(*time, *row): n for row, n in case.truth(left, right).items() if n})
    return result


def accumulated(cells: list[Row], time: tuple[int, ...]) -> Rows:
    """The rows of the updates at rounds up to ``time``; rounds beyond it do not count."""
    result: Rows = Counter()
    for *rounds, sign, k, v in cells:
        if all(at <= until for at, until in zip(rounds, time, strict=False)):
            result[k, v] += sign
    return nonzero(result)


def change(rng: random.Random, engine: Engine) -> None:
    for table in ("left", "right"):
        rows = engine.contents(table)
        if rng.random() < 0.7:
            engine.insert(table, *(cell(rng) for _ in range(rng.randint(1, 3))))
        if rows and rng.random() < len(rows) / 12:
            engine.delete(table, *rng.sample(rows, rng.randint(1, min(3, len(rows)))))


def cell(rng: random.Random) -> Row:
    sign = rng.choice((1, 1, 1, -1))
    return (*(rng.randint(0, LAST) for _ in range(ROUNDS)), sign, rng.randint(0, 1), rng.randint(0, 2))


def decoded(engine: Engine, case: Case, rows: Rows) -> Rows:
    if not case.text:
        return rows
    text = engine.worker.dictionary.get
    return Counter({(*row[:-1], text(row[-1])): n for row, n in rows.items()})


def nonzero(rows: Rows) -> Rows:
    return Counter({row: n for row, n in rows.items() if n})


@pytest.mark.parametrize(
    ("rounds", "shared", "late"),
    [(1, False, False), (1, True, True), (2, False, True), (2, True, False), (3, False, True)],
)
@pytest.mark.parametrize("name", CASES)
def test_operator_at_every_point(
    name: str, rounds: int, shared: bool, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kpg.runtime.operators.loop.PATIENCE", 0 if late else 1)
    case = CASES[name]
    plan = lattice(case, rounds, shared=shared)
    rng = random.Random(f"{name} {rounds} {shared} {late}")
    engine = Engine()
    if late:
        for _ in range(3):
            change(rng, engine)
            engine.step()
    engine.worker.watch(engine.install("view", plan))
    engine.install("failing", failing())
    state = engine.rows("view")
    assert decoded(engine, case, state) == expected(engine, case, rounds, shared=shared)
    for _ in range(STEPS[rounds]):
        truths: dict[int, Rows] = {}
        for _ in range(rng.choice((1, 1, 2, 4))):
            change(rng, engine)
            if engine.worker.close_epoch():
                epoch = engine.worker.epoch + len(truths) + 1
                truths[epoch] = expected(engine, case, rounds, shared=shared)
        if rng.random() < 0.2:
            engine.insert("poison", (0, 1))
            with pytest.raises(DataError):
                engine.step()
            continue
        engine.step()
        changes = engine.drain("view")
        for epoch, truth in truths.items():
            state = nonzero(sums(state, changes.pop(epoch, Counter()), 1))
            assert decoded(engine, case, state) == truth, epoch
        assert not changes
        assert nonzero(engine.rows("view")) == state


def failing() -> Plan:
    """A loop that cannot end in time as soon as its table has a row."""
    build = Builder()
    edges = build.linear(build.table("poison"), (0, 1))
    return build.plan(loops.closure(build, edges, build.constant((0,)), limit=2, error_at_limit=True))
