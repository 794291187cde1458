"""Long chains of lets: what is inlined, and how much work that is."""

import pytest

from kpg.compiler.algebra import rel as algebra
from kpg.compiler.algebra.rel import Rel
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.passes.normalize_lets import LetReads, normalize_lets
from kpg.runtime.types import BIGINT

TYPES = (BIGINT, BIGINT)


def chain(length: int, *, twice: bool) -> Rel:
    """``let r1 = distinct t in let r2 = distinct (r1 union r1) in ... in rn``."""

    def step(source: Rel) -> Rel:
        flipped = algebra.Project(source, (1, 0))
        return algebra.Distinct(algebra.Union((source, flipped)) if twice else flipped)

    body: Rel = algebra.LocalGet(f"r{length}", TYPES)
    for number in range(length, 1, -1):
        body = algebra.Let(f"r{number}", step(algebra.LocalGet(f"r{number - 1}", TYPES)), body)
    return algebra.Let("r1", algebra.Distinct(algebra.Get("t", TYPES, (False, False))), body)


def test_chains() -> None:
    once = normalize_lets(chain(60, twice=False))
    assert not any(isinstance(node, algebra.Let) for node in walk(once))
    assert sum(isinstance(node, algebra.Distinct) for node in walk(once)) == 60
    shared = normalize_lets(chain(60, twice=True))
    assert sum(isinstance(node, algebra.Let) for node in walk(shared)) == 59


def test_work_on_shared_lets_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, calls = LetReads.free_ids, 0

    def counted(self: LetReads, rel: Rel) -> frozenset[str]:
        nonlocal calls
        calls += 1
        return plain(self, rel)

    monkeypatch.setattr(LetReads, "free_ids", counted)
    counts = []
    for length in (40, 80):
        calls = 0
        normalize_lets(chain(length, twice=True))
        counts.append(calls)
    assert counts[1] < 2.2 * counts[0]
