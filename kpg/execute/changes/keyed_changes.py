"""Cached plans for repeated changes: single-row INSERTs, and UPDATEs and DELETEs of the row with a given key.

A ``InsertPlan`` turns the values of a repeated INSERT into the words of a row. Values that need more than a
simple conversion, and all errors, are left to ``insert_values``.

Repeated keyed UPDATEs and DELETEs of several sessions share one plan (``plan_cache``) and run together: one
lookup of their rows, one computation of the new rows. If the order of the statements matters or one of them
fails, they run one by one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.access_control import has_row_security
from kpg.compiler.catalog.entries import TableEntry
from kpg.compiler.sql.parameterize.normalization import constant_types, normalize_statement
from kpg.compiler.sql.parameterize.value_lists import LIMITS, constant_text, read_column, read_single_insert
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import NotConstantError, Parameters, Slot, TypedInteger
from kpg.compiler.sql.parse.statements import Insert
from kpg.compiler.sql.rewrite.changes import arbiters, check_insertion
from kpg.execute.changes.insert_values import ConstantInsert, as_constant_insert, layout_of
from kpg.execute.changes.table_pipeline import check_computed, fit_lengths, pipeline_of
from kpg.execute.changes.upsert import lower_conflict_action
from kpg.execute.queries.plan_cache import Template, find_keyed_template, slot_values
from kpg.execute.queries.point_lookup import Constants
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import Error
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import ERROR, NULL, Kind, Type
from kpg.runtime.values.styles import CURRENT_STYLE, DEFAULT_STYLE
from kpg.session.engine import CacheKind, Engine

Encoder = Callable[[Any, Type, Dictionary], int]
"""Converts a value that is not NULL to its word; raises NotConstantError if that needs more."""
DIGITS: Final = frozenset("0123456789")


@dataclass(frozen=True, slots=True)
class InsertPlan:
    """Cached plan of a single-row INSERT.

    ``constant_words`` has the constant words of the row, ``cells`` the columns that take parameters.
    ``upsert`` is the statement of an upsert by the primary key.
    """

    entry: TableEntry
    constant_words: tuple[int, ...]
    cells: tuple[tuple[int, int, Type, Encoder], ...]
    parameter_count: int
    upsert: Insert | None = None

    def encode_row(self, values: Sequence[Any], dictionary: Dictionary) -> list[int]:
        """Return the words of the row; NotConstantError if the fast path does not apply."""
        if len(values) != self.parameter_count:
            raise NotConstantError
        words = list(self.constant_words)
        for place, position, type_, take in self.cells:
            value = values[position]
            words[place] = NULL if value is None else take(value, type_, dictionary)
        return words


def encode_single_insert(
    engine: Engine, text: str, values: Sequence[Any]
) -> tuple[InsertPlan, list[int]] | None:
    """Return the plan and the words of the row that a text inserts; None if the fast path does not apply."""
    path = engine.catalog.resolution_key
    if engine.catalog.style is not DEFAULT_STYLE or not engine.can_use_cache:
        return None
    cached = engine.plan_cache.of_kind(INSERT_PLANS).get((text, path))
    if cached is None or (cached.version != engine.catalog.version):
        cached = CachedInsertPlan(engine.catalog.version, make_insert_plan(engine, text))
        engine.plan_cache.of_kind(INSERT_PLANS).put((text, path), cached)
    plan = cached.plan
    if plan is None:
        return None
    CURRENT_STYLE.set(DEFAULT_STYLE)  # the style of another session's statement may be set
    try:
        return plan, plan.encode_row(values, engine.executor.dictionary)
    except (NotConstantError, Error, ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class CachedInsertPlan:
    """An insert plan, or None, for one version of the catalog."""

    version: int
    plan: InsertPlan | None


INSERT_PLANS: Final = CacheKind[tuple[str, tuple[str, ...]], CachedInsertPlan]()
"""By text and search path."""


def make_insert_plan(engine: Engine, text: str) -> InsertPlan | None:
    """Return the insert plan of a text; None if it does more than insert one row of values."""
    rows = read_single_insert(text)
    statement = None if rows is None else as_constant_insert(engine, rows)
    if statement is None or statement.statement.returning:
        return None
    try:
        return _make_plan(engine, statement)
    except (NotConstantError, Error):
        # Includes privilege errors, which the general path reports.
        return None


def _make_plan(engine: Engine, insert: ConstantInsert) -> InsertPlan | None:
    entry = engine.catalog.table(insert.statement.table)
    shape = layout_of(engine, insert)
    if (
        shape is None
        or entry.name in engine.on_commit_actions
        or entry.constraints.rules
        or shape.table.guard is not None
        or pipeline_of(engine, shape.table).has_added_stages
    ):
        return None
    if engine.catalog.checks_privileges and not _is_permitted(engine, insert.statement, entry):
        return None
    merges = shape.statement if insert.statement.conflict is not None else None
    if merges is not None and (
        any(not key.primary for key in entry.constraints.uniques)
        or arbiters(merges, entry) != (entry.schema.primary_key,)
        or not isinstance(lower_conflict_action(engine, merges), Mfp | None)
    ):
        return None
    dictionary, types = engine.executor.dictionary, entry.schema.types
    constant_words = [NULL] * len(types)
    cells: list[tuple[int, int, Type, Encoder]] = []
    used_positions: set[int] = set()
    for cell, place, type_, _ in shape.cells:
        text = insert.columns[cell][0]
        if type_.has_length_limit:
            return None
        if text[0] in "?$":
            position = len(used_positions) if text[0] == "?" else int(text[1:]) - 1
            used_positions.add(position)
            cells.append((place, position, type_, ENCODERS.get(type_.kind, _constant)))
        else:
            (value,) = read_column([text], type_)
            constant_words[place] = _word(value, dictionary)
    for place, value in shape.constants:
        constant_words[place] = _word(value, dictionary)
    if used_positions != set(range(len(used_positions))):
        return None
    return InsertPlan(entry, tuple(constant_words), tuple(cells), len(used_positions), merges)


def _is_permitted(engine: Engine, statement: Insert, entry: TableEntry) -> bool:
    """Whether the role may insert any row. A change of privileges changes the catalog's version."""

    if statement.conflict is not None or has_row_security(
        engine.catalog, entry.name, engine.catalog.asker.user
    ):
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
            raise NotConstantError
        value = int(value)
    limit = LIMITS[type_.kind]
    if type(value) not in (int, TypedInteger) or not max(-limit, ERROR + 1) <= value < limit:
        raise NotConstantError
    return int(value)


