"""Arranged: a collection that is kept, in an index that its readers share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kpg.collections.arranging import Index
from kpg.collections.collection import Collection
from kpg.collections.rows import Rows

if TYPE_CHECKING:
    from kpg.collections.dataflow import Dataflow


class Arranged(Collection):
    """A collection indexed by ``key``. Joins and reduces by that key, or a prefix, read the index as it is.

    It is maintained until its dataflow is dropped and nobody else reads it; dataflows may begin to read it
    at any time. They see what it holds now, and then its changes.
    """

    def __init__(
        self, flow: "Dataflow", index: Index, key: tuple[str, ...], table: Rows | None = None
    ) -> None:
        super().__init__(flow, index.rows if table is None else table)
        self._table = table
        """The rows of a table that are indexed: whatever needs no index reads them as others do."""
        self._index = index
        self._key = key

    @property
    def key(self) -> tuple[str, ...]:
        return self._key

    def _indexed(self, key: Sequence[str], *, inline: bool = False) -> Index:
        places = self._rows.places(key)
        if self._index.serves(places) and (
            not inline or (self._index.inline and len(key) == self._index.key)
        ):
            return self._index
        return super()._indexed(key, inline=inline)
