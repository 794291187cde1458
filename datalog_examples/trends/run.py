"""Trends among the people that one follows: an ego view, and a live picture while posts arrive.

    python datalog_examples/trends/run.py [--seconds 20] [--page trends.html]

The terminal shows some people with their three trends. The page, which a browser reloads each
second, shows everybody, coloured by the top trend among the people that they follow.
"""

import argparse
import random
import time
from collections import Counter
from pathlib import Path

from rich.live import Live
from rich.table import Table

import kpg

WORDS = ["tea", "jam", "rain", "train", "market", "film", "music", "match", "storm", "bread"]
HUES = ["4e79a7", "f28e2b", "59a14f", "e15759", "76b7b2", "edc948", "b07aa1", "ff9da7", "9c755f", "bab0ac"]
PEOPLE = 2_000
CIRCLE = 50
"""Number of people in a circle. People follow others of their circle."""
CELL, ACROSS = 9, 8
"""The size of a person in the picture, and how many circles stand side by side."""


def database(chance: random.Random) -> "tuple[kpg.Database, kpg.View]":
    """Create a database of followers without posts, and the view of each person's trends."""
    db = kpg.connect()
    db.sql("CREATE TABLE follows (who BIGINT, whom BIGINT, PRIMARY KEY (who, whom))")
    db.sql("CREATE TABLE posts (id BIGINT, author BIGINT, word TEXT)")
    circles = {
        (who, who // CIRCLE * CIRCLE + chance.randrange(CIRCLE)) for who in range(PEOPLE) for _ in range(15)
    }
    db.insert("follows", sorted(circles))
    return db, db.ego("trends", edges="follows", writes="posts", aggregate="top_k(value, 3)", window=5)


def posts(chance: random.Random, first: int, count: int = 500) -> list[tuple[int, int, str]]:
    """Return posts. The topics of a circle change over time."""
    made = []
    for number in range(first, first + count):
        author, now = chance.randrange(PEOPLE), number // 20_000
        word = WORDS[(author // CIRCLE + now + chance.choice((0, 0, 0, 1, 5))) % len(WORDS)]
        made.append((number, author, word))
    return made


def table(trends: "kpg.View", number: int) -> Table:
    """Return a table of some people, each with the three most frequent recent words of those they follow."""
    shown = Table(title=f"{number:,} posts; trends among whom one follows")
    shown.add_column("person")
    shown.add_column("trends")
    people = range(0, PEOPLE, PEOPLE // 12)
    for person, words in zip(people, trends.read_many(list(people)), strict=True):
        shown.add_row(str(person), ", ".join(words or ["-"]))
    return shown


def picture(trends: "kpg.View", number: int) -> str:
    """Return an SVG of all people as squares in their circles, coloured by their first trend."""
    cells, seen = [], Counter[str]()
    for person, words in enumerate(trends.read_many(range(PEOPLE))):
        if not words:
            continue
        seen[words[0]] += 1
        circle, place = divmod(person, CIRCLE)
        x = 20 + circle % ACROSS * (11 * CELL) + place % 10 * CELL
        y = 70 + circle // ACROSS * (6 * CELL) + place // 10 * CELL
        told = f"<title>{person}: {', '.join(words)}</title>"
        cells.append(
            f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}"'
            f' fill="#{HUES[WORDS.index(words[0])]}">{told}</rect>'
        )
    legend = [
        f'<rect x="{20 + 81 * i}" y="40" width="10" height="10" fill="#{HUES[i]}"/>'
        f'<text x="{33 + 81 * i}" y="49">{word} {seen[word]}</text>'
        for i, word in enumerate(WORDS)
    ]
    height = 80 + -(-PEOPLE // CIRCLE // ACROSS) * 6 * CELL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="840" height="{height}" font-family="sans-serif"'
        f' font-size="11"><text x="20" y="25" font-size="15">{number:,} posts: what is talked about most'
        f" among those whom one follows</text>{''.join(legend)}{''.join(cells)}</svg>"
    )


def write(path: Path, drawn: str) -> None:
    """Replace the page atomically, so that readers see the old or the new picture."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="1">{drawn}\n', "utf-8"
    )
    fresh.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    chance = random.Random(1)
    db, trends = database(chance)
    number, ends, drawn = 0, time.monotonic() + given.seconds, 0.0
    with Live(table(trends, 0), refresh_per_second=10) as live:
        while time.monotonic() < ends:
            made = posts(chance, number)
            db.insert("posts", made)
            number += len(made)
            live.update(table(trends, number))
            if given.page and time.monotonic() > drawn + 1:
                write(given.page, picture(trends, number))
                drawn = time.monotonic()
    if given.page:
        write(given.page, picture(trends, number))


if __name__ == "__main__":
    main()
