"""The tree of a plan: every node in full once, by its name where it is met again, loops' bodies within."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import kpg

QUERIES = {
    "join": "select x.b from t x join t y on x.a = y.a join u on u.a = y.a where x.b = 'x'",
    "recursion": "with recursive r(n) as (select a from t union select n + 1 from r where n < 5) table r",
    "window": "select a, sum(a) over (partition by b order by a) from t",
    "sets": "select b, count(*), max(a) from t group by rollup (b)",
    "outer": "select t.b, u.b from t left join u using (a) where u.b is null order by 1 limit 3",
}


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for below in tree.get("Plans", ()):
        yield from nodes(below)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_the_text_s_nodes_are_the_tree_s(query: str) -> None:
    with kpg.connect() as db:
        db.sql("create table t (a int primary key, b text); create table u (a int primary key, b text)")
        text = db.explain(query)
        ((found,),) = db.query(f"explain (format json) {query}").fetchall()
    (one,) = json.loads(found)
    met = list(nodes(one["Plan"]))
    full = Counter(node["Node"] for node in met if "Shared" not in node)
    assert set(full.values()) == {1}
    assert {node["Node"] for node in met} == set(full)
    # Names stand first in their lines, those of links of joins behind blanks.
    named = {
        line.split()[0]: line.split()[1] for line in text.splitlines() if line.split()[0].startswith("%")
    }
    assert {node["Node"]: node["Node Type"] for node in met} == named
