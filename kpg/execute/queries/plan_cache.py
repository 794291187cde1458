"""Plan cache: statements that differ only in constants share one plan with slots for them.

On its second arrival a statement is planned twice: with slots, and with its constants. The slotted plan is
cached only if it equals the other one once the constants are filled in. Constants that determine the plan
(``LIMIT 10``) belong to the cache key. Statements without a cached plan take the general path. EXECUTE with
constants is the prepared text with parameters, and shares its plans.

Results of queries over system relations alone are cached until the catalog changes. Client tools repeat such
queries, and planning one of ten relations takes about a hundred times as long as the check of the cache.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.algebra.rel import Get, LetRec
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.entries import Catalog, record_session_rows, session_context
from kpg.compiler.sql.bind.literals import convert, literal_from_quoted
from kpg.compiler.sql.frontend import LoweredQuery
from kpg.compiler.sql.parameterize.normalization import (
    NormalizedStatement,
    ParameterConstant,
    normalize_text,
    parse_with_markers,
)
from kpg.compiler.sql.parameterize.value_lists import parse_constant, parse_execute, slot_value
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import (
    Binder,
    NotConstantError,
    Parameters,
    PlanTemplate,
    Slot,
    may_have_placeholders,
    slots_in,
)
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.compiler.sql.rewrite.external_tables import ExternalSource, attach_external_tables
from kpg.execute.changes.dml import delete_changes, update_changes
from kpg.execute.queries.point_lookup import PointLookup, make_point_lookup, run_point_lookup
from kpg.execute.queries.query_plan import PlannedStatement, bind, plan, plan_bound
from kpg.execute.queries.result_rows import Reader
from kpg.runtime import plan as ir
from kpg.runtime.errors import CanceledError, Error, OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import UNKNOWN, Kind, Type
from kpg.session.base_table import Changes
from kpg.session.engine import CacheKind, Engine, LruCache, is_unpartitioned

Words = NDArray[np.int64]
Statement = ast.Select | ast.Update | ast.Delete
PIN_HEURISTICS: Final = ((), ("=", "<", ">", ",", "(", "+", "-", "*", "/"), ("=", "<", ">"))
"""Text before constants on which a plan does not depend: first any text, then the least risky."""
MAX_PINNED_VARIANTS: Final = 64
"""Cached variants per normalized text, by the constants that determine the plan."""
GROWTH_FACTOR: Final = 4
"""A join plan is discarded once a table is larger or smaller than at planning by this factor."""


class SystemQueryError(Exception):
    """The statement reads system relations: its results are cached, not its plan."""


@dataclass(frozen=True, slots=True)
class Template:
    """A cached plan with slots for constants."""

    statement: Statement
    planned: PlannedStatement
    slots: tuple[Slot, ...]
    filler: PlanTemplate
    point_lookup: PointLookup | None
    reader: Reader
    sizes: tuple[tuple[str, int], ...]

    @property
    def is_keyed(self) -> bool:
        """Whether it reads one row of a table by key. Pending changes do not affect such a plan."""
        how = self.point_lookup
        return how is not None and bool(how.key) and isinstance(how.source, ir.Source)


class CacheEntry:
    """Templates of a normalized text; ``pins`` are the positions of constants that determine the plan."""

    __slots__ = ("is_uncacheable", "pins", "seen_pins", "templates", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.pins: tuple[int, ...] | None = None
        self.is_uncacheable = False
        self.seen_pins: LruCache[tuple[str, ...], bool] = LruCache(MAX_PINNED_VARIANTS)
        self.templates: LruCache[tuple[str, ...], Template] = LruCache(MAX_PINNED_VARIANTS)


PLANS: Final = CacheKind[tuple[object, ...], CacheEntry]()


def is_keyed_text(engine: Engine, text: str) -> bool:
    """Whether a text is known to find its row by key."""
    found = normalize_text(text)
    return found is not None and engine.plan_cache.keyed_texts.get(found.text) == engine.catalog.version


def find_keyed_template(
    engine: Engine, statement: NormalizedStatement, key: tuple[object, ...]
) -> Template | None:
    """Return the cached plan of a keyed statement, if there is one."""
    entry = engine.plan_cache.of_kind(PLANS).get(key)
    if entry is None or entry.version != engine.catalog.version or entry.pins is None:
        return None
    template = entry.templates.get(
        tuple(statement.normalized_text.constant_texts[place] for place in entry.pins)
    )
    return template if template is not None and template.is_keyed else None


def find_template(engine: Engine, statement: NormalizedStatement, key: tuple[object, ...]) -> Template | None:
    """Return the plan of a repeated statement, made on its second arrival; None if there is none."""
    version = engine.catalog.version
    entry = engine.plan_cache.of_kind(PLANS).get(key)
    if entry is None or entry.version != version:
        engine.plan_cache.of_kind(PLANS).put(key, entry := CacheEntry(version))
    if entry.is_uncacheable:
        return None
    if entry.pins is None:
        return _find_pins(engine, statement, entry)
    pinned = tuple(statement.normalized_text.constant_texts[place] for place in entry.pins)
    template = entry.templates.get(pinned)
    if template is not None and _is_fresh(engine, template):
        return template
    if template is None and not entry.seen_pins.get(pinned):
        entry.seen_pins.put(pinned, True)
        return None
    try:
        template = _try_template(engine, statement, entry.pins)
    except SystemQueryError:
        template = None
    if template is None:
        entry.is_uncacheable = True
    else:
        entry.templates.put(pinned, template)
    return template


def _find_pins(engine: Engine, statement: NormalizedStatement, entry: CacheEntry) -> Template | None:
    """Find a small set of constants that determine the statement's plan, and cache the plan."""
    text = statement.normalized_text
    count = len(text.constants)
    entry.pins, entry.is_uncacheable = (), True  # unless a plan is found below
    tried: set[tuple[int, ...]] = {tuple(range(count))} if count else set()
    for before in PIN_HEURISTICS:
        starts = enumerate(text.offsets) if before else ()
        pins = tuple(place for place, start in starts if not statement.text[:start].rstrip().endswith(before))
        if pins in tried:
            continue
        tried.add(pins)
        try:
            template = _try_template(engine, statement, pins)
        except SystemQueryError:
            return None
        if template is not None:
            entry.pins, entry.is_uncacheable = pins, False
            entry.templates.put(tuple(text.constant_texts[place] for place in pins), template)
            return template
    entry.pins = tuple(range(count))
    entry.is_uncacheable = not count
    entry.seen_pins.put(text.constant_texts, True)
    return None


