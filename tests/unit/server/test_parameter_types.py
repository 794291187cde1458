"""The types of parameters that a client gives none for, in statements at random, beside a real Postgres."""

import random
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import pq
from psycopg.generators import execute

from tests.oracle.postgres import serving as serving_postgres
from tests.unit.server.conftest import Running

TABLE = """
create table p (i int, s smallint, b bigint, n numeric(10,2), r real, d double precision, t text,
    v varchar(20), c char(5), f boolean, da date, ti time, ts timestamp, tz timestamptz, iv interval, u uuid,
    j json, jb jsonb, raw bytea, ai int[], at text[], ip inet)
"""
COLUMNS = (
    *("i", "s", "b", "n", "r", "d", "t", "v", "c", "f", "da", "ti", "ts", "tz", "iv", "u", "jb", "raw"),
    *("ai", "at", "ip"),
)
"""Those that are compared; JSON is not."""
NUMBERS, TEXTS, MOMENTS = ("i", "s", "b", "n", "r", "d"), ("t", "v", "c"), ("da", "ts", "tz")
VALUES = (
    "abs({p})",
    "abs({n} - {p})",
    "round({n}, {p})",
    "{n} + {p}",
    "{n} * {p}",
    "{n} - {p}",
    "{n} / {p}",
    "-{p}::int",
    "mod(i, {p})",
    "i % {p}",
    "i & {p}",
    "b | {p}",
    "i << {p}",
    "power({p}, d)",
    "sqrt({p})",
    "sign({p})",
    "length({p})",
    "upper({p})",
    "lower({p}) || {x}",
    "{x} || {p}",
    "substring({x}, {p}, {p})",
    "left({x}, {p})",
    "split_part({x}, {p}, {p})",
    "lpad({x}, {p}, {p})",
    "repeat({p}, i)",
    "replace({x}, {p}, {p})",
    "concat({x}, {p})",
    "position({p} in {x})",
    "trim({p})",
    "md5({p})",
    "strpos({x}, {p})",
    "chr({p})",
    "to_number({p}, '9')",
    "to_char({n}, {p})",
    "to_char(ts, {p})",
    "to_date({p}, {p})",
    "to_timestamp({p}, {p})",
    "to_timestamp({p})",
    "date_trunc({p}, {m})",
    "extract(year from {p}::date)",
    "make_date({p}, {p}, {p})",
    "{m} + {p}::interval",
    "iv * {p}",
    "iv + {p}",
    "{m} - {p}::interval",
    "age(ts, {p})",
    "date_part({p}, ts)",
    "make_interval(days => {p})",
    "coalesce({c}, {p})",
    "nullif({n}, {p})",
    "greatest({o}, {p})",
    "case when {p} then {c} else {p} end",
    "case {o} when {p} then 1 else {p} end",
    "array_append(ai, {p})",
    "array_append({p}, i)",
    "ai || {p}",
    "at[{p}]",
    "array_position(ai, {p})",
    "array_remove(at, {p})",
    "cardinality(ai || {p}::int)",
    "array_to_string(at, {p})",
    "string_to_array({p}, {p})",
    "array_length(ai, {p})",
    "jb -> {p}::text",
    "jb ->> {p}::int",
    "jb -> 'a' -> {p}::text",
    "jb #> {p}",
    "jb #>> {p}",
    "jb || {p}",
    "jsonb_set(jb, {p}, {p})",
    "jb - {p}::text",
    "jsonb_typeof({p})",
    "jsonb_extract_path(jb, {p})",
    "encode(raw, {p})",
    "decode({p}, 'hex')",
    "{p}::{k}",
    "cast({p} as {k})",
    "count({c})",
    "max({n})",
    "sum(i + {p})",
    "string_agg(t, {p})",
    "avg(abs({p}))",
    "array_agg({c})",
    "lag({c}, {p}) over (order by i)",
    "ntile({p}) over (order by i)",
    "host(ip)",
    "masklen({p})",
    "ip + {p}",
    "generate_series(1, {p})",
    "row_number() over (order by {o})",
    "sum(abs({p}))",
    "jsonb_build_object('a', jb >= {p})",
)
CONDITIONS = (
    "{o} = {p}",
    "{o} <> {p}",
    "{o} < {p}",
    "{p} >= {o}",
    "{o} between {p} and {p}",
    "{o} in ({p}, {p})",
    "{o} not in ({p})",
    "{o} is distinct from {p}",
    "{o} = any({p})",
    "{o} <> all({p})",
    "{x} like {p}",
    "{x} ilike {p}",
    "{x} ~ {p}",
    "{x} similar to {p}",
    "jb @> {p}",
    "{p} <@ jb",
    "ai @> {p}",
    "ai && {p}",
    "at <@ {p}",
    "{p}",
    "not {p}",
    "f and {p}",
    "f or {p}",
    "{p} is null",
    "{p} = 1",
    "{p} > 2.5",
    "{p}::int = i",
    "i = {p} + 1",
    "da > {p} ::date",
    "exists (select 1 from p q where q.i = {p})",
    "i in (select b from p where t = {p})",
    "(i, t) = ({p}, {p})",
    "f = ({o} > {p})",
    "('a' ~ {p}::text) in ({p}, {p})",
    "ip << {p}",
    "coalesce(f, {p})",
    "starts_with({x}, {p})",
    "date_trunc('day', ts) = {p}",
    "lower({x}) = {p}",
    "{n} + 1 > {p}",
    "length({x}) < {p}",
    "jb ->> 'a' = {p}",
)
KINDS = (
    *("int", "bigint", "smallint", "numeric", "text", "date", "timestamp", "timestamptz", "interval"),
    *("uuid", "jsonb", "bytea", "boolean", "real", "int[]"),
)


