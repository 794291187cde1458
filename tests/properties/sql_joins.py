"""Random joins: equalities over several relations, disconnected graphs, self-joins, ranges, subqueries."""

import random
from collections.abc import Sequence
from typing import Final

TABLES: Final = {
    "t": (("a integer", "b integer", "c integer"), "a"),
    "u": (("a integer", "b integer"), None),
    "k": (("a integer", "b integer", "c integer"), "a, b"),
}
"""Columns and primary key of each table."""
COLUMNS: Final = {
    name: tuple(column.split()[0] for column in columns) for name, (columns, _) in TABLES.items()
}
DERIVED: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("(select b, count(*) as n from t group by b)", ("b", "n")),
    ("(select distinct b, c from k)", ("b", "c")),
    ("(select max(b) as m from u)", ("m",)),
    ("(select a + b as s, b from u where b is not null)", ("s", "b")),
)


def random_join(pick: random.Random, most: int = 5) -> str:
    """A query that joins two to ``most`` relations."""
    sources, scope = [], []
    for place in range(pick.randint(2, most)):
        if pick.random() < 0.2:
            text, columns = pick.choice(DERIVED)
        else:
            text = pick.choice(list(TABLES))
            columns = COLUMNS[text]
        sources.append(f"{text} as r{place}")
        scope.append([f"r{place}.{column}" for column in columns])
    predicates = [_predicate(pick, scope) for _ in range(pick.randint(0, len(scope) + 1))]
    outputs = [_sum(pick, scope, pick.choice((1, 1, 2))) for _ in range(pick.randint(1, 3))]
    listed = ", ".join(f"{output} as c{place}" for place, output in enumerate(outputs))
    where = f" where {' and '.join(predicates)}" if predicates else ""
    return f"select {listed} from {', '.join(sources)}{where}"


def _sum(pick: random.Random, scope: Sequence[Sequence[str]], size: int) -> str:
    """A column, or the sum of columns of different relations."""
    chosen = pick.sample(scope, min(size, len(scope)))
    return " + ".join(pick.choice(columns) for columns in chosen)


def _predicate(pick: random.Random, scope: Sequence[Sequence[str]]) -> str:
    """Most often an equality, its sides over one or two relations each."""
    chance = pick.random()
    left, right = (_sum(pick, scope, pick.choice((1, 1, 2))) for _ in range(2))
    if chance < 0.6:
        return f"{left} = {right}"
    if chance < 0.7:
        return f"{left} is not distinct from {right}"
    if chance < 0.85:
        return f"{left} {pick.choice(('<', '<=', '>', '>=', '<>'))} {right}"
    if chance < 0.95:
        return f"{left} = {pick.randint(0, 4)}"
    return f"({left} = {right} or {_sum(pick, scope, 1)} = {pick.randint(0, 3)})"


def random_row(pick: random.Random, table: str, most: int = 4) -> tuple[int | None, ...]:
    """A row of small numbers and, outside the key, NULLs."""
    key = (TABLES[table][1] or "").split(", ")
    return tuple(
        None if column not in key and pick.random() < 0.15 else pick.randint(0, most)
        for column in COLUMNS[table]
    )
