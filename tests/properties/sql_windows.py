"""Random queries with window functions over a small table, and random changes of it, as Postgres reads them.

Where the answer depends on the order of peers, ORDER BY ends in a key, so that there is only one answer.
"""

import random

TABLES = (
    "create table w (id int primary key, g text, h int, x int, y bigint, v numeric(9, 2), f double precision,"
    " d date, t timestamp, b boolean, s text)"
)
COLUMNS = ("x", "y", "v", "d", "t", "s", "h", "b")
RANKING = ("row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)", "ntile(7)")
AGGREGATES = (
    *("count(*)", "count(x)", "sum(x)", "sum(y)", "sum(v)", "avg(x)", "avg(v)", "min(x)", "max(v)", "min(d)"),
    *("max(t)", "min(s)", "max(s)", "bool_and(b)", "bool_or(b)", "sum(h + x)", "max(f)", "count(distinct_)"),
)
VALUES = ("first_value({})", "last_value({})", "nth_value({}, 2)", "nth_value({}, h)")
NEIGHBOURS = ("lag({})", "lead({})", "lag({}, 2)", "lead({}, 3)", "lag({}, h)", "lead({}, 1, {})")
EXCLUDES = ("", " exclude current row", " exclude group", " exclude ties", " exclude no others")
RANGES = {
    "x": ("0", "1", "3", "10"),
    "y": ("0", "2", "1000000000000"),
    "v": ("0", "0.5", "2.25", "100"),
    "f": ("0", "0.5", "1e3", "'infinity'"),
    "d": ("interval '0 days'", "interval '1 day'", "interval '1 month'", "interval '36 hours'", "'7 days'"),
    "t": ("interval '1 hour'", "interval '2 days'", "interval '1 year'", "interval '1 month'"),
}


def table_rows(generator: random.Random, ids: list[int]) -> str:
    rows = []
    for id_ in ids:
        values = (
            str(id_),
            generator.choice(["'a'", "'b'", "'c'", "null"]),
            generator.choice(["0", "1", "2", "null"]),
            generator.choice([*map(str, range(-2, 6)), "null"]),
            generator.choice(["0", "3", "9223372036854775", "-9223372036854775", "null"]),
            generator.choice(["0", "0.25", "-1.5", "7", "99.99", "null"]),
            generator.choice(["0", "0.5", "-1.25", "1e10", "'infinity'", "'nan'", "null"]),
            generator.choice(["'2020-01-01'", "'2020-01-31'", "'2020-02-29'", "'2020-03-01'", "null"]),
            generator.choice(["'2020-01-01 00:00'", "'2020-01-01 01:30'", "'2020-02-01 12:00'", "null"]),
            generator.choice(["true", "false", "null"]),
            generator.choice(["''", "'a'", "'aa'", "'a common beginning of many letters'", "'zz'", "null"]),
        )
        rows.append(f"({', '.join(values)})")
    return ", ".join(rows)


def change(generator: random.Random, ids: list[int]) -> str:
    """A random change; ``ids`` are those in the table, before and after."""
    kind = generator.random()
    if kind < 0.5 or not ids:
        fresh = [max(ids, default=0) + n + 1 for n in range(generator.choice([1, 1, 2, 5]))]
        ids += fresh
        return f"insert into w values {table_rows(generator, fresh)}"
    if kind < 0.75:
        gone = generator.sample(ids, min(len(ids), generator.choice([1, 1, 3])))
        ids[:] = [id_ for id_ in ids if id_ not in gone]
        return f"delete from w where id in ({', '.join(map(str, gone))})"
    column = generator.choice(["x", "h"])
    chosen = ", ".join(map(str, generator.sample(ids, min(len(ids), 2))))
    value = generator.choice(["0", "4", "null", f"{column} + 1"])
    return f"update w set {column} = {value} where id in ({chosen})"


