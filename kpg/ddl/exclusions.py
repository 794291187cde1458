"""What no two rows of a table may have in common beyond columns: expressions, of some rows, by operators.

Beside the table there is one of its keys, which catalogs do not show. It changes as the table does, in the
same transactions, so that rows that come are compared with what is there by its indexes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog import KEYS, Catalog, TableEntry
from kpg.compiler.constraints import Check, Constraints, Exclusion, Unique
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.change import arbiters
from kpg.compiler.sql.ddl.reader import parsed_expression
from kpg.compiler.sql.rules import bind_check, checks, key_of_row
from kpg.ddl.defining import free_name
from kpg.engine.engine import Engine
from kpg.runtime.convert.values import show
from kpg.runtime.errors import Error, IntegrityError, ProgrammingError
from kpg.runtime.executor import Executor
from kpg.runtime.plan import Mfp
from kpg.runtime.types import NULL, ColumnDef, Schema, Type

Words = NDArray[np.int64]
MOST_PAIRS = 1 << 20
"""So many pairs of rows are compared at once."""


class Excluding:
    """One such rule, as rows come and go."""

    def __init__(self, executor: Executor, entry: TableEntry, catalog: Catalog, one: Exclusion) -> None:
        self._executor = executor
        self._entry = entry
        self._catalog = catalog
        self.one = one

    @cached_property
    def _mfp(self) -> Mfp:
        return key_of_row(self._entry, self.one, self._catalog)

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the keys."""
        return tuple(scalar.type for scalar in self._mfp.outputs)

    def keys(self, words: Words) -> tuple[Words, Words]:
        """The keys of the rows that have one, and the places of these."""
        found, kept = self._executor.evaluate(self._mfp, np.ascontiguousarray(words))
        places = np.arange(words.shape[1]) if kept is None else kept
        whole = (found != NULL).all(axis=0) if self.one.nulls_distinct else np.ones(found.shape[1], np.bool_)
        return np.ascontiguousarray(found[:, whole]), places[whole]

    def deleted(self, words: Words) -> None:
        """Rows have gone."""
        keys, _ = self.keys(words)
        if keys.shape[1]:
            self._executor.delete(self.one.kept, self._executor.match(self.one.kept, keys))

    def inserted(self, words: Words) -> None:
        """Rows have come; IntegrityError if one must not be beside another."""
        keys, _ = self.keys(words)
        if not keys.shape[1]:
            return
        if not self.one.is_unique:
            self._check_pairs(keys)
        try:
            self._executor.insert(self.one.kept, keys)
        except IntegrityError:
            raise self._error(keys) from None

    def there(self, words: Words) -> NDArray[np.bool_]:
        """Which of some rows would meet one that is there."""
        keys, places = self.keys(words)
        found = np.zeros(words.shape[1], np.bool_)
        if self.one.is_unique:
            columns = tuple(range(keys.shape[0]))
            found[places] = self._executor.find_unique(self.one.kept, columns, keys) >= 0
        else:
            for place, new in enumerate(np.split(keys, keys.shape[1], axis=1) if keys.shape[1] else ()):
                found[places[place]] = self._conflict(np.ascontiguousarray(new)) is not None
        return found

    def find(self, words: Words) -> Words:
        """The rowids of the rows that some rows meet, -1 where they meet none."""
        found = np.full(words.shape[1], -1, np.int64)
        asked = np.flatnonzero(self.there(words))
        if not asked.size:
            return found
        rowids = self._executor.rowids(self._entry.name)
        keys, places = self.keys(self._executor.fetch(self._entry.name, rowids))
        known = {tuple(key): rowids[place] for key, place in zip(keys.T.tolist(), places, strict=True)}
        wanted, at = self.keys(np.ascontiguousarray(words[:, asked]))
        for key, place in zip(wanted.T.tolist(), at.tolist(), strict=True):
            found[asked[place]] = known[tuple(key)]
        return found

    def _check_pairs(self, keys: Words) -> None:
        """IntegrityError if a new key must not be beside one that is there, or another new one."""
        for place in range(keys.shape[1]):
            new = np.ascontiguousarray(keys[:, place : place + 1])
            old = self._conflict(new)
            if old is None and place:
                old = self._meeting(new, np.ascontiguousarray(keys[:, :place]))
            if old is not None:
                raise self._overlap(new, old)

    def _conflict(self, new: Words) -> Words | None:
        """A key that is there and that a new one must not be beside."""
        equal = tuple(place for place, sign in enumerate(self.one.operators) if sign == "=")
        if not equal:
            return self._meeting(new, self._executor.scan(self.one.kept))
        wanted = np.ascontiguousarray(new[list(equal)])
        _, rowids = self._executor.find_all(self.one.kept, equal, wanted)
        return self._meeting(new, self._executor.fetch(self.one.kept, rowids)) if rowids.size else None

    def _meeting(self, new: Words, old: Words) -> Words | None:
        if not old.shape[1]:
            return None
        pairs = np.concatenate((old, np.repeat(new, old.shape[1], axis=1)))
        results, _ = self._executor.evaluate(self._pair, np.ascontiguousarray(pairs))
        met = np.flatnonzero(results[0] == 1)
        return old[:, met[:1]] if met.size else None

    def later(self, keys: Words, places: Words) -> list[int]:
        """The places of keys that must not be beside one before them."""
        chosen: list[int] = []
        found: list[int] = []
        for place in range(keys.shape[1]):
            old = np.ascontiguousarray(keys[:, chosen])
            if self._meeting(np.ascontiguousarray(keys[:, place : place + 1]), old) is None:
                chosen.append(place)
            else:
                found.append(int(places[place]))
        return found

    @cached_property
    def _pair(self) -> Mfp:
        """Of an old key and a new one whether they must not be there together."""
        types = self.types
        names = [f"{side}{place}" for side in "on" for place in range(len(types))]
        columns = (ColumnDef(name, type_) for name, type_ in zip(names, types * 2, strict=True))
        signs = enumerate(self.one.operators)
        text = " AND ".join(f"(o{place} {sign} n{place})" for place, sign in signs)
        entry = TableEntry("pair", Schema(tuple(columns)), Constraints(checks=(Check("pair", text),)))
        found = checks(entry, self._catalog)
        assert found is not None
        return found

    def _shown(self, key: Words) -> str:
        values = zip(key[:, 0].tolist(), self.types, strict=True)
        return ", ".join(show(word, type_, self._executor.dictionary) for word, type_ in values)

    def _error(self, keys: Words) -> IntegrityError:
        """A key that is there twice."""
        there = self._executor.find_unique(self.one.kept, tuple(range(keys.shape[0])), keys)
        place = int(np.argmax(there >= 0)) if (there >= 0).any() else 0
        named = ", ".join(self.one.elements)
        found = f"({named})=({self._shown(keys[:, place : place + 1])})"
        error = IntegrityError(
            f'duplicate key value violates unique constraint "{self.one.name}": {found} already exists',
            hint="nothing was changed",
        )
        error.sqlstate = "23505"
        return error.with_detail(f"Key {found} already exists.")

    def _overlap(self, new: Words, old: Words) -> IntegrityError:
        named = ", ".join(self.one.elements)
        detail = (
            f"Key ({named})=({self._shown(new)}) conflicts with existing key ({named})=({self._shown(old)})."
        )
        message = f'conflicting key value violates exclusion constraint "{self.one.name}": {detail}'
        error = IntegrityError(message, hint="nothing was changed")
        error.sqlstate = "23P01"
        return error.with_detail(detail)


