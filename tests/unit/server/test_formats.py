"""What is sent, byte by byte, is what a real Postgres sends, as text and in binary; and so are parameters."""

import select
from collections.abc import Iterator

import pytest
from psycopg import pq

from tests.unit.server.conftest import Running, beside

VALUES = [
    "1::smallint, -2::int, 3000000000::bigint, null::int",
    "true, false, null::boolean",
    "1.5::real, -2.25::float8, 'Infinity'::float8, 'NaN'::float8, 1e300::float8",
    "12.34::numeric(10,2), -0.05::numeric(10,2), 123456789.01::numeric(18,2)",
    "10000::numeric(9,0), 1000000.0001::numeric(18,4), 0.0001::numeric(18,4), -9999.9999::numeric(18,4)",
    "'NaN'::numeric, 123456789012345678901234567890::numeric, 0.000000000000000000001::numeric",
    "'abc'::text, ''::text, 'żółw'::varchar(10), 'ab'::char(5), null::text",
    "date '2000-01-01', date '1999-12-31', date '2024-02-29', date '0001-01-01'",
    "timestamp '2000-01-01 00:00:00', timestamp '1969-12-31 23:59:59.999999'",
    "timestamptz '2020-05-06 07:08:09.123456+02', time '23:59:59.5', time '00:00:00'",
    "interval '1 year 2 months 3 days 04:05:06.789', interval '-1 month', interval '0'",
    "'00112233-4455-6677-8899-aabbccddeeff'::uuid, '\\x00ff10'::bytea, ''::bytea",
    '\'{"a": [1, 2.50, null]}\'::json, \'{"b": 1, "a": [true]}\'::jsonb',
    "array[1, null, 3], array['a', 'b c', null, '{}', ''], array[[1, 2], [3, 4]], '{}'::int[]",
    "array[1.5, 2.5]::numeric(5,1)[], array[true, false], array[date '2000-01-02'], array[1.5::float8]",
    "123456789012345678901234567890.123456789::numeric, -1234567890123456789012345678901234567890.5::numeric",
    "'Infinity'::numeric, '-Infinity'::numeric, 1e131071::numeric, 1e-16383::numeric",
    "'infinity'::date, '-infinity'::date, 'infinity'::timestamp, '-infinity'::timestamp",
    "'infinity'::timestamptz, '-infinity'::timestamptz, '0044-03-15 BC'::timestamp, '4714-11-24 BC'::date",
    "array['infinity', null, '2000-01-01']::date[], array['-infinity']::timestamptz[]",
]
SPELLED = [
    "bit '10110', '1'::varbit(9), ''::varbit, x'1f0'",
    "timetz '12:00:00.5-03:30', '16/B374D848'::pg_lsn",
    "inet '10.0.0.1/8', cidr '10/8', inet '::1', macaddr '08:00:2b:01:02:03', '08:00:2b:01:02:03'::macaddr8",
    "int4range(1, 5), int8range(null, 5), numrange(1.5, 2.50, '(]'), 'empty'::daterange, tsrange(null, null)",
    "'{[1,3),[5,7)}'::int4multirange, '{}'::nummultirange",
]
SENT = [
    *VALUES,
    *SPELLED,
    "0::numeric(10,2), 5::numeric(18,4), array[1.5, 2]::numeric(5,1)[], (1, 'a b'::text, true)",
]


@pytest.fixture(scope="module")
def connections(
    running: Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[pq.PGconn, pq.PGconn]]:
    with beside(running, tmp_path_factory.mktemp("postgres")) as (ours, theirs):
        theirs.execute("set timezone to 'UTC'")
        yield ours.pgconn, theirs.pgconn


def sent(connection: pq.PGconn, query: str, form: int) -> list[bytes | None]:
    result = connection.exec_params(query.encode(), None, result_format=form)
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
    return [result.get_value(0, place) for place in range(result.nfields)]


@pytest.mark.parametrize("form", [0, 1], ids=["text", "binary"])
@pytest.mark.parametrize("values", SENT)
def test_values_are_sent_as_postgres_sends_them(
    connections: tuple[pq.PGconn, pq.PGconn], values: str, form: int
) -> None:
    ours, theirs = (sent(one, f"select {values}", form) for one in connections)
    assert ours == theirs


