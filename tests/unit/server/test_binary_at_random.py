"""Values of all types at random, in both forms and both directions, beside a real Postgres.

A value is made by Postgres, which shows it as text and in binary; both forms then are parameters of both
servers, each of which gives it back in both. So it is with COPY, and with forms that were harmed.
"""

import random
import string
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import pq, sql

from tests.unit.server.conftest import Running, beside

Draw = random.Random
Maker = Callable[[Draw], str]
LETTERS = string.ascii_letters + " '\"\\,(){}[]<>&|:żół\t\n%"


def _word(draw: Draw) -> str:
    return "".join(draw.choice(LETTERS) for _ in range(draw.randrange(8)))


def _integer(bits: int) -> Maker:
    def made(draw: Draw) -> str:
        # Of 64 bits, two are no numbers in kpg.
        ends = (-(2 ** (bits - 1)) + 2 * (bits == 64), 2 ** (bits - 1) - 1, 0)
        return str(draw.choice((*ends, draw.randrange(-1000, 1000), draw.randrange(ends[0], ends[1]))))

    return made


def _number(draw: Draw) -> str:
    whole = str(draw.randrange(10 ** draw.randrange(1, 30)))
    sign, rest = draw.choice(("", "-")), "".join(draw.choice("0123456789") for _ in range(draw.randrange(12)))
    return draw.choice((f"{sign}{whole}", f"{sign}{whole}.{rest}", f"{sign}0.000{rest}", "NaN", "-Infinity"))


def _double(draw: Draw) -> str:
    odd = ("NaN", "Infinity", "-Infinity", "0", "1e-300", "0.1")
    return draw.choice((*odd, repr(draw.uniform(-1e9, 1e9)), repr(draw.random())))


def _real(draw: Draw) -> str:
    return draw.choice(("NaN", "Infinity", "0", "1e-30", "0.1", str(draw.randrange(10**6) / 64)))


def _date(draw: Draw) -> str:
    day = f"{draw.randrange(1, 5000):04d}-{draw.randrange(1, 13):02d}-{draw.randrange(1, 29):02d}"
    return draw.choice((day, day, day, f"{day} BC", "infinity", "-infinity"))


def _time(draw: Draw) -> str:
    clock = f"{draw.randrange(24):02d}:{draw.randrange(60):02d}:{draw.randrange(60):02d}"
    return draw.choice((clock, f"{clock}.{draw.randrange(10**6):06d}", "24:00:00"))


def _moment(draw: Draw) -> str:
    day = _date(draw)
    if "inf" in day:
        return day
    plain, _, era = day.partition(" ")
    return f"{plain} {_time(draw).replace('24:', '23:')}{draw.choice(('', '+02', '-03:30'))} {era}".strip()


def _zoned(draw: Draw) -> str:
    return _time(draw) + draw.choice(("+00", "+05:30", "-11", "+15:59:59", "-00:00:01"))


def _interval(draw: Draw) -> str:
    parts = [f"{draw.randrange(-999, 999)} {unit}" for unit in ("months", "days", "microseconds")]
    return " ".join(draw.sample(parts, draw.randrange(1, 4)))


def _bits(draw: Draw) -> str:
    return "".join(draw.choice("01") for _ in range(draw.randrange(20)))


def _bytes(draw: Draw) -> str:
    return "\\x" + draw.randbytes(draw.randrange(6)).hex()


def _address(draw: Draw) -> str:
    plain = ".".join(str(draw.randrange(256)) for _ in range(4))
    long = ":".join(f"{draw.randrange(2**16):x}" for _ in range(8))
    short = draw.choice((plain, f"{plain}/{draw.randrange(33)}"))
    return draw.choice((short, short, "::1", long, f"{long}/{draw.randrange(129)}", "::ffff:1.2.3.4"))


def _network(draw: Draw) -> str:
    length = draw.randrange(33)
    bits = draw.getrandbits(32) >> (32 - length) << (32 - length)
    plain = ".".join(str(bits >> shift & 255) for shift in (24, 16, 8, 0))
    return draw.choice((f"{plain}/{length}", "::/0", "2001:db8::/32"))


def _hardware(size: int) -> Maker:
    return lambda draw: draw.randbytes(size).hex(":")


def _json(draw: Draw) -> str:
    found = (
        '{"a": [1, 2.50, null, "x\\ny"]}',
        '"żó\\"ł"',
        "[]",
        "{}",
        "1e3",
        "null",
        '{"b":1,"a":{"c":true}}',
    )
    return draw.choice(found)


def _uuid(draw: Draw) -> str:
    return draw.randbytes(16).hex()