def exclusions_of(catalog: Catalog, name: str) -> Iterator[Exclusion]:
    """The rules of a table that are more than columns."""
    for key, one in list(catalog.others.items()):
        if key[:2] == ("exclusion", name.lower()):
            yield one


def excluding(executor: Executor, entry: TableEntry, catalog: Catalog) -> Sequence[Excluding]:
    """The same, to be kept."""
    return [Excluding(executor, entry, catalog, one) for one in exclusions_of(catalog, entry.name)]


def add_exclusion(engine: Engine, entry: TableEntry, one: Exclusion) -> None:
    """Have a table keep a rule; IntegrityError if its rows do not."""
    if not one.name:
        columns_ = (text if text.isidentifier() else "expr" for text in one.elements)
        plain = "_".join((entry.name.rpartition(".")[2], *columns_, "excl"))
        taken = [known.name for known in exclusions_of(engine.catalog, entry.name)]
        one = replace(one, name=free_name(plain, taken))
    kept = KEYS + f"{entry.name} {one.name}".replace(".", " ")
    one = replace(one, table=entry.name, kept=kept)
    made = Excluding(engine.executor, entry, engine.catalog, one)
    if one.where:
        bind_check(entry, Check("", one.where), engine.catalog)
    columns = tuple(ColumnDef(f"k{place}", type_) for place, type_ in enumerate(made.types))
    names = tuple(column.name for column in columns)
    unique = Unique(one.name, names, nulls_distinct=one.nulls_distinct)
    constraints = Constraints(uniques=(unique,) if one.is_unique else ())
    engine.create_table(kept, Schema(columns), constraints)
    made.inserted(engine.executor.scan(entry.name))
    engine.catalog.others["exclusion", entry.name.lower(), one.name.lower()] = one
    engine.refresh_rules()


