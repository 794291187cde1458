"""A row that refers to none is never committed, however the statements of two sessions interleave.

Postgres locks the row that is referred to, so that the second session waits and then fails; here keys are
looked at again at the commit, which fails.
"""

from collections.abc import Iterator
from itertools import combinations, product

import pytest

import kpg

CHILDREN = ("insert into child values (10, 1)", "update child set parent = 1 where id = 5")
PARENTS = ("delete from parent where id = 1", "update parent set id = 9 where id = 1")
RULES = (
    "",
    "deferrable initially deferred",
    "on delete cascade on update cascade",
    "on delete set null on update set null",
)
SETUP = """
    create table parent (id int primary key);
    create table child (id int primary key, parent int references parent {});
    insert into parent values (1), (2);
    insert into child values (5, 2)
"""
ORPHANS = "select * from child where parent is not null and parent not in (select id from parent)"


def interleavings() -> Iterator[list[int]]:
    """The orders of three statements of each of two sessions."""
    for places in combinations(range(6), 3):
        yield [0 if place in places else 1 for place in range(6)]


def run(level: str, rule: str, changes: tuple[str, str], order: list[int]) -> tuple[int, list[object]]:
    """How many statements failed, and the rows that refer to none in the end."""
    with kpg.connect() as db:
        db.sql(SETUP.format(rule))
        sessions = [db.session(), db.session()]
        left = [iter([f"begin isolation level {level}", change, "commit"]) for change in changes]
        failed = 0
        for one in order:
            try:
                sessions[one].sql(next(left[one]))
            except kpg.IntegrityError:
                failed += 1
        for session in sessions:
            session.close()
        return failed, list(db.query(ORPHANS).fetchall())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_no_orphan_is_committed(level: str, rule: str) -> None:
    failed = 0
    for number, changes in enumerate(product(CHILDREN, PARENTS)):
        for order in list(interleavings())[number % 2 :: 2]:
            errors, orphans = run(level, rule, changes, order)
            assert not orphans, (changes, order)
            failed += errors
    assert failed
