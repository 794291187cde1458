"""Captured state: plain values and array parts, described incrementally and restored lazily.

A state is a tree of dicts by name, tuples, ints, strings and None, with a :class:`Part` for each array. A
part holds the array itself after capture, and its location in a file once it is stored (``runtime/storage``).
A *reader* returns the array for such a location.

Descriptions: a checkpoint writes a root that refers to *leaves*. Each leaf describes some tables, operators
or definitions. A leaf whose members have not changed is not written again, as long as all packs that it
refers to exist.

Lazy restore: an opened database has thousands of arrays, and the first queries need few of them. A restored
object is *dormant*: an instance of a subclass that restores itself and becomes its real class on the first
access to an attribute. Other objects have no overhead.
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


class Mutability(enum.Enum):
    """How an array may change after its capture."""

    FIXED = "the same object always has the same contents"
    GROWING = "elements are appended; those in use do not change"
    CHANGING = "anything may change"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An array, or with ``used`` its first elements along the first axis, with room that need not be kept.

    With ``rows``, elements behind that many along the second axis are undefined and stored as zeros.
    """

    array: Array
    mutability: Mutability
    used: int | None = None
    rows: int | None = None


class UncapturableError(Exception):
    """A state that cannot be represented as data; it is recomputed after a restore."""


@dataclass(frozen=True, slots=True, eq=False)
class DeferredBytes:
    """Bytes that are computed when the state is written, from values that never change."""

    make: Callable[[], bytes]


State = Any
"""A dict of states by name, a tuple of states, an int, a string, None, a Part, or an array's location."""

ArrayReader = Callable[[Any], Array]
"""Function from an array's location to the array.

The restored object owns the array, and may write to it unless it is fixed.
"""


def fixed_part(array: Array) -> Part:
    """Return a part for an array that is never written."""
    return Part(array, Mutability.FIXED)


def growing_part(array: Array, used: int) -> Part:
    """Return a part for an array to which elements are appended; its capacity need not be kept."""
    return Part(array, Mutability.GROWING, used)


def changing_part(array: Array, used: int | None = None) -> Part:
    """Return a part for an array that is written; with ``used`` its capacity need not be kept."""
    return Part(array, Mutability.CHANGING, used)


def map_state(state: State, change: Callable[[str, Any], Any], path: str = "") -> State:
    """Return the state with each leaf value replaced by ``change`` of its path and itself.

    None, ints and strings stay.
    """
    kind = type(state)
    if kind is dict:
        return {name: map_state(value, change, f"{path}/{name}") for name, value in state.items()}
    if kind is tuple:
        return tuple([map_state(value, change, f"{path}/{position}") for position, value in enumerate(state)])
    return state if state is None or kind is int or kind is str else change(path, state)


def copy_mutable_parts(state: State) -> State:
    """Return the state with copies of the arrays that may change."""

    def copy_part(path: str, part: Part) -> Part:
        return (
            part
            if part.mutability is Mutability.FIXED
            else Part(share_or_copy(part), part.mutability, part.used)
        )

    return map_state(state, copy_part)


def share_or_copy(part: Part) -> Array:
    """Return the array of a part that was never stored: shared if it is fixed, else a copy."""
    if part.mutability is Mutability.FIXED:
        return part.array
    array = np.empty(part.array.shape, part.array.dtype)
    used = part.array.shape[0] if part.used is None else part.used
    array[:used] = part.array[:used]
    return array


T = TypeVar("T", bound=object)
FillFunction = Callable[[Any, State], None]
"""Function that sets the attributes of a new object from a state; the object has all of them already."""

PASSED_THROUGH = ("__dict__", "__class__")
"""Attributes whose access does not wake a dormant object."""


class _DormantData:
    """The attributes of a dormant object, its state, and how it is restored."""

    __slots__ = ("attributes", "fill", "state", "visible")

    def __init__(
        self, attributes: dict[str, Any], state: State, fill: FillFunction, visible: tuple[str, ...]
    ) -> None:
        self.attributes = attributes
        self.state = state
        self.fill = fill
        self.visible = visible


def make_dormant(instance: T, state: State, fill: FillFunction, visible: tuple[str, ...] = ()) -> T:
    """Make a new object restore a state with ``fill`` on the first access to an attribute.

    If ``fill`` raises, the object stays dormant. Attributes in ``visible`` are correct already; reading them
    does
    not wake the object.
    """
    attributes = dict(vars(instance))
    vars(instance).clear()
    cls: Any = type(instance)
    instance.__class__ = _dormant_class(cls)
    vars(instance)["_asleep"] = _DormantData(attributes, state, fill, visible)
    return instance


def dormant_state(instance: object) -> State | None:
    """Return the state that a dormant object will restore; None if it is not dormant."""
    dormant = vars(instance).get("_asleep")
    return None if dormant is None else dormant.state


