"""In which rounds of a recursion rows came, when each member keeps that of its own rows.

A member tells it of the rows that it keeps; members share the rounds, so ranks of several are ranks of one.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.errors import InternalError
from kpg.runtime.handles import RankLookup
from kpg.runtime.trace.updates import ONE, Updates
from kpg.runtime.workers.audit import Auditing

if TYPE_CHECKING:
    from kpg.runtime.workers.remote import Remote

Words = NDArray[np.int64]


class Recalling(Auditing):
    """The part of a member that tells it."""

    _texts: dict[str, tuple[int, ...]]
    """Of each installation the columns whose words are others elsewhere."""

    def rank_width(self, name: str) -> tuple[int, int] | None:
        """The columns of a recursive set's rows, and how many rows this worker tells of; None: it is none."""
        lookup = self.views[name].ranks()
        return None if lookup is None else (lookup.width, len(lookup))

    def ranks_of(self, name: str, rows: Words, gone: bool) -> Words:
        """The ranks of the coordinator's rows that are kept here, -1 of others."""
        own = rows.copy()
        for column in self._texts[name]:
            own[column] = self.sharing.strings.from_coordinator(own[column])
        return self._lookup(name).of(own, gone=gone)

    def ranked(self, name: str, gone: bool) -> tuple[Words, Words]:
        """All rows that are kept here, and their ranks."""
        rows, found = self._lookup(name).every(gone=gone)
        return self._in_common(name, rows), found

    def first_rounds(self, name: str) -> tuple[Words, Words] | None:
        """See ``Installation``: of what is kept here."""
        found = self.views[name].first_rounds()
        return None if found is None else (self._in_common(name, found[0]), found[1])

    def _lookup(self, name: str) -> RankLookup:
        lookup = self.views[name].ranks()
        if lookup is None:
            raise InternalError(f"{name} is no recursive set")
        return lookup

    def _in_common(self, name: str, rows: Words) -> Words:
        """Own words as those that all understand."""
        return self._common(Updates(rows, np.zeros((1, 1), np.int64), ONE), self._texts[name]).data

    def _common(self, updates: Updates, texts: tuple[int, ...]) -> Updates:
        if not texts:
            return updates
        data = updates.data.copy()
        for column in texts:
            data[column] = self.sharing.strings.reported(data[column])
        return updates.with_data(data)


class RemoteRanks:
    """The coordinator's side: a ``handles.RankLookup``."""

    def __init__(self, remote: "Remote", width: int, rows: int) -> None:
        self._remote = remote
        self._rows = rows
        self.width = width

    def __len__(self) -> int:
        return self._rows

    def of(self, rows: Words, *, gone: bool = False) -> Words:
        """See ``RankLookup``."""
        found: list[Words] = self._remote.asked_of_members("ranks_of", rows, gone)
        return np.maximum.reduce(found)

    def every(self, *, gone: bool = False) -> tuple[Words, Words]:
        """See ``RankLookup``."""
        return told_by_all(self._remote, self._remote.asked_of_members("ranked", gone))


def ranks(remote: "Remote") -> RemoteRanks | None:
    """The ranks of the rows of a recursive set; None if an installation is anything else."""
    found: list[tuple[int, int]] = [one for one in remote.asked_of_members("rank_width") if one is not None]
    return RemoteRanks(remote, found[0][0], sum(rows for _, rows in found)) if found else None


def first_rounds(remote: "Remote") -> tuple[Words, Words] | None:
    """See ``Installation``."""
    found = remote.asked_of_members("first_rounds")
    return None if found[0] is None else told_by_all(remote, found)


def told_by_all(remote: "Remote", found: list[tuple[Words, Words]]) -> tuple[Words, Words]:
    """Rows and their rounds, each of which one member has told."""
    parts = [remote.in_own_words(member, rows) for member, (rows, _) in enumerate(found)]
    return np.concatenate(parts, axis=1), np.concatenate([rounds for _, rounds in found])
