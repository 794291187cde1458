"""Definitions on shelves: each stays where it is, and a change is that of one shelf."""

from typing import Any

import pytest

from kpg.persistence.checkpoints import DefinitionGroups
from kpg.persistence.database_state import State
from kpg.runtime.storage.codec import Codec


def changed(shelves: DefinitionGroups, before: dict[int, Any]) -> set[int]:
    return {int(name) for name, leaf in shelves.leaves().items() if leaf.versions != before.get(int(name))}


def versions(shelves: DefinitionGroups) -> dict[int, Any]:
    return {int(name): dict(leaf.versions) for name, leaf in shelves.leaves().items()}


def test_shelves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpg.persistence.checkpoints.GROUP_SIZE", 2)
    shelves, codec = DefinitionGroups(Codec()), Codec()
    state: State = {("a", str(number)): number for number in range(5)}
    shelves.update(state)
    assert sorted(shelves.leaves()) == ["0", "1", "2"]
    before = versions(shelves)
    shelves.update({**state, ("a", "2"): 20})
    assert changed(shelves, before) == {1}
    before = versions(shelves)
    less = {key: value for key, value in state.items() if key != ("a", "0")}
    shelves.update({**less, ("b",): 7})  # the last shelf has room
    assert changed(shelves, before) == {0, 1, 2}
    before = versions(shelves)
    shelves.update({**less, ("b",): 7})
    assert changed(shelves, before) == set()
    told = {name: codec.decode(leaf.make().make()) for name, leaf in shelves.leaves().items()}
    assert told == {
        "0": {("a", "1"): 1},
        "1": {("a", "2"): 2, ("a", "3"): 3},
        "2": {("a", "4"): 4, ("b",): 7},
    }
    again = DefinitionGroups(codec)
    for name, some in told.items():
        again.load_group(int(name), some)
    assert again.state == {**less, ("b",): 7}
    before = versions(again)
    again.update({**less, ("b",): 7, ("c",): 8})
    assert changed(again, before) == {3}
    shelves.update({})
    assert shelves.leaves() == {}
