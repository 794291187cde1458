"""``top_k``: the most frequent values of each group, as rows come and go."""

import random
from collections import Counter

import kpg


def test_the_most_frequent_values_follow_their_rows() -> None:
    db = kpg.connect()
    db.sql("create table t (id int primary key, g int, x text)")
    db.sql("create materialized view v as select g, top_k(x, 2) from t group by g")
    pick, held = random.Random(3), dict[int, tuple[int, str | None]]()
    for step in range(40):
        with db.transaction():
            for gone in pick.sample(sorted(held), min(len(held), pick.randint(0, 3))):
                del held[gone]
                db.sql("delete from t where id = ?", [gone])
            for place in range(pick.randint(0, 4)):
                id_ = 10 * step + place
                held[id_] = pick.randint(0, 1), pick.choice(["a", "b", "ccc", "ä" * 30, None])
                db.insert("t", [(id_, *held[id_])])
        expected = {}
        for group in {group for group, _ in held.values()}:
            counts = Counter(text for other, text in held.values() if other == group and text is not None)
            ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
            expected[group] = [text for text, _ in ranked[:2]] or None
        assert dict(db.view("v").fetchall()) == expected