def _is_fresh(engine: Engine, template: Template) -> bool:
    """Whether the tables of a join have about the sizes at planning."""
    for table, size in template.sizes:
        rows_now = engine.executor.tables.count(table)
        if rows_now > GROWTH_FACTOR * size or size > GROWTH_FACTOR * rows_now:
            return False
    return True


def _try_template(engine: Engine, statement: NormalizedStatement, pins: tuple[int, ...]) -> Template | None:
    """Return a plan with slots for the constants other than ``pins``; None if it depends on one."""
    try:
        return _make_template(engine, statement, pins)
    except (CanceledError, SystemQueryError):
        raise
    except Exception:
        # A slot is no ordinary constant: any exception means that the plan depends on the constant.
        return None


def _make_template(engine: Engine, statement: NormalizedStatement, pins: tuple[int, ...]) -> Template | None:
    catalog = engine.reading_catalog
    before, cacheable_count = catalog.system_reads.count, catalog.system_reads.cacheable_count
    marked = parse_with_markers(statement, pins)
    (exact_statement,) = parse(statement.text)
    exact_statement = (
        Binder(statement.parameters()).bind(exact_statement)
        if statement.parameter_constants
        else exact_statement
    )
    for one in (marked, exact_statement):
        if attach_external_tables(one, engine.catalog.__contains__, _refuse_mention) is not one:
            return None
    if not isinstance(marked, ast.Select | ast.Update | ast.Delete) or type(exact_statement) is not type(
        marked
    ):
        return None
    if marked.span.features.calls_volatile or marked.span.features.locks_rows:
        return None
    if isinstance(marked, ast.Update | ast.Delete) and marked.cursor:
        return None
    if isinstance(marked, ast.Select) and marked != ast.Select(marked.query, marked.span):
        return None  # AS OF, and other clauses that the plan does not contain
    if not isinstance(marked, ast.Select) and not is_unpartitioned(engine, marked.table):
        return None
    bound = bind(marked, catalog)
    if catalog.system_reads.cacheable_count != cacheable_count:
        raise SystemQueryError
    if catalog.system_reads.count != before:
        return None
    planned = plan_bound(bound, catalog, engine.statistics)
    exact = plan(exact_statement, catalog, engine.statistics)
    if any(isinstance(node, LetRec) for node in walk(planned.rel)):
        return None
    slots = slots_in(planned.plan)
    expected = {
        place for place, one in enumerate(statement.constants) if one is not None and place not in pins
    }
    filler = PlanTemplate(planned.plan)
    if {slot.number for slot in slots} != expected or filler.instantiate(
        slot_values(slots, statement)
    ) != exact.plan:
        return None
    shown = (planned.schema, planned.types, planned.order)
    if shown != (exact.schema, exact.types, exact.order):
        return None
    tables = [node.table for node in planned.plan.nodes if isinstance(node, ir.Source)]
    sizes = tuple((table, engine.executor.tables.count(table)) for table in dict.fromkeys(tables))
    reader = planned.reader(engine.executor.dictionary)
    lookup = _check_point_lookup(
        engine, make_point_lookup(engine, planned.plan, catalog), slot_values(slots, statement)
    )
    return Template(
        marked, planned, tuple(slots), filler, lookup, reader, sizes if len(planned.plan.nodes) > 4 else ()
    )