def _range(bounds: tuple[str, ...]) -> Maker:
    def made(draw: Draw) -> str:
        low, high = sorted(draw.choices(range(len(bounds)), k=2))
        ends = draw.choice(("", f'"{bounds[low]}"')), draw.choice(("", f'"{bounds[high]}"'))
        return draw.choice(("empty", f"{draw.choice('[(')}{ends[0]},{ends[1]}{draw.choice('])')}"))

    return made


def _several(one: Maker) -> Maker:
    return lambda draw: "{" + ",".join(one(draw) for _ in range(draw.randrange(4))) + "}"


WHOLE = ("-2147483648", "-5", "0", "7", "2147483646")
DAYS = ("-infinity", "0044-03-15 BC", "1999-12-31", "2024-02-29", "infinity")
MOMENTS = ("-infinity", "1999-12-31 23:59:59.5", "2000-01-01 00:00:00", "2024-02-29 01:02:03.000004")
RANGES = {
    "int4": WHOLE,
    "int8": (*WHOLE, "9223372036854775806"),
    "num": ("-1.50", "0", "0.001", "12345678901234567890.5"),
    "date": DAYS,
    "ts": MOMENTS,
    "tstz": MOMENTS,
}
MAKERS: dict[str, Maker] = {
    "smallint": _integer(16),
    "integer": _integer(32),
    "bigint": _integer(64),
    "oid": lambda draw: str(draw.choice((0, 2**32 - 1, draw.randrange(10**5)))),
    "tid": lambda draw: f"({draw.randrange(10**6)},{draw.randrange(2**16)})",
    "numeric": _number,
    "real": _real,
    "double precision": _double,
    "boolean": lambda draw: draw.choice("tf"),
    "text": _word,
    "varchar": _word,
    "bytea": _bytes,
    "date": _date,
    "time": _time,
    "timetz": _zoned,
    "timestamp": _moment,
    "timestamptz": _moment,
    "interval": _interval,
    "bit varying": _bits,
    "inet": _address,
    "cidr": _network,
    "macaddr": _hardware(6),
    "macaddr8": _hardware(8),
    "pg_lsn": lambda draw: f"{draw.randrange(2**32):X}/{draw.randrange(2**32):X}",
    "json": _json,
    "jsonb": _json,
    "uuid": _uuid,
    **{f"{name}range": _range(bounds) for name, bounds in RANGES.items()},
    **{f"{name}multirange": _several(_range(bounds)) for name, bounds in RANGES.items()},
    "mood": lambda draw: draw.choice(("sad", "so so", "glad")),
}
"""Types and what makes texts of their values, most of which are such as Postgres takes."""
DEFINITIONS = (
    "create type mood as enum ('sad', 'so so', 'glad')",
    "create type pair as (n numeric, w text, d date, a int[])",
)
Both = tuple[psycopg.Connection, psycopg.Connection]


