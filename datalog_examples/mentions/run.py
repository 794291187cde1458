"""Tweets arrive; components of mentions and the top hashtag of each are maintained and queried.

    python datalog_examples/mentions/run.py [--tweets 200000] [--rate 10000]

Runs once with SQL and Datalog over one database, and once with the Collection API. Prints the
latencies of queries while tweets arrive, each measured from the time at which it was due.
"""

import argparse
import gc
import random
import time
from collections.abc import Callable, Iterator
from itertools import count, islice

import kpg

TURN = 2
"""Minimum number of milliseconds of tweets per batch."""
MOST = 500
"""Maximum number of tweets per batch."""
PROGRAM = """
.decl component(person: number, root: number)
component(x, min(x)) :- mention(x, _).
component(y, min(y)) :- mention(_, y).
component(y, min(r)) :- mention(x, y), component(x, r).
component(x, min(r)) :- mention(x, y), component(y, r).
"""
TOP = """
CREATE VIEW tags AS SELECT c.root, t.tag, count(*) AS n
    FROM tagged AS t JOIN component AS c ON c.person = t.author GROUP BY c.root, t.tag;
CREATE MATERIALIZED VIEW top AS SELECT DISTINCT ON (root) root, tag FROM tags ORDER BY root, n DESC, tag
"""
Mention, Tagged = tuple[int, int], tuple[int, int, str]


def tweets() -> Iterator[tuple[Mention, Tagged]]:
    """Yield tweets with a mention and a tag. People mostly mention people of their own group."""
    chance = random.Random(4)
    for number in count():
        author = int(20_000 * chance.random() ** 2)
        group = author // 8 * 8
        other = group + chance.randrange(8) if chance.random() < 0.999 else chance.randrange(20_000)
        yield (author, other), (number, author, f"#{int(chance.paretovariate(0.8)) % 500}")


def by_sql() -> tuple[Callable[[list[Mention], list[Tagged]], object], Callable[[int], object]]:
    """Return the function that takes a batch, and the one that queries a user's top hashtag."""
    db = kpg.connect()
    db.sql(
        "CREATE TABLE mention (a BIGINT, b BIGINT); CREATE TABLE tagged (id BIGINT, author BIGINT, tag TEXT)"
    )
    db.datalog(PROGRAM)
    db.view("component")
    db.sql(TOP)
    db.sql(
        "CREATE MATERIALIZED VIEW mine AS SELECT c.person, t.tag"
        " FROM component AS c JOIN top AS t ON t.root = c.root"
    )

    def take(mentions: list, tagged: list) -> None:
        with db.transaction():
            db.insert("mention", mentions)
            db.insert("tagged", tagged)

    return take, lambda user: db.query("SELECT tag FROM mine WHERE person = ?", [user]).fetchall()


def by_collections() -> tuple[Callable[[list[Mention], list[Tagged]], object], Callable[[int], object]]:
    """Return the same functions for the Collection API."""
    db = kpg.connect()
    flow = db.dataflow("mentions")
    mention, tagged = flow.input("mention", a=int, b=int), flow.input("tagged", id=int, author=int, tag=str)
    both = mention.concat(mention.map(lambda m: {"a": m.b, "b": m.a})).distinct()
    nodes = both.map(lambda m: {"person": m.a, "root": m.a}).distinct()

    def nearer(labels):
        told = labels.join(both, {"person": "a"}, lambda c, m: {"person": m.b, "root": c.root})
        return told.concat(nodes).min("root", key="person")

    component = nodes.iterate(nearer)
    tags = tagged.join(component, {"author": "person"}, lambda t, c: {"root": c.root, "tag": t.tag})
    top = tags.count(("root", "tag"), name="n").top_k(1, by="-n", key="root")
    mine = component.join(top, {"root": "root"}, lambda c, t: {"person": c.person, "tag": t.tag})
    mine.arrange_by_key("person").export("found")
    db.sql("CREATE MATERIALIZED VIEW mine AS SELECT person, tag FROM found")

    def take(mentions: list, given: list) -> None:
        mention.insert(mentions)
        tagged.insert(given)
        mention.advance_to(mention.time + 1)
        tagged.advance_to(tagged.time + 1)
        flow.step()

    return take, lambda user: db.query("SELECT tag FROM mine WHERE person = ?", [user]).fetchall()


def measured(name: str, make: Callable, total: int, rate: int) -> None:
    """Feed tweets at a rate, with one query per batch, and print the latencies of the queries.

    A batch has all tweets that arrived since the last one, so late batches are larger. Warm-up batches
    are not measured: large ones, and some of the expected size, whose code is loaded with the first of
    them. A query is due when the first tweet of its batch arrives.
    """
    take, ask = make()
    stream = tweets()
    for size in (*4 * (MOST,), *4 * (rate * TURN // 1000 + 1,)):
        given = list(islice(stream, size))
        take([mention for mention, _ in given], [tag for _, tag in given])
        ask(given[0][0][0])
    coming = list(islice(stream, total))
    gc.collect()
    gc.freeze()  # as kpg serve does: the collector does not visit modules and future tweets again
    chance = random.Random(9)
    late, found, first, turns = [], 0, 0, 0
    begun, worked = time.perf_counter(), time.process_time()
    while first < total:
        ready = min(total, first + MOST, int((time.perf_counter() - begun) * rate))
        if ready - first < max(1, rate * TURN // 1000) and ready < total:
            time.sleep(0.0005)
            continue
        given = coming[first:ready]
        take([mention for mention, _ in given], [tag for _, tag in given])
        found += bool(ask(chance.choice(given)[0][0]))
        late.append(time.perf_counter() - begun - first / rate)
        first, turns = ready, turns + 1
    took, worked = time.perf_counter() - begun, time.process_time() - worked
    late.sort()
    shown = ", ".join(
        f"{share:.0%} in {late[int(share * (len(late) - 1))] * 1e3:.1f} ms" for share in (0.5, 0.95, 0.99)
    )
    print(f"{name}: {total / took:,.0f} tweets a second in {turns} turns; {found} answers: {shown};")
    print(
        f"  {worked / turns * 1e3:.2f} ms of processor time a turn, for {total / worked:,.0f} tweets a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tweets", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000)
    given = parser.parse_args()
    measured("SQL and Datalog", by_sql, given.tweets, given.rate)
    measured("collections", by_collections, given.tweets, given.rate)


if __name__ == "__main__":
    main()
