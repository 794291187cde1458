"""The graphs of the benchmarks, and the sizes of their closures in closed form."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import kpg
from kpg import graph
from tests.unit.collections.watching import Watched, step, watch

SOURCE = Path(__file__).parents[3] / "benchmarks" / "_graphs.py"


@pytest.fixture(scope="module")
def graphs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_graphs", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def closures(flow: kpg.Dataflow, edges: np.ndarray) -> tuple[Watched, Watched]:
    given = flow.input("edges", src=int, dst=int)
    found = watch(graph.transitive_closure(given)), watch(graph.same_generation(given))
    given.insert_columns([edges[0], edges[1]])
    step(flow, given)
    return found


@pytest.mark.parametrize(("size", "edges", "tc", "sg"), [(5, 60, 405, 135), (10, 220, 4_235, 870)])
def test_grids(flow: kpg.Dataflow, graphs: ModuleType, size: int, edges: int, tc: int, sg: int) -> None:
    made = graphs.grid(size)
    assert made.shape == (2, edges)
    assert (graphs.grid_closure(size), graphs.grid_generations(size)) == (tc, sg)
    closed, same = closures(flow, made)
    assert (len(closed.at()), len(same.at())) == (tc, sg)


def test_published_grids(graphs: ModuleType) -> None:
    assert [graphs.grid_closure(size) for size in (100, 150, 250)] == [26_522_600, 131_675_775, 1_000_140_875]
    assert [graphs.grid_generations(size) for size in (100, 150, 250)] == [686_700, 2_295_050, 10_541_750]


def test_trees(flow: kpg.Dataflow, graphs: ModuleType) -> None:
    levels = (1, 2, 5, 9, 4)
    made = graphs.tree(levels)
    assert made.shape == (2, sum(levels) - 1)
    closed, same = closures(flow, made)
    assert len(closed.at()) == sum(depth * size for depth, size in enumerate(levels))
    assert len(same.at()) == sum(size * (size - 1) for size in levels)
    published = graphs.LEVELS_OF_TREE_11
    assert sum(published) == 71_391
    assert sum(depth * size for depth, size in enumerate(published)) == 805_001


def test_random_graphs(graphs: ModuleType) -> None:
    made = graphs.gnp(50, 400)
    assert made.shape == (2, 400)
    assert len(set(zip(*made.tolist(), strict=True))) == 400
    assert made.min() >= 0 and made.max() < 50
    assert (graphs.gnp(50, 400) == made).all() and (graphs.gnp(50, 400, seed=2) != made).any()
    wide = graphs.uniform(10, 1000)
    assert wide.shape == (2, 1000) and set(wide.ravel().tolist()) == set(range(10))