def _check_point_lookup(
    engine: Engine, point_lookup: PointLookup | None, values: dict[Slot, Literal]
) -> PointLookup | None:
    """Return the point lookup if it runs; some functions take constants only, and slots are columns."""
    try:
        if point_lookup is not None:
            run_point_lookup(engine, point_lookup, values)
    except CanceledError:
        raise
    except Error:
        return point_lookup
    except Exception:
        return None
    return point_lookup


def _refuse_mention(mention: ExternalSource) -> str | None:
    raise NotConstantError


def slot_values(slots: Iterable[Slot], statement: NormalizedStatement) -> dict[Slot, Literal]:
    """Return the values of slots; NotConstantError if a value does not fit its type."""
    constants = statement.constants
    found = {}
    for slot in slots:
        constant = constants[slot.number]
        assert constant is not None
        found[slot] = slot_value(slot, constant) if slot.steps else constant
    return found


def run_template(
    engine: Engine, template: Template, statement: NormalizedStatement, run_generally: Callable[[], Any]
) -> Any:
    """Run a statement by its plan; ``run_generally`` runs it on the general path."""
    engine.begin_statement()
    engine.transactions.check_not_failed()
    with engine.transactions.failing_on_error():
        outcome = _run(engine, template, statement)
    if outcome is None:
        return run_generally()
    engine.plan_cache.hits += 1
    if template.point_lookup is not None and template.point_lookup.key:
        engine.plan_cache.keyed_texts.put(statement.normalized_text.text, engine.catalog.version)
    if isinstance(outcome, Result):
        return outcome
    with engine.transactions.statement(changes=True):
        outcome.apply()
    return outcome.result()


def _run(engine: Engine, template: Template, request: NormalizedStatement) -> Result | Changes | None:
    """Return rows or changes of a statement; None for errors, which the general path reports."""
    try:
        values = slot_values(template.slots, request)
        statement = template.statement
        found = None
        if template.point_lookup is not None:
            reads = isinstance(statement, ast.Select)
            with engine.executor.dictionary.reply_scope() if reads else nullcontext():
                found = run_point_lookup(engine, template.point_lookup, values)
        if found is None:
            planned = template.planned
            filled = template.filler.instantiate(values)
            whole = PlannedStatement(planned.rel, filled, planned.schema, planned.types, planned.order)
            found = engine.run_read_only(whole) if isinstance(statement, ast.Select) else engine.run(whole)
        if isinstance(statement, ast.Select):
            return template.reader.result(*found)
        table = engine.table(statement.table)
        if isinstance(statement, ast.Delete):
            return delete_changes(table, statement, template.planned, found[0])
        return update_changes(engine, table, statement, template.planned, found[0])
    except OperationalError:
        raise  # a second run would fail in the same way
    except (NotConstantError, Error, RecursionError):
        return None


