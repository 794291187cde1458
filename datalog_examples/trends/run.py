"""What is talked about among those whom one follows: an ego view, and a picture of it while posts come in.

python datalog_examples/trends/run.py [--seconds 20]
"""

import argparse
import random
import time

from rich.live import Live
from rich.table import Table

import kpg

WORDS = ["tea", "jam", "rain", "train", "market", "film", "music", "match", "storm", "bread"]
PEOPLE = 2_000


def picture(trends: "kpg.View", posts: int) -> Table:
    """Some people, and the three words that those whom they follow wrote most often lately."""
    table = Table(title=f"{posts:,} posts; trends among whom one follows")
    table.add_column("person")
    table.add_column("trends")
    people = range(0, PEOPLE, PEOPLE // 12)
    for person, words in zip(people, trends.read_many(list(people)), strict=True):
        table.add_row(str(person), ", ".join(words or ["-"]))
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    chance, db = random.Random(1), kpg.connect()
    db.sql("CREATE TABLE follows (who BIGINT, whom BIGINT, PRIMARY KEY (who, whom))")
    db.sql("CREATE TABLE posts (id BIGINT, author BIGINT, word TEXT)")
    circles = {(who, who // 50 * 50 + chance.randrange(50)) for who in range(PEOPLE) for _ in range(15)}
    db.insert("follows", sorted(circles))
    trends = db.ego("trends", edges="follows", writes="posts", aggregate="top_k(value, 3)", window=5)
    posts, ends = 0, time.monotonic() + given.seconds
    with Live(picture(trends, 0), refresh_per_second=10) as live:
        while time.monotonic() < ends:
            authors = [chance.randrange(PEOPLE) for _ in range(500)]
            now = posts // 20_000
            said = [WORDS[(author // 50 + now + chance.choice((0, 0, 0, 1, 5))) % 10] for author in authors]
            numbers = range(posts, posts + len(authors))
            db.insert("posts", list(zip(numbers, authors, said, strict=True)))
            posts += len(authors)
            live.update(picture(trends, posts))


if __name__ == "__main__":
    main()
