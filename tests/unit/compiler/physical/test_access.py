"""Which arrangements of a table are chosen for a set of lookups."""

import pytest

from kpg.compiler.physical.access_paths import Need, best_sequence, choose_sequences


def need(*columns: int, **fan_outs: float) -> Need:
    return Need("t", frozenset(columns), tuple((int(name[1:]), value) for name, value in fan_outs.items()))


@pytest.mark.parametrize(
    ("needs", "existing", "primary", "expected"),
    [
        pytest.param([need(0)], [], (0,), [(0,)], id="primary key"),
        pytest.param([need(0)], [], (0, 3), [(0, 3)], id="prefix of the primary key uses all of it"),
        pytest.param([need(0, 2)], [], (0, 3), [(0, 3)], id="first of the primary key and a residual"),
        pytest.param([need(0, 1), need(1)], [], (0, 1), [(1, 0)], id="both and the second"),
        pytest.param([need(0, 1), need(0)], [], (0, 1), [(0, 1)], id="both and the first"),
        pytest.param([need(1, 2), need(2, 1)], [], (0,), [(1, 2)], id="one order"),
        pytest.param([need(2), need(1, 2)], [], (0,), [(2, 1)], id="nested"),
        pytest.param([need(1), need(2)], [], (0,), [(1,), (2,)], id="unrelated"),
        pytest.param([need(1)], [(1, 2)], (0,), [(1, 2)], id="prefix of one that exists"),
        pytest.param([need(1, 2, _1=30.0)], [(1,)], (0,), [(1,)], id="few matches of a part"),
        pytest.param([need(1, 2, _1=900.0)], [(1,)], (0,), [(1,), (1, 2)], id="many matches of a part"),
        pytest.param([need()], [], (0, 1), [(0, 1)], id="all rows"),
        pytest.param([need(2), need()], [], (), [(2,)], id="all rows use what is there"),
    ],
)
def test_choose(
    needs: list[Need],
    existing: list[tuple[int, ...]],
    primary: tuple[int, ...],
    expected: list[tuple[int, ...]],
) -> None:
    chosen = choose_sequences(needs, existing, primary)
    assert list(chosen) == expected
    for one in needs:
        assert best_sequence(chosen, one, primary) is not None
