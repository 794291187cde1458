"""Tables whose rows are as workers have written them, as data: checkpoints keep their packs as they are."""

from collections.abc import Iterable
from typing import Any

from kpg.runtime.saved.form import State
from kpg.runtime.saved.stored import Stored
from kpg.runtime.storage.placed import Shard, Sharded

BYTES = "|u1"


def capture_shards(found: Iterable[tuple[int, Sharded]]) -> State | None:
    """Where the rows of a table are, from which rowids on; None if they are in no shards."""
    state = tuple((start, tuple(map(_captured, sharded.shards))) for start, sharded in found)
    return {"sharded": state} if state else None


def _captured(shard: Shard) -> State:
    if not shard.rows:
        return None
    bounds, bounds_size, data, data_size = shard.strings
    return {
        "rows": shard.rows,
        "strings": (_stored(shard, bounds, bounds_size), _stored(shard, data, data_size)),
        "chunks": tuple((_stored(shard, block, size), rows) for block, size, rows in shard.chunks),
    }


def _stored(shard: Shard, block: int, size: int) -> Stored:
    return Stored(shard.pack, block, BYTES, (size,), size)


def shards_of(state: Any) -> list[tuple[int, Sharded]]:
    """What was captured."""
    return [(start, Sharded(tuple(map(_revived, shards)))) for start, shards in state["sharded"]]


def _revived(state: Any) -> Shard:
    if state is None:
        return Shard(0, 0, (0, 0, 0, 0), ())
    bounds, data = state["strings"]
    chunks = tuple((one.block, one.size, rows) for one, rows in state["chunks"])
    strings = bounds.block, bounds.size, data.block, data.size
    return Shard(bounds.pack, state["rows"], strings, chunks)