@pytest.mark.parametrize("values", [*VALUES, *SPELLED])
def test_types_have_postgres_numbers(connections: tuple[pq.PGconn, pq.PGconn], values: str) -> None:
    found = []
    for one in connections:
        result = one.exec_params(f"select {values}".encode(), None)
        found.append([(result.ftype(place), result.fsize(place)) for place in range(result.nfields)])
    assert found[0] == found[1]


@pytest.mark.parametrize("values", [*VALUES, *SPELLED])
def test_parameters_are_read_as_they_were_sent(connections: tuple[pq.PGconn, pq.PGconn], values: str) -> None:
    ours, theirs = connections
    whole = theirs.exec_params(f"select {values}".encode(), None, result_format=1)
    numbers = [whole.ftype(place) for place in range(whole.nfields)]
    fields = [whole.get_value(0, place) for place in range(whole.nfields)]
    places = ", ".join(f"${place + 1}" for place in range(len(fields)))
    result = ours.exec_params(
        f"select {places}".encode(),
        fields,
        param_types=numbers,
        param_formats=[1] * len(fields),
        result_format=0,
    )
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
    texts = [result.get_value(0, place) for place in range(result.nfields)]
    plain = theirs.exec_params(f"select {values}".encode(), None)
    assert texts == [plain.get_value(0, place) for place in range(plain.nfields)]


def test_binary_parameters_without_a_type_are_of_the_type_that_they_meet(
    connections: tuple[pq.PGconn, pq.PGconn],
) -> None:
    given = [b"1234", b"\0\0\0\0\0\0\0\7", b"\x40\x14\0\0\0\0\0\0", b"abcd"]
    for one in connections:
        one.exec_(b"create temp table met (a int, b bigint, c float8, d text)")
        filled = one.exec_params(b"insert into met values ($1, $2, $3, $4)", given, None, [1] * 4)
        assert filled.status == pq.ExecStatus.COMMAND_OK, filled.error_message
        asked = one.exec_params(
            b"select a, b, c, d, $1::int + 1 from met where a = $1 and b = $2", given[:2], None, [1, 1]
        )
        assert asked.status == pq.ExecStatus.TUPLES_OK, asked.error_message
        row = [asked.get_value(0, place) for place in range(5)]
        assert row == [b"825373492", b"7", b"5", b"abcd", b"825373493"]


@pytest.mark.parametrize(("value", "form"), [(b"a\0b", 1), (b"\xff\xfe", 0)], ids=["zero", "no text"])
def test_what_is_no_text_is_refused(
    connections: tuple[pq.PGconn, pq.PGconn], value: bytes, form: int
) -> None:
    for query, number in ((b"select $1::text", 0), (b"select $1", 25), (b"select length($1)", 25)):
        found = [one.exec_params(query, [value], [number], [form]) for one in connections]
        assert [one.error_field(pq.DiagnosticField.SQLSTATE) for one in found] == [b"22021"] * 2
        texts = [one.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) for one in found]
        assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "query",
    [
        "select a from meet where b in ($1, $2) and c between $3 and $4 and ($5::int is null or a = $5)",
        "select a, $1::int + 1 from meet where a = $1 and b = $2",
        "select a from meet where ($1::bool or b = $2) and ($1::bool is null or not $1::bool or c = $3)",
        "select $1::date + $2::int from meet where c = $3 and ($4::text is null or d = $4)",
    ],
)
def test_types_are_found_beside_parameters_that_are_cast(
    connections: tuple[pq.PGconn, pq.PGconn], query: str
) -> None:
    found = []
    for one in connections:
        one.exec_(b"create temp table if not exists meet (a int, b bigint, c float8, d text)")
        one.prepare(b"", query.encode())
        found.append(described(one, b""))
    assert found[0] == found[1]


def described(connection: pq.PGconn, name: bytes) -> list[int]:
    """The types of a prepared statement's parameters; libpq would wait for them with Python's lock."""
    connection.send_describe_prepared(name)
    connection.flush()
    while connection.is_busy():
        select.select([connection.socket], [], [])
        connection.consume_input()
    told = connection.get_result()
    assert told is not None
    assert connection.get_result() is None
    return [told.param_type(place) for place in range(told.nparams)]
