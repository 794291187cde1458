"""Names that carry what they name: the functions that a database has of its own.

A plan names its functions. Those of kpg are found by their names; a user's, which another database may have
another of by the same name, comes along with its name.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Definition = TypeVar("Definition", covariant=True)


class Named(str, Generic[Definition]):
    """The name of a user's function, with a number that no other function of its database has or had."""

    definition: Definition
    again: tuple[Callable[..., "Named[Any]"], tuple[object, ...]] | None = None
    """What makes it, with its definition, in another process, and of what; None if nothing can."""

    def __new__(cls, name: str, number: int) -> "Named[Definition]":
        """The definition, which knows its name, is set afterwards."""
        return super().__new__(cls, f"{name}#{number}")

    def __reduce__(self) -> Any:
        if self.again is None:
            raise TypeError(f"{shown(self)} is computed by this process only")
        return self.again


def shown(name: str) -> str:
    """A function's name as the user knows it."""
    return name.partition("#")[0]
