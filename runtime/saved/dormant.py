"""Objects whose state is put in place when they are first asked for anything.

An opened database has thousands of arrays, most of which the first answers need not see. So a restored
object is *dormant*: an instance of a subclass that any access to an attribute wakes, by which it becomes one
of its own class. Nothing of this is on the way of objects that are awake, or were never restored.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from kpg.runtime.saved.form import State

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
