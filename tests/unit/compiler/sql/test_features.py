"""Features of statements: what the parser finds in the tokens."""

from typing import Any

import pytest

from kpg.compiler.sql.parse.features import NO_FEATURES, Features
from kpg.compiler.sql.parse.parser import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select a from t where b = 'random()' -- for update", {}),
        ("select random, nextval, lim from t order by 1 nulls first limit 10", {}),
        ("select Random() from t", {"calls_volatile": True}),
        ("insert into t values (pg_catalog.nextval('s'))", {"calls_volatile": True}),
        ("insert into t values (uuid_generate_v4())", {"calls_volatile": True}),
        ("update t set a = nextval /* a */ ('s')", {"calls_volatile": True}),
        ("select substring(a from 1 for 2) from t", {}),
        ("select a from t for\n update", {"locks_rows": True}),
        ("select a from t for no key update skip locked", {"locks_rows": True}),
        ("delete from t where a in (select a from t for key share)", {"locks_rows": True}),
        ("select a from t limit (select 1)", {"evaluates_early": True}),
        ("select current_setting('a.b')", {"evaluates_early": True, "reads_system": True}),
        ("select pg_try_advisory_lock(1)", {"evaluates_early": True, "reads_system": True}),
        ("select pg_sleep(1)", {"evaluates_early": True, "reads_system": True, "calls_volatile": True}),
        ("select setval('s', 1)", {"evaluates_early": True, "calls_volatile": True}),
        ("select 1 from pg_class", {"reads_system": True}),
        ("insert into pg_t values (1)", {}),
        ("select \"ctid\", TABLEOID, 'ctid' from t", {"system_columns": ("tableoid", "ctid")}),
        ("delete from t where ctid = '(0,1)'", {"system_columns": ("ctid",)}),
        ("select * from (select a from t as of 5) u", {"reads_past": True}),
        ("select a from t as of 5", {}),
        ("create materialized view v as select a, ctid from t", {"system_columns": ("ctid",)}),
        ("create table u as select a from t for share", {"locks_rows": True}),
        ("with x as (delete from t returning ctid) select * from x", {"system_columns": ("ctid",)}),
    ],
)
def test_features_of_statements(text: str, expected: dict[str, Any]) -> None:
    (statement,) = parse(text)
    assert statement.span.features == Features(**expected)  # type: ignore[union-attr]


def test_a_statement_has_its_own_features() -> None:
    """Features of another statement in the script do not count."""
    first, second = parse("select random(); select a from t")
    assert first.span.features.calls_volatile  # type: ignore[union-attr]
    assert second.span.features is NO_FEATURES  # type: ignore[union-attr]
