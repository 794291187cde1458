"""The row that a window function looked from, and the rows that it looked at."""

from typing import TYPE_CHECKING

from kpg.compiler.sql.tree import Window
from kpg.why.asking import Values

if TYPE_CHECKING:
    from kpg.why.walk import Children, Place, Walk


def window(walk: "Walk", node: Window, known: Values, place: "Place") -> "Children | None":
    """The row of the input, and for each call whose value is asked for the rows of its frame."""
    own = {id_: word for id_, word in known.items() if id_ not in node.ids}
    return walk.of(node.input, own, place)