@pytest.fixture(scope="module")
def both(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with beside(running, tmp_path_factory.mktemp("postgres")) as (ours, theirs):
        for one in (ours, theirs):
            one.execute("set timezone to 'UTC'")
            for definition in DEFINITIONS:
                one.execute(definition.encode())
        yield ours, theirs


def asked(one: psycopg.Connection, query: str, *values: bytes | None, **more: object) -> pq.abc.PGresult:
    return one.pgconn.exec_params(query.encode(), list(values), **more)  # type: ignore[arg-type]


def state(result: pq.abc.PGresult) -> bytes | None:
    return result.error_field(pq.DiagnosticField.SQLSTATE)


def number_of(one: psycopg.Connection, name: str) -> int:
    found = asked(one, "select $1::regtype::oid", name.encode()).get_value(0, 0)
    assert found is not None
    return int(found)


def forms(one: psycopg.Connection, text: str, name: str) -> list[bytes | None] | None:
    """What a text of a type is as text and in binary; None if it is none."""
    found = [asked(one, f"select $1::{name}", text.encode(), result_format=form) for form in (0, 1)]
    if found[0].status != pq.ExecStatus.TUPLES_OK:
        return None
    return [result.get_value(0, 0) for result in found]


def element(draw: Draw, make: Maker) -> str:
    text = make(draw).replace("\\", "\\\\").replace('"', '\\"')
    return "NULL" if draw.random() < 0.2 else f'"{text}"'


def arrays(make: Maker) -> Maker:
    """Texts of arrays, some of two dimensions, some that begin elsewhere than at 1."""

    def made(draw: Draw) -> str:
        width, low = draw.randrange(4), draw.choice((1, 1, 0, -3, 5))
        row = "{" + ",".join(element(draw, make) for _ in range(width)) + "}"
        if not width or draw.random() < 0.5:
            return row
        if draw.random() < 0.5:
            return f"[{low}:{low + width - 1}]={row}"
        other = "{" + ",".join(element(draw, make) for _ in range(width)) + "}"
        return f"{{{row},{other}}}"

    return made


def row(draw: Draw) -> str:
    fields = (_number(draw), _word(draw), _date(draw), arrays(_integer(16))(draw))
    doubled = (field.replace("\\", "\\\\").replace('"', '""') for field in fields)
    return "(" + ",".join(draw.choice(("", f'"{field}"')) for field in doubled) + ")"


ALL = {
    **MAKERS,
    **{f"{name}[]": arrays(make) for name, make in MAKERS.items()},
    "pair": row,
    "pair[]": arrays(row),
}


NUMBERED = ("mood", "mood[]", "pair", "pair[]", "varchar[]")
"""Types whose numbers, or those within their binary forms, are each server's own."""


@pytest.mark.parametrize("name", ALL)
def test_values_go_both_ways_in_both_forms(both: Both, name: str) -> None:
    ours, theirs = both
    draw = random.Random(name)
    numbers = [number_of(one, name) for one in both]
    taken = 0
    for _ in range(12):
        made = forms(theirs, ALL[name](draw), name)
        if made is None:
            continue
        taken += 1
        for form, value in enumerate(made):
            if form and name in NUMBERED:
                value = forms(ours, (made[0] or b"").decode(), name)[1]
            for shown in (0, 1):
                found = asked(
                    ours,
                    f"select $1::{name}" if name in NUMBERED else "select $1",
                    value,
                    param_types=[numbers[0]],
                    param_formats=[form],
                    result_format=shown,
                )
                assert found.status == pq.ExecStatus.TUPLES_OK, (made, form, found.error_message)
                expected = value if shown and name in NUMBERED and form else made[shown]
                if not (shown and name in NUMBERED and not form):
                    assert found.get_value(0, 0) == expected, (made, form)
    assert taken > 5


OWN = ("mood", "pair", "varchar[]", "mood[]", "pair[]")


def copied_out(one: psycopg.Connection, statement: str) -> bytes:
    with one.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        return b"".join(map(bytes, copy))


def copied_in(one: psycopg.Connection, statement: str, data: bytes) -> None:
    with one.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.write(data)


@pytest.mark.parametrize("name", [name for name in ALL if name not in OWN])
def test_copies_go_both_ways_in_both_forms(both: Both, name: str) -> None:
    ours, theirs = both
    draw = random.Random(name)
    for one in both:
        one.execute(sql.SQL("create temp table came (n serial, v {})").format(sql.SQL(name)))  # type: ignore[arg-type]
    try:
        texts = [ALL[name](draw) for _ in range(8)]
        for text in texts:
            asked(theirs, f"insert into came (v) values ($1::{name})", text.encode())
        asked(theirs, "insert into came (v) values (null)")
        for form in ("text", "binary"):
            there = copied_out(theirs, f"copy came (n, v) to stdout (format {form})")
            ours.execute("truncate came")
            copied_in(ours, f"copy came from stdin (format {form})", there)
            for shown in ("text", "binary"):
                expected = copied_out(
                    theirs, f"copy (select v from came order by n) to stdout (format {shown})"
                )
                found = copied_out(ours, f"copy (select v from came order by n) to stdout (format {shown})")
                if name == "inet" and shown == "text":
                    continue  # what COPY TO makes of it is a cast to text
                assert found == expected, (form, shown)
    finally:
        for one in both:
            one.execute("drop table came")


@pytest.mark.parametrize("name", MAKERS)
def test_harmed_forms_are_refused_or_mean_what_they_mean_to_postgres(both: Both, name: str) -> None:
    _, theirs = both
    draw = random.Random(name)
    numbers = [number_of(one, name) for one in both]
    for _ in range(12):
        made = forms(theirs, MAKERS[name](draw), name)
        if made is None or made[1] is None:
            continue
        value = bytearray(made[1])
        if value and draw.random() < 0.6:
            value[draw.randrange(len(value))] = draw.randrange(256)
        else:
            value = value[: draw.randrange(len(value) + 1)] + draw.randbytes(draw.randrange(2))
        query = f"select $1::{name}" if name == "mood" else "select $1"
        found = [
            asked(one, query, bytes(value), param_types=[number], param_formats=[1])
            for one, number in zip(both, numbers, strict=True)
        ]
        taken = [one.status == pq.ExecStatus.TUPLES_OK for one in found]
        if taken != [False, True] or not beyond(name, found[1].get_value(0, 0) or b""):
            assert taken[0] == taken[1], (made, value, [one.error_message for one in found])
        if all(taken):
            shown = [one.get_value(0, 0) for one in found]
            assert shown[0] == shown[1], (made, value)


def beyond(name: str, text: bytes) -> bool:
    """Whether Postgres takes what kpg has no such value for."""
    if name == "date":
        return len(text.partition(b"-")[0]) > 4
    return name == "bigint" and text in (b"-9223372036854775808", b"-9223372036854775807")
