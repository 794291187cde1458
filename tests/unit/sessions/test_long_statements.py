"""Long statements of every kind can be ended in the middle: at a safe point, after which all is as before."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kpg
from kpg.execute.changes import foreign_keys
from kpg.execute.definitions.alter_table import CONVERTED_ROWS
from kpg.runtime import interrupts
from kpg.runtime.errors import CanceledError
from kpg.session import cancel
from kpg.session.session import Session
from tests.unit.sessions.conftest import rows

ROWS = 400
STATEMENTS = (
    "select a, upper(s) || b from t",
    "select count(distinct s || b) from t",
    "select jsonb_build_object('a', a, 's', s) from t",
    "select sum(n * n) from t group by b",
    "create materialized view v as select a, reverse(s) as s from t",
    "create materialized view v as select b, string_agg(s || n, ',') as s from t group by b",
    "create table u as select a, s || s as s from t",
    "insert into p select a + 1000, s || 'x', (n || '1')::numeric from t",
    "update p set s = upper(s) || a",
    "alter table p alter column a type text",
    "alter table p add check (length(s) + a > 0)",
    "alter table p add foreign key (a) references t (a)",
    "copy p from '{file}' with (format csv)",
    "copy (select s || 'x' from t) to '{target}' with (format csv)",
)


class Looks:
    """Counts the looks at whether the statement has to end, and ends it at one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.last = 0

    def __call__(self, tokens: Sequence[cancel.CancelToken], end: float) -> None:
        """Look."""
        self.count += 1
        if self.count == self.last:
            raise CanceledError("canceling statement due to user request")


def session_of() -> Session:
    result = kpg.connect().session()
    result.sql("create table t (a int primary key, b int, s text, n numeric)")
    result.sql(f"insert into t select i, i % 7, 'word ' || i, i / 3.0 from generate_series(1, {ROWS}) g(i)")
    result.sql("create table p (a int, s text, n numeric); insert into p select a, s, n from t")
    return result


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
def test_it_ends_in_the_middle(statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("".join(f"{number},word {number}!,{number}.5\n" for number in range(ROWS)))
    text = statement.format(file=file, target=tmp_path / "target.csv")
    looks = Looks()
    monkeypatch.setattr(cancel, "_check_limits", looks)
    monkeypatch.setattr(interrupts, "PIECE", 16)
    monkeypatch.setattr(foreign_keys, "KEYS_AT_ONCE", 16)
    session, contents = session_of(), "select count(*), sum(a), min(s), max(s), sum(n) from p"
    before = rows(session, contents)
    looks.count = 0
    session.sql(text)
    count = looks.count
    assert count > ROWS // 32
    for part in (2, 4, 8):
        session = session_of()
        session.sql("begin; savepoint s")
        looks.count, looks.last = 0, count // part
        with pytest.raises(CanceledError):
            session.sql(text)
        looks.last = 0
        session.sql("rollback to s; commit")
        assert rows(session, contents) == before
        session.sql(text)


def test_alter_column_type_ends_between_pieces_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    total = 3 * CONVERTED_ROWS + 1
    with kpg.connect() as db:
        db.sql(f"create table t (a int); insert into t select i from generate_series(1, {total}) as g (i)")
        executor, converted = db._engine.executor, list[int]()
        evaluate = executor.evaluate

        def count_rows(mfp: Any, words: Any) -> Any:
            converted.append(words.shape[1])
            if len(converted) == 2:
                one.cancel()
            return evaluate(mfp, words)

        one = db.session()
        monkeypatch.setattr(executor, "evaluate", count_rows)
        with pytest.raises(CanceledError):
            one.sql("alter table t alter column a type bigint")
        assert converted == [CONVERTED_ROWS] * 2
        one.sql("alter table t alter column a type bigint using a + 1")
        assert converted[2:] == [*[CONVERTED_ROWS] * 3, 1]
        assert db.query("select count(distinct a), min(a), max(a) from t").fetchall() == [
            (total, 2, total + 1)
        ]
