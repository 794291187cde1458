"""Rows of recursions have right proofs with workers, too: by the oracles of those that have one."""

import random
from typing import Any

import pytest

import kpg
from tests.properties import test_proofs as proofs
from tests.properties import test_why as why
from tests.properties.programs import WRITTEN, random_program
from tests.properties.test_workers import many

CLOSURE = (
    "with recursive p(x, y) as (select x, y from e union select p.x, e.y from p join e on p.y = e.x)"
    " select x, y from p"
)


@pytest.mark.parametrize(("count", "common"), [(2, True), (3, False)])
def test_programs(count: int, common: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kpg, "connect", lambda: many(count, count, common=common))
    for seed, text in enumerate((*list(WRITTEN.values())[count::9], *map(random_program, range(40, 42)))):
        proofs._as_facts_change(text, random.Random(seed))


@pytest.mark.parametrize("common", [True, False])
def test_rows_of_views(common: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kpg, "connect", lambda: many(2, 3, common=common))
    choice = random.Random(5)
    for query in (*why.GROWING[6:8], why.OTHERS[4]):
        contents: dict[str, list[tuple[Any, Any]]] = {
            name: [(choice.randrange(4), choice.randrange(4)) for _ in range(6)] for name in why.TABLES
        }
        with why._database(contents, query) as db:
            assert all(any(named.values()) for named in why._check(db, query))
            db.sql("DELETE FROM r WHERE a = 1; UPDATE t SET c = 2 WHERE c = 3")
            list(why._check(db, query))


@pytest.mark.parametrize("common", [True, False])
def test_a_recursion_over_text_is_explained_by_the_rows_of_its_first_rounds(common: bool) -> None:
    said = []
    for db in (kpg.connect(), many(3, 1, common=common)):
        with db:
            db.sql("create table e(x text, y text, primary key (x, y))")
            db.sql("insert into e select 'n' || i, 'n' || i + 1 from generate_series(1, 9) i(i)")
            db.sql("insert into e values ('n5', 'n2')")
            db.sql(f"create materialized view p as {CLOSURE}")
            said.append(str(db.explain_row("p", ("n1", "n7"))))
            db.sql("delete from e where x = 'n9'; insert into e values ('n1', 'n7')")
            said.append(str(db.explain_row("p", ("n1", "n7"))))
    assert said[:2] == said[2:]
    assert "n4" in said[0] and "n4" not in said[1]
