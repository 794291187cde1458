"""UPDATEs and DELETEs that come again, each of the row with a key: those of many sessions done together.

They have one plan with other constants (``planned.py``). Their rows are looked up at once, and what takes
their place is computed at once; where the order of statements would matter, or one of them fails, each is
done alone.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.sql.parameterize.normalization import asked, kinds
from kpg.compiler.sql.parameterize.parameters import Beyond, Parameters, Slot
from kpg.compiler.sql.parse import statements as ast
from kpg.dml.modify import checked
from kpg.engine.engine import Engine
from kpg.runtime.errors import Error
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.statements.direct import Constants
from kpg.statements.planned import Template, kept_template, slot_values
from kpg.statements.recipes import Recipe

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Keyed:
    """A statement by its plan and the values of its slots."""

    template: Template
    values: dict[Slot, Literal]


def keyed(engine: Engine, text: str, parameters: Parameters | None) -> Keyed | None:
    """A text as such a statement; None if it is not known to be one, or gives more than a count."""
    if not len(engine.remembered.keyed) or not engine.remembers or engine.prepared:
        return None
    statement = asked(text, parameters)
    if statement is None:
        return None
    key = (statement.normal.text, kinds(statement.given), engine.catalog.outlook, False)
    template = kept_template(engine, statement, key)
    if template is None or isinstance(template.statement, ast.Select) or template.statement.returning:
        return None
    entry = engine.catalog.table(template.statement.table)
    table = engine.table(entry.name)
    others = [one for one in entry.constraints.uniques if not one.primary]
    if table.guard is not None or others or entry.name in engine.at_commit:
        return None
    assert template.direct is not None
    if template.direct.columns != entry.schema.primary_key:
        return None
    try:
        return Keyed(template, slot_values(template.slots, statement))
    except (Beyond, Error):
        return None


@dataclass(frozen=True, slots=True)
class Merged:
    """An INSERT ... ON CONFLICT of one row: how the row is made, and the row."""

    template: Recipe
    words: list[int]


def change_some(engine: Engine, statements: Sequence[Keyed | Merged]) -> list[int] | None:
    """Do the first of statements of one plan, each an epoch: how many rows each has changed.

    The others have to see what these have changed. None, a part being done, if they are to be done alone.
    """
    keyed = [one for one in statements if isinstance(one, Keyed)]
    if keyed:
        return _change_some(engine, keyed)
    return _merge_some(engine, [one for one in statements if isinstance(one, Merged)])


def _merge_some(engine: Engine, statements: Sequence[Merged]) -> list[int] | None:
    recipe = statements[0].template
    assert recipe.merges is not None
    from kpg.dml.conflicting import conflict_of

    update = conflict_of(engine, recipe.merges)
    table = engine.table(recipe.entry.name)
    words = np.ascontiguousarray(np.array([one.words for one in statements], np.int64).T)
    key = list(table.schema.primary_key)
    count = _different(words[key])
    words = np.ascontiguousarray(words[:, :count])
    old = table.find(np.ascontiguousarray(words[key]))
    changes = old < 0
    there = np.flatnonzero(~changes) if isinstance(update, Mfp) else np.empty(0, np.int64)
    if there.size:
        assert isinstance(update, Mfp)
        pairs = np.concatenate((table.fetch(old[there]), words[:, there]))
        new, kept = engine.executor.evaluate(update, np.ascontiguousarray(pairs))
        there = there if kept is None else there[kept]
        changes[there] = True
        words[:, there] = new
        if (words[key][:, there] != table.fetch(old[there])[key]).any():
            return None
    done = np.flatnonzero(changes)
    words = checked(np.ascontiguousarray(words[:, done]), table)
    if done.size:
        table.delete(old[there])
        table.insert(words)
        table.tally.replace(there.size)
        engine.close_epochs(table.name, [1] * done.size, old[done])
    return changes.astype(np.int64).tolist()


def _change_some(engine: Engine, statements: Sequence[Keyed]) -> list[int] | None:
    template = statements[0].template
    how, statement = template.direct, template.statement
    assert how is not None
    assert not isinstance(statement, ast.Select)
    table = engine.table(statement.table)
    constants = [Constants(one.values, table.dictionary) for one in statements]
    keys = np.array([[one.sought(literal) for literal in how.key] for one in constants], np.int64).T
    keys = np.ascontiguousarray(keys[:, : _different(keys)])
    count = keys.shape[1]
    found = table.find(keys)
    places = np.flatnonzero(found >= 0)
    data = found[None, places]
    if how.slots:
        chosen = places.tolist()
        values = [
            [constants[place].of(statements[place].values[slot]) for place in chosen] for slot in how.slots
        ]
        data = np.concatenate((data, np.array(values, np.int64).reshape(len(how.slots), -1)))
    if how.mfp is not None:
        data, kept = engine.executor.evaluate(how.mfp, np.ascontiguousarray(data))
        places = places if kept is None else places[kept]
    counts = np.zeros(count, np.int64)
    counts[places] = 1
    gone = np.ascontiguousarray(data[0])
    if gone.size and isinstance(statement, ast.Delete):
        table.delete(gone)
        engine.close_epochs(table.name, [0] * gone.size, gone)
    elif gone.size:
        words = checked(np.ascontiguousarray(data[1 : 1 + len(table.schema.columns)]), table)
        if (words[list(how.columns)] != keys[:, places]).any():
            return None
        table.update(gone, words)
        engine.close_epochs(table.name, [1] * gone.size, gone)
    return counts.tolist()


def _different(keys: Words) -> int:
    """How many keys there are before one comes again."""
    seen: set[tuple[int, ...]] = set()
    for key in zip(*keys.tolist(), strict=True):
        if key in seen:
            break
        seen.add(key)
    return len(seen)
