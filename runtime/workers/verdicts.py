"""What members find of constraints of a load, made into the error that one worker gives."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.data.table import Table
from kpg.runtime.data.violations import duplicate_error, unique_error
from kpg.runtime.errors import InternalError
from kpg.runtime.handles import Berth, Rules, Unique
from kpg.runtime.types import NULL, is_loose
from kpg.runtime.workers.audit import Reference, Suspects
from kpg.runtime.workers.messages import UnsendableError

if TYPE_CHECKING:
    from kpg.runtime.workers.coordinator import Coordinator
    from kpg.runtime.workers.far import FarTable

Words = NDArray[np.int64]
NEAR: Final = 1 << 20
"""Of a table that the coordinator has so many keys are sent to members, which look for theirs among them."""


def audited(owner: "Coordinator", berth: Berth, store: "FarTable", rules: Rules) -> bool:
    """Have members hold what is staged to all rules; False if they cannot.

    Raises the error for the first row that fails one.
    """
    key = store.schema.primary_key
    uniques = [Unique(key)] if key else []
    uniques += [Unique(one.columns, one.nulls_distinct) for one in store.uniques]
    if rules.checks is None and not uniques:
        return True
    local = [one for one in uniques if berth.home in one.columns]
    spread = [one for one in uniques if berth.home not in one.columns]
    try:
        found = owner.ask("audit", berth.load, store.name, store.schema, rules.checks, local, spread)
    except UnsendableError:
        return False
    except BaseException:
        owner.inform("forget_keys", store.name)
        raise
    checks = 0 if rules.checks is None else len(rules.checks.outputs)
    order = [*range(checks), *(checks + (local + spread).index(one) for one in uniques)]
    for place in order:
        columns = (local + spread)[place - checks].columns if place >= checks else ()
        row = _first(owner, store, [each[place] for each in found], columns)
        if row is None:
            continue
        if place < checks:
            assert rules.refuse is not None
            rules.refuse(row[0])
            raise InternalError(f"a row of table {store.name} fails a CHECK at a worker, and not here")
        _refuse(store, uniques.index((local + spread)[place - checks]), *row)
    return True


def _refuse(store: "FarTable", number: int, row: Words, exists: bool) -> None:
    """Raise the error for a row that is the same as another in what the table is unique in."""
    number -= bool(store.schema.primary_key)
    if number < 0:
        raise duplicate_error(store, row, 0, exists)
    raise unique_error(store, store.uniques[number], row, 0, exists)


def _first(
    owner: "Coordinator", store: Table, found: Sequence[Any], columns: Sequence[int]
) -> tuple[Words, bool] | None:
    """The first row that breaks a rule, and whether it does by itself."""
    suspects = [Suspects(*one) for one in found]
    texts = owner.texts_of(store.schema.types)
    rows = [owner.words(member, one.rows.copy(), texts) for member, one in enumerate(suspects)]
    some = [member for member, one in enumerate(suspects) if one.sure.shape[0]]
    if not some:
        return None
    every = np.concatenate([rows[member] for member in some], axis=1)
    order = np.concatenate([suspects[member].order for member in some], axis=1)
    sure = np.concatenate([suspects[member].sure for member in some])
    seen: set[tuple[int, ...]] = set()
    places = np.lexsort(order[::-1]).tolist()
    for place in places:
        key = tuple(every[list(columns), place].tolist())
        if sure[place] or key in seen:
            break
        seen.add(key)
    return np.ascontiguousarray(every[:, place : place + 1]), bool(sure[place])


def first_dangling(
    owner: "Coordinator", reference: Reference, store: Table, target: Table, *, far: bool
) -> Words | None:
    """See ``executor.Landing.dangling``; ``far``: the target's rows are at members."""
    columns = reference.target_columns
    if any(is_loose(target.schema.types[place]) for place in columns):
        return None
    given: Words | None = None
    if far:
        home = owner.home(target.name)
        reference = reference._replace(by=columns.index(home) if home in columns else None)
    elif target.rows > NEAR:
        return None
    else:
        given = target.read(target.live(), columns)
        given = np.ascontiguousarray(given[:, (given != NULL).all(axis=0)])
    row = _first(owner, store, owner.ask("dangling", reference, given), ())
    return np.empty((len(store.schema.columns), 0), np.int64) if row is None else row[0]
