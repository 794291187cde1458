"""What the library of graphs is written with is public: conjunctions, recursion, later rounds."""

import ast
from pathlib import Path

import pytest

import kpg
from tests.unit.collections.watching import step, watch


def test_the_graph_library_uses_the_public_interface_only() -> None:
    assert kpg.graph.__file__ is not None
    for path in Path(kpg.graph.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.module and not node.module.startswith("kpg.collections."), (path, node.module)
                if node.module == "kpg.collections":
                    assert all(hasattr(kpg, name.name) for name in node.names)
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_"), (path, node.attr)


def test_rows_enter_later(flow: kpg.Dataflow) -> None:
    rows = flow.input("rows", n=int, at="INTEGER")
    with flow.scope() as loop:
        entered = loop.enter_at(rows, lambda r: r["at"])
        kept = loop.variable(n=int)
        added = kept.concat(entered.project("n")).distinct()
        kept.set(added)
        record, first = entered.capture(), kept.capture()
        left = loop.leave(added)
    seen = watch(left)
    rows.insert([(1, 0), (2, 1_000_000), (3, -5), (3, 2)])
    step(flow, rows)
    assert list(record) == [
        ((1, 0), (1, 0), 1),
        ((3, -5), (1, 0), 1),
        ((3, 2), (1, 2), 1),
        ((2, 1_000_000), (1, 1_000_000), 1),
    ]
    assert [(row, time) for row, time, _ in first] == [((1,), (1, 1)), ((3,), (1, 1)), ((2,), (1, 1_000_001))]
    assert seen.at() == {(1,): 1, (2,): 1, (3,): 1}
    rows.remove([(2, 1_000_000), (3, -5)])
    step(flow, rows)
    assert seen.at() == {(1,): 1, (3,): 1}
    with flow.scope() as loop:
        for wrong in (
            lambda r: "x",
            lambda r: {"a": r.n, "b": r.n},
            lambda r: kpg.function("nullif", r.n, 1),
        ):
            with pytest.raises(kpg.ProgrammingError, match="a round is one whole number, not None"):
                loop.enter_at(rows, wrong)
        assert entered.columns == rows.enter_at(loop, lambda r: r.n).columns


def test_recursion_from_nothing(flow: kpg.Dataflow) -> None:
    steps, start = flow.input("steps", src=int, dst=int), flow.input("start", node=int)

    def body(found: kpg.Collection, loop: kpg.LoopScope) -> kpg.Collection:
        further = found.join(steps, {"node": "src"}, lambda f, s: {"node": s.dst})
        return further.concat(start.enter(loop)).distinct()

    all_, near = watch(kpg.recursive(start, body)), watch(kpg.recursive(start, body, limit=2))
    start.insert(1)
    steps.insert([(1, 2), (2, 3), (3, 2), (3, 4)])
    step(flow, steps, start)
    assert (sorted(all_.at()), sorted(near.at())) == ([(1,), (2,), (3,), (4,)], [(1,), (2,)])
    steps.remove(1, 2)
    step(flow, steps, start)
    assert all_.at() == {(1,): 1}


def test_a_conjunction(flow: kpg.Dataflow) -> None:
    edges = flow.input("edges", src=int, dst=int)
    seen = watch(kpg.conjunction("ac", (edges, "ab"), (edges, "bc")))
    edges.insert([(1, 2), (2, 3), (2, 4)])
    step(flow, edges)
    assert seen.at() == {(1, 3): 1, (1, 4): 1}


def test_a_round_that_is_too_late_is_refused(flow: kpg.Dataflow) -> None:
    rows = flow.input("rows", n=int, at=int)
    with flow.scope() as loop:
        left = loop.leave(loop.enter_at(rows, lambda r: r.at))
    seen = watch(left)
    rows.insert(1, 2**63 - 1)
    with pytest.raises(kpg.DataError, match="a row cannot enter at round 9223372036854775807"):
        step(flow, rows)
    rows.discard()
    rows.insert(1, 3)
    step(flow, rows)
    assert seen.at() == {(1, 3): 1}