def _text(value: Any, _: Type, dictionary: Dictionary) -> int:
    if type(value) is not str:
        raise NotConstantError
    return dictionary.code(value)


def _constant(value: Any, type_: Type, dictionary: Dictionary) -> int:
    cell = constant_text(value)
    if cell is None:
        raise NotConstantError
    (found,) = read_column([cell], type_)
    return _word(found, dictionary)


ENCODERS: Final[dict[Kind, Encoder]] = {
    Kind.SMALLINT: _integer,
    Kind.INTEGER: _integer,
    Kind.BIGINT: _integer,
    Kind.VARCHAR: _text,
}


Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyedChange:
    """An UPDATE or DELETE by key: its plan and parameter values."""

    template: Template
    values: dict[Slot, Literal]


def prepare_keyed_change(engine: Engine, text: str, parameters: Parameters | None) -> KeyedChange | None:
    """Return a text as a keyed change; None if it is not one or returns rows."""
    if not len(engine.plan_cache.keyed_texts) or not engine.can_use_cache or engine.prepared_statements:
        return None
    statement = normalize_statement(text, parameters)
    if statement is None:
        return None
    key = (
        statement.normalized_text.text,
        constant_types(statement.parameter_constants),
        engine.catalog.resolution_key,
        False,
    )
    template = find_keyed_template(engine, statement, key)
    if template is None or isinstance(template.statement, ast.Select) or template.statement.returning:
        return None
    entry = engine.catalog.table(template.statement.table)
    table = engine.table(entry.name)
    others = [unique for unique in entry.constraints.uniques if not unique.primary]
    if table.guard is not None or others or entry.name in engine.on_commit_actions:
        return None
    if pipeline_of(engine, table).has_added_stages:
        return None
    assert template.point_lookup is not None
    if template.point_lookup.columns != entry.schema.primary_key:
        return None
    try:
        return KeyedChange(template, slot_values(template.slots, statement))
    except (NotConstantError, Error):
        return None


@dataclass(frozen=True, slots=True)
class UpsertRow:
    """An INSERT ... ON CONFLICT of one row: its plan and the encoded row."""

    template: InsertPlan
    words: list[int]