def statement(seed: int) -> str:
    """One statement, most of them such as Postgres takes."""
    draw = random.Random(seed)
    count = 0

    def part(choices: tuple[str, ...]) -> str:
        nonlocal count
        text = draw.choice(choices)
        for letter, known in (
            *(("n", NUMBERS), ("x", TEXTS), ("m", MOMENTS), ("o", COLUMNS), ("c", COLUMNS), ("k", KINDS)),
        ):
            text = text.replace("{" + letter + "}", draw.choice(known))
        while "{p}" in text:
            count += 1
            text = text.replace("{p}", f"${count}", 1)
        return text

    match draw.randrange(10):
        case 0 | 1 | 2:
            return f"select {part(VALUES)} from p"
        case 3 | 4 | 5 | 6:
            return f"select i from p where {part(CONDITIONS)}" + (
                f" and {part(CONDITIONS)}" if draw.random() < 0.4 else ""
            )
        case 7:
            names = draw.sample(COLUMNS, draw.randrange(1, 4))
            given = [part(("{p}", "{p}", "{p}::text", "null", f"coalesce({{p}}, {name})")) for name in names]
            given = [one if "(" not in one else part(("{p}",)) for one in given]
            return f"insert into p ({', '.join(names)}) values ({', '.join(given)})"
        case 8:
            return f"update p set {draw.choice(COLUMNS)} = {part(('{p}',))} where {part(CONDITIONS)}"
        case _:
            counts = ("{p}", "{p}::int", "{p} + 1", "3")
            return (
                f"delete from p where {part(CONDITIONS)}"
                if draw.random() < 0.5
                else (f"select {part(VALUES)} from p limit {part(counts)} offset {part(counts)}")
            )


def told(connection: psycopg.Connection, text: str) -> tuple[object, ...]:
    """The types of parameters and columns, or the error."""
    # libpq's own functions that wait keep the lock of the interpreter, which a server in a thread needs.
    wire = connection.pgconn
    wire.send_prepare(b"", text.encode())
    (found,) = connection.wait(execute(wire))
    if found.status == pq.ExecStatus.COMMAND_OK:
        wire.send_describe_prepared(b"")
        (found,) = connection.wait(execute(wire))
    if found.status != pq.ExecStatus.COMMAND_OK:
        message = found.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
        return ("refused", message.decode())
    types = tuple(found.param_type(place) for place in range(found.nparams))
    return types, tuple(found.ftype(place) for place in range(found.nfields))


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    with (
        serving_postgres(tmp_path_factory.mktemp("postgres")) as address,
        psycopg.connect(address, autocommit=True) as connection,
    ):
        connection.execute(TABLE.encode())
        yield connection


def test_types_are_those_that_postgres_finds(postgres: psycopg.Connection, running: Running) -> None:
    running.db.sql(TABLE)
    same, different = 0, []
    with psycopg.connect(running.dsn, autocommit=True) as connection:
        for seed in range(600):
            text = statement(seed)
            there = told(postgres, text)
            if there[0] == "refused":
                continue
            here = told(connection, text)
            same += here == there
            different += [(text, there, here)] if here != there else []
    assert different == []
    assert same > 500
