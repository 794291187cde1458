"""Time limits and levels of isolation: what is neither is refused, as in silence it would be none."""

from collections.abc import Iterator

import pytest

import kpg
from kpg.runtime.errors import Error, ProgrammingError, Span
from kpg.session.session import Session
from kpg.session.setting_values import parse_boolean, parse_duration, validate

NOWHERE = Span("", 0, 0)


@pytest.fixture
def sessions() -> Iterator[tuple[Session, Session]]:
    with kpg.connect() as db, db.session() as one, db.session() as other:
        one.sql("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        yield one, other


def counted(session: Session) -> int:
    result = session.sql("SELECT count(*) FROM t")
    assert result is not None
    return int(result.fetchall()[0][0])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("250", 0.25), ("1.5s", 1.5), (" 2 min", 120.0), ("1h", 3600.0), ("x", 0.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_words_for_on_and_off() -> None:
    assert [parse_boolean("jit", word, NOWHERE) for word in ("TRUE", "ye", "1", "of", "f")] == ["on"] * 3 + [
        "off"
    ] * 2


@pytest.mark.parametrize("name", ["statement_timeout", "lock_timeout", "idle_session_timeout"])
@pytest.mark.parametrize("value", ["abc", "-1", "", "10S", "3000000000", "1 week"])
def test_what_is_no_time_limit_is_refused(sessions: tuple[Session, Session], name: str, value: str) -> None:
    for statement in (f"SET {name} = '{value}'", f"SELECT set_config('{name}', '{value}', false)"):
        with pytest.raises(ProgrammingError, match=f'invalid value for parameter "{name}"') as raised:
            sessions[0].sql(statement)
        assert raised.value.sqlstate == "22023"


def test_what_is_no_level_is_refused() -> None:
    with pytest.raises(ProgrammingError, match='"default_transaction_isolation": "repeatble read"'):
        validate("default_transaction_isolation", "repeatble read", NOWHERE)


@pytest.mark.parametrize(
    ("before", "begin"),
    [
        ("SET default_transaction_isolation = 'REPEATABLE READ'", "BEGIN"),
        ("SELECT set_config('default_transaction_isolation', 'Serializable', false)", "BEGIN"),
        ("SELECT 1", "BEGIN; SET transaction_isolation = 'repeatable read'"),
        ("SELECT 1", "BEGIN; SET LOCAL transaction_isolation TO SERIALIZABLE"),
        ("SELECT 1", "BEGIN; BEGIN ISOLATION LEVEL REPEATABLE READ"),
    ],
)
def test_a_level_holds_however_it_is_set(sessions: tuple[Session, Session], before: str, begin: str) -> None:
    one, other = sessions
    one.sql(before)
    one.sql(begin)
    assert counted(one) == 0
    other.sql("INSERT INTO t VALUES (1)")
    assert counted(one) == 0
    one.sql("COMMIT")
    assert counted(one) == 1


def test_a_level_that_is_set_is_over_with_its_transaction(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    one.sql(
        "BEGIN; SET transaction_isolation = 'repeatable read'; COMMIT; "
        "SET transaction_isolation = 'serializable'"
    )
    one.sql("BEGIN; SELECT count(*) FROM t")
    other.sql("INSERT INTO t VALUES (1)")
    assert counted(one) == 1


@pytest.mark.parametrize(
    "late", ["BEGIN ISOLATION LEVEL SERIALIZABLE", "SET transaction_isolation = 'serializable'"]
)
def test_a_level_comes_before_what_a_transaction_does(sessions: tuple[Session, Session], late: str) -> None:
    one, _ = sessions
    one.sql("BEGIN")
    one.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(Error, match="before any query") as raised:
        one.sql(late)
    assert raised.value.sqlstate == "25001"
    with pytest.raises(Error, match="rolled back by an earlier error"):
        one.sql("INSERT INTO t VALUES (2)")