def apply_batch(engine: Engine, statements: Sequence[KeyedChange | UpsertRow]) -> list[int] | None:
    """Apply the first of the statements of one plan, an epoch each, and return their row counts.

    The remaining statements depend on these changes. None, after partial changes, means to run them one
    by one.
    """
    keyed = [change for change in statements if isinstance(change, KeyedChange)]
    if keyed:
        return _apply_keyed_changes(engine, keyed)
    return _apply_upserts(engine, [change for change in statements if isinstance(change, UpsertRow)])


def _apply_upserts(engine: Engine, statements: Sequence[UpsertRow]) -> list[int] | None:
    plan = statements[0].template
    assert plan.upsert is not None

    update = lower_conflict_action(engine, plan.upsert)
    table = engine.table(plan.entry.name)
    words = np.ascontiguousarray(np.array([row.words for row in statements], np.int64).T)
    columns = enumerate(table.schema.columns)
    if any(not column.nullable and (words[place] == NULL).any() for place, column in columns):
        return None
    key = list(table.schema.primary_key)
    count = _distinct_prefix(words[key])
    words = np.ascontiguousarray(words[:, :count])
    old = table.find(np.ascontiguousarray(words[key]))
    changes = old < 0
    existing = np.flatnonzero(~changes) if isinstance(update, Mfp) else np.empty(0, np.int64)
    if existing.size:
        assert isinstance(update, Mfp)
        pairs = np.concatenate((table.fetch(old[existing]), words[:, existing]))
        new, kept = engine.executor.evaluate(update, np.ascontiguousarray(pairs))
        existing = existing if kept is None else existing[kept]
        changes[existing] = True
        words[:, existing] = new
        if (words[key][:, existing] != table.fetch(old[existing])[key]).any():
            return None
    applied = np.flatnonzero(changes)
    words = np.ascontiguousarray(words[:, applied])
    check_computed(words, table)
    words = fit_lengths(words, table)
    if applied.size:
        table.delete(old[existing])
        table.insert(words)
        table.tally.replace(existing.size)
        engine.close_epochs(table.name, [1] * applied.size, old[applied])
    return changes.astype(np.int64).tolist()


def _apply_keyed_changes(engine: Engine, statements: Sequence[KeyedChange]) -> list[int] | None:
    template = statements[0].template
    lookup, statement = template.point_lookup, template.statement
    assert lookup is not None
    assert not isinstance(statement, ast.Select)
    table = engine.table(statement.table)
    constants = [Constants(one.values, table.dictionary) for one in statements]
    keys = np.array([[one.lookup_word(literal) for literal in lookup.key] for one in constants], np.int64).T
    keys = np.ascontiguousarray(keys[:, : _distinct_prefix(keys)])
    count = keys.shape[1]
    found_rowids = table.find(keys)
    matches = np.flatnonzero(found_rowids >= 0)
    data = found_rowids[None, matches]
    if lookup.slots:
        positions = matches.tolist()
        values = [
            [constants[place].word(statements[place].values[slot]) for place in positions]
            for slot in lookup.slots
        ]
        data = np.concatenate((data, np.array(values, np.int64).reshape(len(lookup.slots), -1)))
    if lookup.mfp is not None:
        data, kept = engine.executor.evaluate(lookup.mfp, np.ascontiguousarray(data))
        matches = matches if kept is None else matches[kept]
    counts = np.zeros(count, np.int64)
    counts[matches] = 1
    rowids = np.ascontiguousarray(data[0])
    if rowids.size and isinstance(statement, ast.Delete):
        table.delete(rowids)
        engine.close_epochs(table.name, [0] * rowids.size, rowids)
    elif rowids.size:
        words = np.ascontiguousarray(data[1 : 1 + len(table.schema.columns)])
        check_computed(words, table)
        words = fit_lengths(words, table)
        if (words[list(lookup.columns)] != keys[:, matches]).any():
            return None
        table.update(rowids, words)
        engine.close_epochs(table.name, [1] * rowids.size, rowids)
    return counts.tolist()


def _distinct_prefix(keys: Words) -> int:
    """Return the number of keys before the first repeated one."""
    seen: set[tuple[int, ...]] = set()
    for key in zip(*keys.tolist(), strict=True):
        if key in seen:
            break
        seen.add(key)
    return len(seen)