def query(generator: random.Random) -> str:
    calls = [_call(generator) for _ in range(generator.randint(1, 3))]
    shape = generator.random()
    if shape < 0.7:
        where = generator.choice(["", "", " where x is not null", " where h > 0"])
        return f"select id, {', '.join(calls)} from w{where}"
    if shape < 0.8:
        over = "sum(count(*)) over (order by g), rank() over (order by sum(x))"
        return f"select g, count(*), {over} from w group by g"
    if shape < 0.9:
        limit = generator.choice(["n <= 2", "n = 1", "n < 4", "n > 1"])
        number = f"row_number() over ({_partition(generator)} order by {_key(generator)}, id) n"
        return f"select * from (select id, x, {number} from w) q where {limit}"
    return f"select q.id, c from (select id, g, {calls[0]} as c from w) q where g = 'a'"


def _partition(generator: random.Random) -> str:
    return generator.choice(["", "", "partition by g", "partition by h", "partition by g, b"])


def _key(generator: random.Random, column: str | None = None) -> str:
    direction = generator.choice(["", "", " desc", " nulls first", " desc nulls last"])
    return f"{column or generator.choice(COLUMNS)}{direction}"


def _call(generator: random.Random) -> str:
    kind = generator.random()
    partition = _partition(generator)
    if kind < 0.2:
        function = generator.choice(RANKING)
        exact = function == "row_number()" or function.startswith("ntile")
        order = f"order by {_key(generator)}" + (", id" if exact else "")
        return f"{function} over ({partition} {order})"
    if kind < 0.4:
        column = generator.choice(COLUMNS)
        function = generator.choice(NEIGHBOURS).format(column, column)
        return f"{function} over ({partition} order by {_key(generator)}, id)"
    framed = kind < 0.6
    if framed:
        function = generator.choice(VALUES).format(generator.choice(COLUMNS))
        if "h)" in function:
            function = function.replace("h)", "nullif(h, 0))")
    else:
        function = generator.choice(AGGREGATES).replace("distinct_", "s")
        if generator.random() < 0.2:
            function += f" filter (where {generator.choice(['x > 1', 'b', 'h is null'])})"
    return f"{function} over ({partition} {_frame(generator, single=framed)})"


def _frame(generator: random.Random, *, single: bool) -> str:
    """An ORDER BY and a frame; ``single``: the order has to be complete."""
    unit = generator.choice(["rows", "range", "groups", ""])
    exclude = generator.choice(EXCLUDES)
    if unit == "":
        return generator.choice(["", f"order by {_key(generator)}"]) if not single else "order by id"
    complete = unit == "rows" or single
    if unit == "range" and generator.random() < 0.7:
        column = generator.choice(list(RANGES)) if not single else "id"
        order = f"order by {_key(generator, column) if not single else column}"
        offsets = RANGES[column] if not single else ("0", "1", "3")
        return f"{order} range between {_bounds(generator, offsets)}{exclude}"
    order = f"order by {_key(generator)}" + (", id" if complete else "")
    if unit == "range":
        start, end = generator.choice(
            [("unbounded preceding", "current row"), ("current row", "unbounded following")]
        )
        return f"{order} range between {start} and {end}{exclude}"
    return f"{order} {unit} between {_bounds(generator, ('0', '1', '2', '5'))}{exclude}"


def _bounds(generator: random.Random, offsets: tuple[str, ...]) -> str:
    edges = [
        "unbounded preceding",
        f"{generator.choice(offsets)} preceding",
        "current row",
        f"{generator.choice(offsets)} following",
        "unbounded following",
    ]
    start = generator.randint(0, 3)
    end = generator.randint(max(start, 1), 4)
    if start == end and start == 1:
        return f"{edges[1]} and {generator.choice(offsets)} preceding"
    if start == end and start == 3:
        return f"{edges[3]} and {generator.choice(offsets)} following"
    return f"{edges[start]} and {edges[end]}"
