"""Time zones and styles of sessions in views, which keep those that they were made under."""

import pytest

import kpg
from kpg.api.database import Database


@pytest.fixture
def db() -> Database:
    db = kpg.connect()
    db.sql("CREATE TABLE t (id INT, at TIMESTAMPTZ, said TEXT, long INTERVAL)")
    return db


def test_a_view_keeps_the_zone_that_it_was_made_under(db: Database) -> None:
    db.sql("SET TIME ZONE 'America/New_York'; SET datestyle = 'German'")
    db.sql("""
        CREATE MATERIALIZED VIEW v AS
            SELECT id, at::TEXT AS at, at::DATE::TEXT AS day, said::TIMESTAMPTZ::TEXT AS said,
                (at + INTERVAL '1 day')::TEXT AS later, extract(hour FROM at) AS hour
            FROM t
    """)
    db.sql("RESET ALL")
    db.sql("INSERT INTO t VALUES (1, '2020-03-07 20:00-05', '2020-07-01 00:00', NULL)")
    expected = (
        *(1, "07.03.2020 20:00:00 EST", "07.03.2020", "01.07.2020 00:00:00 EDT"),
        *("08.03.2020 20:00:00 EDT", 20),
    )
    assert db.query("SELECT * FROM v").fetchall() == [expected]
    db.sql("SET TIME ZONE 'Asia/Tokyo'; VERIFY VIEW v")
    assert db.query("SELECT * FROM v").fetchall() == [expected]
    db.sql("DELETE FROM t")
    assert db.query("SELECT * FROM v").fetchall() == []


def test_constants_are_read_in_the_zone_of_their_session(db: Database) -> None:
    db.sql("SET TIME ZONE -8; INSERT INTO t (id, at) VALUES (1, '2020-01-01 00:00'); RESET timezone")
    assert db.query("SELECT at::TEXT FROM t").fetchall() == [("2020-01-01 08:00:00+00",)]


def test_the_same_text_is_answered_in_another_style(db: Database) -> None:
    db.sql("INSERT INTO t (id, long) VALUES (1, '-1 day 2:00')")
    asked = "SELECT long::TEXT FROM t WHERE id = 1"
    assert [db.query(asked).fetchall() for _ in range(3)] == [[("-1 days +02:00:00",)]] * 3
    db.sql("SET intervalstyle = 'iso_8601'")
    assert db.query(asked).fetchall() == [("P-1DT2H",)]
    db.sql("RESET intervalstyle")
    assert db.query(asked).fetchall() == [("-1 days +02:00:00",)]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("timezone", "Nowhere/Land"),
        ("datestyle", "roman"),
        ("intervalstyle", "x"),
        ("bytea_output", "base64"),
    ],
)
def test_what_no_setting_is_refused(db: Database, setting: str, value: str) -> None:
    with pytest.raises(kpg.ProgrammingError, match=f'invalid value for parameter "{setting}": "{value}"'):
        db.sql(f"SET {setting} = '{value}'")


def test_roles_keep_only_time_zones_that_there_are(db: Database) -> None:
    db.sql("CREATE ROLE r; ALTER ROLE r SET timezone TO '-02:00'")
    with pytest.raises(kpg.ProgrammingError, match='invalid value for parameter "timezone": "nowhere"'):
        db.sql("ALTER ROLE r SET timezone TO 'nowhere'")


def test_an_interval_as_a_time_zone_has_hours_and_minutes_only(db: Database) -> None:
    db.sql("SET TIME ZONE INTERVAL '-30' HOUR TO MINUTE")
    assert db.query("SELECT timestamptz '2020-01-01 00:00+00'::TEXT").fetchall() == [
        ("2019-12-31 23:30:00-00:30",)
    ]
    with pytest.raises(kpg.ProgrammingError, match="invalid value"):
        db.sql("SET TIME ZONE INTERVAL '1 day'")
