"""Captured state: plain values and array parts, restored lazily and described incrementally.

A state is a tree of dicts by name, tuples, ints, strings and None, with a :class:`Part` for each array: the
array itself after capture, a piece of a file once it is stored (``runtime/storage``). A *reader* turns what
stands for an array into the array.

Descriptions: a checkpoint writes a root and refers to *leaves*, each the description of some tables,
operators or definitions. A leaf whose members have not changed is not written again, as long as all packs
that it refers to exist.

Lazy restore: an opened database has thousands of arrays, of which the first queries need few. A restored
object is *dormant*: an instance of a subclass that restores itself and becomes its real class on the first
access to an attribute. Other objects pay nothing for this.
"""

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar
from weakref import ReferenceType

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.records import dataclass
from kpg.runtime.storage.packs import BLOCK, Packs, blocks_of

Array = NDArray[Any]
Words = NDArray[np.int64]


class Life(enum.Enum):
    """What may happen to an array after it was captured."""

    FIXED = "nothing: as long as it is the same object, it has the same contents"
    GROWING = "elements are added behind those in use, which stay as they are"
    CHANGING = "anything"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An array; or, with ``used``, as much of it along its first axis, and room for some more or less.

    With ``rows``, what is behind so many elements along its second axis is nobody's: it is stored as zeros.
    """

    array: Array
    life: Life
    used: int | None = None
    rows: int | None = None


class UnsavedError(Exception):
    """Something keeps what cannot be data: it is to be computed anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Later:
    """Bytes that whoever writes the state makes: of values that nobody changes."""

    make: Callable[[], bytes]


State = Any
"""A dict of states by name, a tuple of them, an int, a string, None, a Part, or what stands for one."""

Read = Callable[[Any], Array]
"""From what stands for a part to an array for the restored object to keep, and to write to if not fixed."""


def fixed(array: Array) -> Part:
    """An array that nobody writes to."""
    return Part(array, Life.FIXED)


def growing(array: Array, used: int) -> Part:
    """An array to which elements are added: how much room there is for them does not matter."""
    return Part(array, Life.GROWING, used)


def changing(array: Array, used: int | None = None) -> Part:
    """An array that is written to; if ``used``, its room does not matter."""
    return Part(array, Life.CHANGING, used)


def mapped(state: State, change: Callable[[str, Any], Any], path: str = "") -> State:
    """The state with ``change`` of whatever stands for an array, and of the path to it, in its place."""
    kind = type(state)
    if kind is dict:
        return {name: mapped(one, change, f"{path}/{name}") for name, one in state.items()}
    if kind is tuple:
        return tuple([mapped(one, change, f"{path}/{place}") for place, one in enumerate(state)])
    return state if state is None or kind is int or kind is str else change(path, state)


def kept(state: State) -> State:
    """The state with copies of what may change: it stays as it is whatever happens to what it is of."""

    def copied(path: str, part: Part) -> Part:
        return part if part.life is Life.FIXED else Part(read(part), part.life, part.used)

    return mapped(state, copied)


def read(part: Part) -> Array:
    """The reader of states that were never stored: fixed arrays are shared, all others copied."""
    if part.life is Life.FIXED:
        return part.array
    array = np.empty(part.array.shape, part.array.dtype)
    used = part.array.shape[0] if part.used is None else part.used
    array[:used] = part.array[:used]
    return array


T = TypeVar("T", bound=object)
Fill = Callable[[Any, State], None]
"""Puts a state in place of that of a new object, which has all attributes already."""

OWN = ("__dict__", "__class__")


class _Asleep:
    """What a dormant object was made as, and what it is to become."""

    __slots__ = ("attributes", "fill", "shown", "state")

    def __init__(self, attributes: dict[str, Any], state: State, fill: Fill, shown: tuple[str, ...]) -> None:
        self.attributes = attributes
        self.state = state
        self.fill = fill
        self.shown = shown


def lull(one: T, state: State, fill: Fill, shown: tuple[str, ...] = ()) -> T:
    """Have a new object take on a state by ``fill``, once it is needed; if that raises, whenever it is.

    Attributes that are right already can be ``shown`` while it is dormant.
    """
    attributes = dict(vars(one))
    vars(one).clear()
    cls: Any = type(one)
    one.__class__ = _dormant(cls)
    vars(one)["_asleep"] = _Asleep(attributes, state, fill, shown)
    return one


def state_of(one: object) -> State | None:
    """The state that a dormant object will take on; None if it is awake."""
    asleep = vars(one).get("_asleep")
    return None if asleep is None else asleep.state


@cache
def _dormant(cls: Any) -> Any:
    """The subclass of dormant instances."""

    def __getattribute__(self: Any, name: str) -> Any:
        if name in OWN:
            return object.__getattribute__(self, name)
        asleep: _Asleep = vars(self)["_asleep"]
        if name in asleep.shown:
            return asleep.attributes[name]
        _wake(self, cls)
        return getattr(self, name)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if name != "__class__":
            _wake(self, cls)
        object.__setattr__(self, name, value)

    methods = {"__getattribute__": __getattribute__, "__setattr__": __setattr__, "__doc__": cls.__doc__}
    return type(f"Dormant{cls.__name__}", (cls,), methods)


def _wake(one: Any, cls: Any) -> None:
    attributes = vars(one)
    asleep: _Asleep = attributes.pop("_asleep")
    one.__class__ = cls
    attributes.update(asleep.attributes)
    try:
        asleep.fill(one, asleep.state)
    except BaseException:
        attributes.clear()
        one.__class__ = _dormant(cls)
        attributes["_asleep"] = asleep
        raise


def wake(one: object) -> None:
    """Have a dormant object be in place now."""
    if "_asleep" in vars(one):
        _wake(one, type(one).__mro__[1])


def fill_by(one: object, fill: Fill) -> None:
    """Have another way to put a dormant object in place."""
    vars(one)["_asleep"].fill = fill


def filling(one: object) -> Fill | None:
    """What puts a dormant object in place; None if it is awake."""
    asleep = vars(one).get("_asleep")
    return None if asleep is None else asleep.fill


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