def expand_execute(engine: Engine, text: str) -> NormalizedStatement | None:
    """Return an EXECUTE as the prepared statement with values; None if the fast path does not apply."""
    found = parse_execute(text)
    prepared = None if found is None else engine.prepared_statements.get(found[0].lower())
    if found is None or prepared is None:
        return None
    cells, types = found[1], prepared.types
    statement = normalize_text(prepared.text)
    if statement is None or (types and len(types) != len(cells)):
        return None
    given: list[tuple[str | int, ParameterConstant]] = []
    for place, cell in enumerate(cells):
        try:
            value = _constant_of_type(engine, cell, types[place] if types else "unknown")
        except Error:
            return None
        if value is None and cell[0] not in "nN":
            return None
        given.append((place, value))

    def syntax() -> Parameters:
        declared = types or ("unknown",) * len(cells)
        pairs = zip(cells, declared, strict=True)
        return [parse_expression(one if _is_unknown(type_) else f"({one})::{type_}") for one, type_ in pairs]

    return NormalizedStatement(prepared.text, syntax, statement, tuple(given))


def _is_unknown(type_name: str) -> bool:
    return type_name.lower() == "unknown"


def _constant_of_type(engine: Engine, cell: str, type_name: str) -> ParameterConstant:
    """Return a value as a constant of its type; None for NULL and for values that do not fit."""
    if cell[0] in "nN":
        return None
    literal = parse_constant(cell)
    if literal is None or _is_unknown(type_name):
        return bool(literal.value) if literal is not None and literal.type.kind is Kind.BOOLEAN else literal
    type_ = _declared_type(engine, type_name)
    if type_.kind in (Kind.BOOLEAN, Kind.ENUM, Kind.EXTENSION) or type_.has_length_limit:
        return None
    if literal.type == UNKNOWN:
        return literal_from_quoted(literal, type_)
    cast = literal if literal.type == type_ else convert(literal, type_)
    return cast if isinstance(cast, Literal) else None


def _declared_type(engine: Engine, type_name: str) -> Type:
    known = engine.plan_cache.parameter_types.get(type_name)
    if known is None:
        known = sql_type(parse_expression(f"null::{type_name}").args["to"], type_name)
        engine.plan_cache.parameter_types.put(type_name, known)
    return known


MOST_ROWS: Final = 10_000
Compute = Callable[[Engine, LoweredQuery, Catalog], Result]


def cached_result(engine: Engine, text: str) -> Iterator[Result] | None:
    """Return the cached rows of a text over system relations; None if they are not cached."""
    key = (text.strip().removesuffix(";").rstrip(), None, session_context(engine.catalog))
    found: Result | None = engine.plan_cache.system_results.get(engine.catalog, key)

    def outcome() -> Iterator[Result]:
        assert found is not None
        engine.begin_statement()
        with engine.transactions.statement(changes=False):
            result = found.with_new_cursor()
        yield result

    return None if found is None else outcome()


def run_catalog_query(engine: Engine, statement: ast.Select, compute: Compute) -> Result:
    """Return the rows of a query that may read system relations, from the cache or by ``compute``."""
    catalog, text = engine.catalog, statement.text
    key: Hashable = (text, statement.query if may_have_placeholders(text) else None, session_context(catalog))
    cache = engine.plan_cache.system_results
    found: Result | None = cache.get(catalog, key)
    if found is not None:
        return found.with_new_cursor()
    reading, consulted = engine.reading_catalog, catalog.system_reads
    before = consulted.count, consulted.cacheable_count
    with record_session_rows(catalog) as dependencies:
        bound = bind(statement, reading)
    result = compute(engine, bound, reading)
    times, steady = consulted.count - before[0], consulted.cacheable_count - before[1]
    if times == steady > 0 and len(result) <= MOST_ROWS and _reads_system_only(engine, bound):
        cache.put(catalog, key, result, dependencies)
        plain = normalize_text(text)
        if plain is not None:
            engine.plan_cache.system_queries.put(plain.text, True)
        return result.with_new_cursor()
    return result


def _reads_system_only(engine: Engine, bound: LoweredQuery) -> bool:
    """Whether a query reads system relations only."""
    return not engine.catalog.functions and not any(isinstance(node, Get) for node in walk(bound.rel))