@cache
def _dormant_class(cls: Any) -> Any:
    """Return the subclass for dormant instances."""

    def __getattribute__(self: Any, name: str) -> Any:
        if name in PASSED_THROUGH:
            return object.__getattribute__(self, name)
        asleep: _DormantData = vars(self)["_asleep"]
        if name in asleep.visible:
            return asleep.attributes[name]
        _wake(self, cls)
        return getattr(self, name)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if name != "__class__":
            _wake(self, cls)
        object.__setattr__(self, name, value)

    methods = {"__getattribute__": __getattribute__, "__setattr__": __setattr__, "__doc__": cls.__doc__}
    return type(f"Dormant{cls.__name__}", (cls,), methods)


def _wake(instance: Any, cls: Any) -> None:
    attributes = vars(instance)
    dormant: _DormantData = attributes.pop("_asleep")
    instance.__class__ = cls
    attributes.update(dormant.attributes)
    try:
        dormant.fill(instance, dormant.state)
    except BaseException:
        attributes.clear()
        instance.__class__ = _dormant_class(cls)
        attributes["_asleep"] = dormant
        raise


def wake(instance: object) -> None:
    """Restore a dormant object now."""
    if "_asleep" in vars(instance):
        _wake(instance, type(instance).__mro__[1])


def set_fill(instance: object, fill: FillFunction) -> None:
    """Replace the fill function of a dormant object."""
    vars(instance)["_asleep"].fill = fill


def fill_of(instance: object) -> FillFunction | None:
    """Return the fill function of a dormant object; None if it is not dormant."""
    dormant = vars(instance).get("_asleep")
    return None if dormant is None else dormant.fill


Versions = Mapping[str, Any]
"""For each member, a value that stays equal while the member is unchanged; None if this is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """Members that are described together; ``make`` captures them, as a state or as ``DeferredBytes``."""

    versions: Versions
    make: Callable[[], State]


@dataclass(frozen=True, slots=True, eq=False)
class CapturedLeaf:
    """A captured leaf that is to be written."""

    state: State


@dataclass(frozen=True, slots=True)
class Described:
    """Location of a leaf's description: ``size`` bytes at offset ``at`` of an object in a pack.

    ``live`` are the packs that the description refers to, each with the number of blocks in use there.
    """

    pack: int
    block: int
    at: int
    size: int
    live: tuple[tuple[int, int], ...] = ()

    @property
    def block_range(self) -> tuple[int, int, int]:
        """Pack, first block and end block of the description."""
        first = self.block + self.at // BLOCK
        return self.pack, first, self.block + blocks_of(self.at + self.size)

    def read(self, packs: Packs) -> Any:
        """Return the bytes as a copy.

        Raises:
            DamagedError: If they are not what was written.
        """
        pack, first, end = self.block_range
        packs.get(pack).verify(first, end)
        start = self.block * BLOCK + self.at
        return packs.get(pack).data[start : start + self.size].copy()

    def is_intact(self, packs: Mapping[int, Any]) -> bool:
        """Return whether all packs of the description are among these packs."""
        return self.pack in packs and all(pack in packs for pack, _ in self.live)


class DescriptionWriter:
    """The descriptions that a checkpoint writes, one after the other."""

    def __init__(self, pack: int) -> None:
        self._pack = pack
        self._text = bytearray()
        self._sizes: Counter[int] = Counter()

    def add(self, text: bytes, live: Counter[int]) -> Described:
        """Append a description and return its location."""
        at = len(self._text)
        self._text += text
        self._text += bytes(-len(self._text) % 8)
        return Described(self._pack, 0, at, len(text), tuple(sorted(live.items())))

    def count_live(self, leaf: Described) -> None:
        """Count the bytes of a description that the checkpoint refers to, whether new or old."""
        self._sizes[leaf.pack] += leaf.size

    @property
    def text(self) -> bytearray:
        """The bytes to write."""
        return self._text

    @property
    def live(self) -> Counter[int]:
        """For each pack the blocks that contain live descriptions."""
        return Counter({pack: blocks_of(size) for pack, size in self._sizes.items()})

    def set_block(self, root: State, block: int) -> State:
        """Return the root with the block of the text in the locations of all new leaves."""

        def change(_: str, leaf: Any) -> Any:
            is_new = isinstance(leaf, Described) and leaf.pack == self._pack
            return replace(leaf, block=block) if is_new else leaf

        return map_state(root, change)


@dataclass(slots=True)
class LeafRecord:
    """A leaf as described last: its members' versions, its location, and its arrays that never change."""

    versions: Versions | None
    location: Described | None = None
    arrays: "Mapping[str, ReferenceType[Array]] | None" = None

    def is_current(self, leaf: Leaf, packs: Mapping[int, Any]) -> bool:
        """Return whether the leaf need not be described again."""
        if self.location is None or self.versions is None or not self.location.is_intact(packs):
            return False
        return self.versions == leaf.versions and None not in leaf.versions.values()


def leaves_of(root: State) -> dict[str, Described]:
    """Return the leaves of a root by path."""
    leaves: dict[str, Described] = {}

    def collect(path: str, value: Any) -> Any:
        if isinstance(value, Described):
            leaves[path] = value
        return value

    map_state(root, collect)
    return leaves


def member_path(path: str) -> str:
    """Return the path of a leaf's members, which does not contain the leaf's own name."""
    return path.rpartition("/")[0]
