"""Dicts that know whether they have changed, so that nobody has to compare what there may be thousands of."""

from collections.abc import Callable
from itertools import count
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_NUMBERS: Final = count(1)


class Noted(dict[K, V]):
    """A dict with a ``version``, which no other has, and it has not had, whenever it may have changed."""

    __slots__ = ("version",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.version = next(_NUMBERS)


def _noting(name: str) -> Callable[..., Any]:
    plain = getattr(dict, name)

    def method(self: "Noted[Any, Any]", *given: Any, **named: Any) -> Any:
        self.version = next(_NUMBERS)
        return plain(self, *given, **named)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


CHANGING: Final = (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
)  # fmt: skip
for _name in CHANGING:
    setattr(Noted, _name, _noting(_name))
