"""Parts of a state that are described by themselves: so that a checkpoint describes what has changed only.

The description of a state is a tree of two levels. Its root, which is written anew by each checkpoint, names
*leaves*, each of some tables, operators or definitions. A leaf whose members are what they were when it was
written stays where it is, as long as all packs that it refers to are kept.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import ReferenceType

from kpg.runtime.records import dataclass
from kpg.runtime.saved.form import Array, State, mapped
from kpg.runtime.storage.packs import BLOCK, Packs, blocks_of

Versions = Mapping[str, Any]
"""Of members by name what is equal as long as they are as they were; None of one of which nobody knows."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """Members that are described together: ``make`` captures them, as a state or as ``Later``."""

    versions: Versions
    make: Callable[[], State]


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A leaf that was captured, to be written."""

    state: State


@dataclass(frozen=True, slots=True)
class Described:
    """The description of a leaf: ``size`` bytes from a byte on of what begins at a block of a pack.

    ``live`` are the packs that it refers to, each with the blocks that it uses there.
    """

    pack: int
    block: int
    at: int
    size: int
    live: tuple[tuple[int, int], ...] = ()

    @property
    def places(self) -> tuple[int, int, int]:
        """Where it is: pack, first block and end."""
        first = self.block + self.at // BLOCK
        return self.pack, first, self.block + blocks_of(self.at + self.size)

    def read(self, packs: Packs) -> Any:
        """Its bytes, not mapped; DamagedError if they are not what was written."""
        pack, first, end = self.places
        packs.get(pack).verify(first, end)
        start = self.block * BLOCK + self.at
        return packs.get(pack).data[start : start + self.size].copy()

    def is_kept(self, packs: Mapping[int, Any]) -> bool:
        """Whether it can stay, if these packs do."""
        return self.pack in packs and all(pack in packs for pack, _ in self.live)


class Sheet:
    """The descriptions that a checkpoint writes, one behind the other."""

    def __init__(self, pack: int) -> None:
        self._pack = pack
        self._text = bytearray()
        self._sizes: Counter[int] = Counter()

    def add(self, text: bytes, live: Counter[int]) -> Described:
        """One more; where it is among them."""
        at = len(self._text)
        self._text += text
        self._text += bytes(-len(self._text) % 8)
        return Described(self._pack, 0, at, len(text), tuple(sorted(live.items())))

    def note(self, leaf: Described) -> None:
        """One that counts is there, or stays where it was."""
        self._sizes[leaf.pack] += leaf.size

    @property
    def text(self) -> bytearray:
        """All that is to be written."""
        return self._text

    @property
    def live(self) -> Counter[int]:
        """The blocks of packs that are descriptions."""
        return Counter({pack: blocks_of(size) for pack, size in self._sizes.items()})

    def placed(self, root: State, block: int) -> State:
        """A root with the block where the text is, in all leaves that are there."""

        def change(_: str, found: Any) -> Any:
            mine = isinstance(found, Described) and found.pack == self._pack
            return replace(found, block=block) if mine else found

        return mapped(root, change)


@dataclass(slots=True)
class Known:
    """A leaf as it was described: what its members were, and where the arrays were that never change."""

    versions: Versions | None
    place: Described | None = None
    arrays: "Mapping[str, ReferenceType[Array]] | None" = None

    def stays(self, leaf: Leaf, packs: Mapping[int, Any]) -> bool:
        """Whether a leaf need not be described again."""
        if self.place is None or self.versions is None or not self.place.is_kept(packs):
            return False
        return self.versions == leaf.versions and None not in leaf.versions.values()


def leaves_of(root: State) -> dict[str, Described]:
    """The leaves that a root names, by path."""
    found: dict[str, Described] = {}

    def note(path: str, one: Any) -> Any:
        if isinstance(one, Described):
            found[path] = one
        return one

    mapped(root, note)
    return found


def base_of(path: str) -> str:
    """Where the members of a leaf are, as if they were in no leaf."""
    return path.rpartition("/")[0]
