"""Names that carry what they name: the functions that a database has of its own.

A plan names its functions. Those of kpg are found by their names; a user's, which another database may have
another of by the same name, comes along with its name.
"""

from typing import Generic, TypeVar

Definition = TypeVar("Definition", covariant=True)


class Named(str, Generic[Definition]):
    """The name of a user's function, with a number that no other function of its database has or had."""

    definition: Definition

    def __new__(cls, name: str, number: int) -> "Named[Definition]":
        """The definition, which knows its name, is set afterwards."""
        return super().__new__(cls, f"{name}#{number}")


def shown(name: str) -> str:
    """A function's name as the user knows it."""
    return name.partition("#")[0]
