"""Command tags of statements: Postgres' names of commands."""

import pytest

from kpg.compiler.sql.parse.parser import parse


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("start transaction", "START TRANSACTION"),
        ("end", "COMMIT"),
        ("rollback to a", "ROLLBACK"),
        ("release a", "RELEASE"),
        ("reset all", "RESET"),
        ("reset role", "RESET"),
        ("set role none", "SET"),
        ("deallocate all", "DEALLOCATE ALL"),
        ("close all", "CLOSE CURSOR ALL"),
        ("discard temporary", "DISCARD TEMP"),
        ("refresh materialized view v", "REFRESH MATERIALIZED VIEW"),
        ("execute a", "EXECUTE"),
        ("explain execute a", "EXPLAIN"),
        ("create table x as execute a", "CREATE TABLE"),
        ("create or replace materialized view v as select 1", "CREATE MATERIALIZED VIEW"),
        ("drop materialized view v", "DROP MATERIALIZED VIEW"),
        ("alter index i rename to j", "ALTER INDEX"),
        ("create unique index i on t (a)", "CREATE INDEX"),
        ("create user a", "CREATE ROLE"),
        ("revoke a from b", "REVOKE ROLE"),
        ("drop owned by a", "DROP OWNED"),
        ("alter policy p on t rename to q", "ALTER POLICY"),
        ("alter default privileges grant select on tables to a", "ALTER DEFAULT PRIVILEGES"),
        ("truncate t", "TRUNCATE TABLE"),
        ("with a as (delete from t returning *) insert into t select * from a", "INSERT"),
    ],
)
def test_command_tags(text: str, tag: str) -> None:
    (statement,) = parse(text)
    assert statement.command_tag() == tag
