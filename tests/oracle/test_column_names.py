"""Columns of a query without AS have the names that they have in Postgres."""

import psycopg
import pytest

import kpg
from tests.oracle.postgres import serving

EXPRESSIONS = """
    version() | date_trunc('day', now()) | string_agg('a', ',') | array_agg(1) | bool_and(true) |
    every(true) | json_agg(1) | jsonb_build_object('a', 1) | to_char(now(), 'YYYY') |
    to_date('2020', 'YYYY') | age(now()) | now()::date | date '2020-01-01' | timestamp '2020-01-01' |
    interval '1 day' | current_timestamp | now() | current_time | localtimestamp | clock_timestamp() |
    random() > 2 | pi() | abs(-1) | ceil(1.5) | ceiling(1.5) | floor(1.5) | round(1.5) | trunc(1.5) |
    power(2, 3) | pow(2, 3) | mod(5, 3) | 5 % 3 | length('a') | char_length('a') |
    character_length('a') | octet_length('a') | lpad('a', 3) | left('a', 1) | ltrim(' a') |
    btrim(' a ') | trim(both 'x' from 'xax') | replace('a', 'b', 'c') | split_part('a,b', ',', 1) |
    strpos('a', 'a') | position('a' in 'a') | substr('abc', 1) | substring('abc' from 1) | initcap('a') |
    concat('a', 'b') | md5('a') | overlay('abc' placing 'x' from 1) | regexp_replace('a', 'a', 'b') |
    format('%s', 1) | array_length(array[1], 1) | unnest(array[1]) | row_number() over () |
    lag(1) over () | max(1) | stddev(1) | percentile_cont(0.5) within group (order by 1) | 1 = 1 |
    not true | 1 in (1) | null is null | -1 | 1.5 | true | null | '{"a": 1}'::jsonb -> 'a' | array[1] |
    (array[1, 2])[1] | cast(1 as text) | 1::numeric(10, 2) | 'x' collate "C" | coalesce(1, 2)::text |
    extract(epoch from now()) | greatest(1, 2) | nullif(1, 2) | pg_typeof(1) |
    current_setting('timezone') | gen_random_uuid() | (select 1) | (select max(1)) | exists (select 1) |
    array(select 1) | row(1, 2) | (1, 2) | case 1 when 1 then 2 end |
    case when true then lower('a') else upper('b') end | count(*) filter (where true) |
    now() at time zone 'UTC' | timezone('UTC', now()) | lower('A') || 'b' | current_user | user |
    current_schema | current_catalog | session_user
"""


def test_names_are_those_of_postgres(tmp_path_factory: pytest.TempPathFactory) -> None:
    expressions = [one.strip() for one in EXPRESSIONS.replace("||", "\0").split("|")]
    queries = [f"select {one}".replace("\0", "||") for one in expressions]
    with (
        serving(tmp_path_factory.mktemp("postgres")) as address,
        psycopg.connect(address, autocommit=True) as postgres,
        kpg.connect() as db,
    ):
        expected = {}
        for query in queries:
            description = postgres.execute(query.encode()).description
            assert description is not None
            expected[query] = description[0].name
        assert {query: db.query(query).columns[0] for query in queries} == expected
