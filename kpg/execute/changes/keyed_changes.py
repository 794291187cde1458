"""Cached plans for repeated changes: single-row INSERTs, and UPDATEs and DELETEs of the row with a given key.

A ``Recipe`` turns the values of a repeated INSERT into the words of a row. Values that need more than a
simple conversion, and all errors, are left to ``insert_values``.

Repeated keyed UPDATEs and DELETEs of several sessions share one plan (``plan_cache``) and run together: one
lookup of their rows, one computation of the new rows. If the order of the statements matters or one of them
fails, they run one by one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.access_control import is_secured
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parameterize.normalization import asked, kinds
from kpg.compiler.sql.parameterize.value_lists import LIMITS, column_values, placed, written
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Beyond, Parameters, Sized, Slot
from kpg.compiler.sql.parse.statements import Insert
from kpg.compiler.sql.rewrite.changes import arbiters, check_insertion
from kpg.execute.changes.insert_values import Inserting, inserting, shape_of
from kpg.execute.changes.table_writes import checked
from kpg.execute.changes.upsert import conflict_of
from kpg.execute.queries.plan_cache import Template, kept_template, slot_values
from kpg.execute.queries.point_lookup import Constants
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import Error
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import ERROR, NULL, Kind, Type
from kpg.runtime.values.styles import BINDING, PLAIN
from kpg.session.engine import CacheKind, Engine

Take = Callable[[Any, Type, Dictionary], int]
"""From a value that is not NULL to its word; Beyond if that takes more."""
DIGITS: Final = frozenset("0123456789")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a row is made: ``first`` are its words but for those of ``cells``, made of values by position.

    ``merges``: the statement, if rows with the row's primary key are in conflict with it.
    """

    entry: TableEntry
    first: tuple[int, ...]
    cells: tuple[tuple[int, int, Type, Take], ...]
    values: int
    merges: Insert | None = None

    def row(self, values: Sequence[Any], dictionary: Dictionary) -> list[int]:
        """The words of the row; Beyond if there is more to it."""
        if len(values) != self.values:
            raise Beyond
        words = list(self.first)
        for place, position, type_, take in self.cells:
            value = values[position]
            words[place] = NULL if value is None else take(value, type_, dictionary)
        return words


def row_of(engine: Engine, text: str, values: Sequence[Any]) -> tuple[Recipe, list[int]] | None:
    """The row that a text adds, with values for its parameters, and how it is made; None if it does more."""
    path = engine.catalog.outlook
    if engine.catalog.style is not PLAIN or not engine.remembers:
        return None
    known = engine.remembered.kind(RECIPES).get((text, path))
    if known is None or (known.version != engine.catalog.version):
        known = Known(engine.catalog.version, recipe_of(engine, text))
        engine.remembered.kind(RECIPES).put((text, path), known)
    recipe = known.recipe
    if recipe is None:
        return None
    BINDING.set(PLAIN)  # a statement of another session may have left its own
    try:
        return recipe, recipe.row(values, engine.executor.dictionary)
    except (Beyond, Error, ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class Known:
    """A recipe, or that there is none, while the catalog is what it was."""

    version: int
    recipe: Recipe | None


RECIPES: Final = CacheKind[tuple[str, tuple[str, ...]], Known]()
"""By a text and the schemas in which its names are looked for."""


def recipe_of(engine: Engine, text: str) -> Recipe | None:
    """The recipe of a text; None if it does more than to add one row of values to a table."""
    rows = placed(text)
    made = None if rows is None else inserting(engine, rows)
    if made is None or made.statement.returning:
        return None
    try:
        return _recipe(engine, made)
    except (Beyond, Error):
        # Among errors are those of privileges: who is refused is told so by the way of all.
        return None


def _recipe(engine: Engine, made: Inserting) -> Recipe | None:
    entry = engine.catalog.table(made.statement.table)
    shape = shape_of(engine, made)
    if (
        shape is None
        or entry.name in engine.at_commit
        or entry.constraints.rules
        or engine.table(entry.name).guard is not None
    ):
        return None
    if engine.catalog.is_limited and not _may(engine, made.statement, entry):
        return None
    merges = shape.statement if made.statement.conflict is not None else None
    if merges is not None and (
        any(not one.primary for one in entry.constraints.uniques)
        or arbiters(merges, entry) != (entry.schema.primary_key,)
        or not isinstance(conflict_of(engine, merges), Mfp | None)
    ):
        return None
    dictionary, types = engine.executor.dictionary, entry.schema.types
    first = [NULL] * len(types)
    cells: list[tuple[int, int, Type, Take]] = []
    used: set[int] = set()
    for cell, place in zip(shape.places, shape.given, strict=True):
        text, type_ = made.columns[cell][0], types[place]
        if type_.limits_length:
            return None
        if text[0] in "?$":
            position = len(used) if text[0] == "?" else int(text[1:]) - 1
            used.add(position)
            cells.append((place, position, type_, TAKES.get(type_.kind, _constant)))
        else:
            (value,) = column_values([text], type_)
            first[place] = _word(value, dictionary)
    for place, value in shape.missing:
        first[place] = _word(value, dictionary)
    if used != set(range(len(used))):
        return None
    return Recipe(entry, tuple(first), tuple(cells), len(used), merges)


def _may(engine: Engine, statement: Insert, entry: TableEntry) -> bool:
    """Whether who asks, may insert any rows; another privilege is another version of the catalog."""

    if statement.conflict is not None or is_secured(engine.catalog, entry.name, engine.catalog.asker.user):
        return False
    check_insertion(statement, entry, engine.catalog)
    return True


def _word(value: int | str | None, dictionary: Dictionary) -> int:
    if value is None:
        return NULL
    return dictionary.code(value) if isinstance(value, str) else value


def _integer(value: Any, type_: Type, _: Dictionary) -> int:
    if isinstance(value, str):
        if not DIGITS.issuperset(value[1:] if value[:1] == "-" else value) or value in ("", "-"):
            raise Beyond
        value = int(value)
    limit = LIMITS[type_.kind]
    if type(value) not in (int, Sized) or not max(-limit, ERROR + 1) <= value < limit:
        raise Beyond
    return int(value)


def _text(value: Any, _: Type, dictionary: Dictionary) -> int:
    if type(value) is not str:
        raise Beyond
    return dictionary.code(value)


def _constant(value: Any, type_: Type, dictionary: Dictionary) -> int:
    cell = written(value)
    if cell is None:
        raise Beyond
    (found,) = column_values([cell], type_)
    return _word(found, dictionary)


TAKES: Final[dict[Kind, Take]] = {
    Kind.SMALLINT: _integer,
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.VARCHAR: _text,
}


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
