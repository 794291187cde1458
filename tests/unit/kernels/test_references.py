"""Every kernel computes what its plain reference says, whatever it is given."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kpg.runtime.kernels import every_kernel
from tests.model.references import Case, every_reference

ELSEWHERE = {
    "vm.run": "an interpreter: model/scalar.py is its reference, in unit/mfp/test_model.py",
    **dict.fromkeys(
        ["chain.run", "streams.begin", "streams.feed", "streams.take"],
        "an interpreter: operators one by one are its reference, in unit/chain/test_chain.py",
    ),
    **dict.fromkeys(
        [
            *(
                f"bags.{name}"
                for name in (
                    "add",
                    "compact",
                    "frequent",
                    "gathered",
                    "handed",
                    "least",
                    "listed",
                    "placed",
                    "spread",
                )
            ),
            *(f"bags.{name}" for name in ("least", "listed", "placed", "spread")),
            *(f"bicliques.{name}" for name in ("drop_odd", "mine", "shingles")),
            "covering.cover_all",
            "covering.share_out",
            "ids.find",
            "ids.find_listed",
            "ids.observe",
            "ids.observe_listed",
            "deciding.ask",
            "ids.put",
            *(f"deciding.{name}" for name in ("add_up", "divide", "expand", "frontier", "greedy", "prune")),
            *(
                f"overlays.{name}"
                for name in (
                    "arrange",
                    "bucket",
                    "count_sources",
                    "deepen",
                    "fill_least",
                    "fill_sums",
                    "gather_sums",
                    "pull_least",
                    "pull_sums",
                    "push_least",
                    "push_sums",
                    "reach",
                    "renumber",
                    "settle",
                    "sources",
                    "transpose",
                )
            ),
        ],
        "parts of overlays, whose model is in model/overlays.py, and of brute force in unit/ego",
    ),
    **dict.fromkeys(
        [f"wires.{name}" for name in ("read", "receive", "send")],
        "calls of the system, whose messages unit/kernels/test_wires.py compares",
    ),
    **dict.fromkeys(
        [
            "rows.key_insert",
            "rows.key_remove",
            "rows.key_find",
            "rows.bag_insert",
            "rows.bag_remove",
            "rows.bag_match",
        ],
        "parts of the row store, whose model is in unit/data/test_table.py",
    ),
}
"""Kernels that are compared with a reference of a larger whole, and where."""
SEEDS = range(60)
KERNELS = {f"{one.function.__module__.rpartition('.')[2]}.{one.__name__}" for one in every_kernel()}
"""Those that nobody has called yet, nearly all: what is called is a function of numba's from then on."""
REFERENCES = every_reference()


def kernel_of(name: str) -> Callable[..., Any]:
    """The kernel, or what it was compiled to."""
    module, _, kernel = name.partition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f"kpg.runtime.kernels.{module}"), kernel)
    return found


def test_every_kernel_has_a_reference() -> None:
    """If this fails: add one to ``tests/model/references``, whose docstring says how."""
    assert KERNELS - set(REFERENCES) - set(ELSEWHERE) == set()
    assert not set(REFERENCES) & set(ELSEWHERE)
    assert all(map(callable, map(kernel_of, (*REFERENCES, *ELSEWHERE))))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_kernel(name: str) -> None:
    one, kernel = REFERENCES[name], kernel_of(name)
    count = 0
    for seed in SEEDS:
        for given in one.cases(np.random.default_rng(seed)):
            case = given if isinstance(given, Case) else Case(given)
            expected = one.expected(case)
            result = kernel(*case.arguments)
            assert one.observed(result, *case.arguments) == expected, (name, seed)
            count += 1
    assert count >= len(SEEDS)