def drop_exclusion(engine: Engine, one: Exclusion) -> None:
    """Let a table break a rule."""
    engine.catalog.others.pop(("exclusion", one.table.lower(), one.name.lower()), None)
    if one.kept in engine.catalog:
        engine.drop(one.kept)
    engine.refresh_rules()


def empty_exclusions(engine: Engine, name: str) -> None:
    """A table has no rows any more."""
    for one in exclusions_of(engine.catalog, name):
        engine.executor.delete(one.kept, engine.executor.rowids(one.kept))


def rebuild_exclusions(engine: Engine, name: str) -> None:
    """A table may have other columns: its rules are made anew; those that have no meaning any more go."""
    for one in list(exclusions_of(engine.catalog, name)):
        drop_exclusion(engine, one)
        try:
            add_exclusion(engine, engine.catalog.table(name), one)
        except IntegrityError:
            raise
        except Error:
            continue


def written(text: str) -> str:
    """An expression in one form of many."""
    return str(parsed_expression(text).unnest().sql(dialect="postgres")).lower()


def arbiters_beside(
    engine: Engine, entry: TableEntry, statement: ast.Insert
) -> tuple[Sequence[tuple[int, ...]], list[Excluding]]:
    """Where ON CONFLICT looks for rows that are there: keys of columns, and other rules."""
    conflict = statement.conflict
    assert conflict is not None
    known = list(excluding(engine.executor, entry, engine.catalog))
    if not conflict.columns and not conflict.elements and not conflict.constraint:
        return arbiters(statement, entry), known
    if conflict.constraint:
        chosen = [one for one in known if one.one.name.lower() == conflict.constraint.lower()]
        chosen = [one for one in chosen if not one.one.index]
        if chosen and conflict.assignments and not chosen[0].one.is_unique:
            message = "ON CONFLICT DO UPDATE not supported with exclusion constraints"
            raise ProgrammingError(message, span=conflict.span)
        return ((), chosen) if chosen else (arbiters(statement, entry), [])
    elements = conflict.elements or conflict.columns
    wanted = sorted(map(written, elements))
    columns = {tuple(sorted(name.lower() for name in key.columns)) for key in entry.constraints.uniques}
    columns.add(tuple(sorted(entry.schema.names[place].lower() for place in entry.schema.primary_key)))
    if tuple(wanted) in columns:
        return arbiters(
            replace(statement, conflict=replace(conflict, elements=(), columns=elements)), entry
        ), []
    given = written(conflict.predicate) if conflict.predicate else ""
    for rule in known:
        one = rule.one
        fits = one.is_unique and one.index and sorted(map(written, one.elements)) == wanted
        if fits and (not one.where or written(one.where) == given):
            return (), [rule]
    error = ProgrammingError(
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        span=conflict.span,
    )
    error.sqlstate = "42P10"
    raise error


def without_conflicts(rules: Sequence[Excluding], words: Words) -> Words:
    """The rows that meet none that is there, nor one before them."""
    for rule in rules:
        words = np.ascontiguousarray(words[:, ~rule.there(words)])
        keys, places = rule.keys(words)
        kept = np.ones(words.shape[1], np.bool_)
        if rule.one.is_unique:
            _, first = np.unique(keys, axis=1, return_index=True)
            kept[np.setdiff1d(places, places[first])] = False
        else:
            kept[rule.later(keys, places)] = False
        words = np.ascontiguousarray(words[:, kept])
    return words
