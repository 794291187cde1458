"""Plan cache: statements that differ only in constants share one plan with slots for them.

On its second arrival a statement is planned twice: with slots, and with its constants. The slotted plan is
cached only if it equals the other one once the constants are filled in. Constants that determine the plan
(``LIMIT 10``) belong to the cache key. Statements without a cached plan take the general path. EXECUTE with
constants is the prepared text with parameters, and shares its plans.

Results of queries over system relations alone are cached until the catalog changes. Client tools repeat such
queries, and planning one of ten relations takes about a hundred times as long as the check of the cache.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kpg.api.result import Result
from kpg.compiler.algebra.rel import Get, LetRec
from kpg.compiler.algebra.traverse import walk
from kpg.compiler.catalog.cache import noting, viewpoint
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.sql.bind.literals import convert, meant
from kpg.compiler.sql.bind.volatile_calls import LOCKING, MENTIONS
from kpg.compiler.sql.frontend import Bound
from kpg.compiler.sql.parameterize.normalization import Asked, Given, marked_statement, normal
from kpg.compiler.sql.parameterize.value_lists import constant, executed, valued
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import (
    Beyond,
    Binder,
    Filler,
    Parameters,
    Slot,
    has_marks,
    slots_in,
)
from kpg.compiler.sql.parse.parser import parse
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.compiler.sql.rewrite.external_tables import Mention, attached
from kpg.execute.changes.dml import Changes, deletion, updating
from kpg.execute.queries.point_lookup import Direct, direct, rows
from kpg.execute.queries.query_plan import Planned, bind, plan, plan_bound
from kpg.execute.queries.result_rows import Reader
from kpg.runtime import plan as ir
from kpg.runtime.errors import CanceledError, Error, OperationalError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import UNKNOWN, Kind, Type
from kpg.session.engine import CacheKind, Engine, Latest, changes_alone

Words = NDArray[np.int64]
Statement = ast.Select | ast.Update | ast.Delete
BEFORE: Final = ((), ("=", "<", ">", ",", "(", "+", "-", "*", "/"), ("=", "<", ">"))
"""What stands before constants that a plan does not depend on: first any, then what seldom is wrong."""
MOST_TEXTS: Final = 64
"""So many statements that differ in constants which their plans depend on."""
NOT_KEPT: Final = re.compile(f"{MENTIONS.pattern}|{LOCKING.pattern}", re.IGNORECASE)
"""A text with one of these has each time other values, or locks rows."""
GROWN: Final = 4
"""A plan of several relations is made anew when one has so many times the rows that it had."""


class OfSystemError(Exception):
    """A statement asks for what there is: its answers are kept, not its plan."""


@dataclass(frozen=True, slots=True)
class Template:
    """A statement's plan with slots."""

    statement: Statement
    planned: Planned
    slots: tuple[Slot, ...]
    filler: Filler
    direct: Direct | None
    reader: Reader
    sizes: tuple[tuple[str, int], ...]

    @property
    def looks_up(self) -> bool:
        """Whether it reads one row of a table, and no view: what is pending does not matter to it."""
        how = self.direct
        return how is not None and bool(how.key) and isinstance(how.source, ir.Source)


class Known:
    """What is known of statements that differ in constants: ``pins`` are those that their plans depend on."""

    __slots__ = ("pins", "refused", "seen", "templates", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.pins: tuple[int, ...] | None = None
        self.refused = False
        self.seen: Latest[tuple[str, ...], bool] = Latest(MOST_TEXTS)
        self.templates: Latest[tuple[str, ...], Template] = Latest(MOST_TEXTS)


PLANS: Final = CacheKind[tuple[object, ...], Known]()


def looks_up(engine: Engine, text: str) -> bool:
    """Whether a text is known to look up what it reads, or the one row that it changes."""
    found = normal(text)
    return found is not None and engine.remembered.keyed.get(found.text) == engine.catalog.version


def kept_template(engine: Engine, statement: Asked, key: tuple[object, ...]) -> Template | None:
    """The plan of a statement that looks up one row, if there is one under a key."""
    known = engine.remembered.kind(PLANS).get(key)
    if known is None or known.version != engine.catalog.version or known.pins is None:
        return None
    template = known.templates.get(tuple(statement.normal.written[place] for place in known.pins))
    return template if template is not None and template.looks_up else None


def template_of(engine: Engine, statement: Asked, key: tuple[object, ...]) -> Template | None:
    """The plan of a statement that has come before; None if it has not, or has no such plan."""
    version = engine.catalog.version
    known = engine.remembered.kind(PLANS).get(key)
    if known is None or known.version != version:
        engine.remembered.kind(PLANS).put(key, known := Known(version))
    if known.refused:
        return None
    if known.pins is None:
        return _first(engine, statement, known)
    pinned = tuple(statement.normal.written[place] for place in known.pins)
    template = known.templates.get(pinned)
    if template is not None and _is_fresh(engine, template):
        return template
    if template is None and not known.seen.get(pinned):
        known.seen.put(pinned, True)
        return None
    try:
        template = _built(engine, statement, known.pins)
    except OfSystemError:
        template = None
    if template is None:
        known.refused = True
    else:
        known.templates.put(pinned, template)
    return template


def _first(engine: Engine, statement: Asked, known: Known) -> Template | None:
    """Find out which constants a statement's plan depends on: as few as that is found with."""
    text = statement.normal
    count = len(text.constants)
    known.pins, known.refused = (), True  # unless it is found out now
    tried: set[tuple[int, ...]] = {tuple(range(count))} if count else set()
    for before in BEFORE:
        starts = enumerate(text.places) if before else ()
        pins = tuple(place for place, start in starts if not statement.text[:start].rstrip().endswith(before))
        if pins in tried:
            continue
        tried.add(pins)
        try:
            template = _built(engine, statement, pins)
        except OfSystemError:
            return None
        if template is not None:
            known.pins, known.refused = pins, False
            known.templates.put(tuple(text.written[place] for place in pins), template)
            return template
    known.pins = tuple(range(count))
    known.refused = not count
    known.seen.put(text.written, True)
    return None


def _is_fresh(engine: Engine, template: Template) -> bool:
    """Whether the tables of a join are about as large as when it was planned."""
    for table, size in template.sizes:
        rows_now = engine.executor.count(table)
        if rows_now > GROWN * size or size > GROWN * rows_now:
            return False
    return True


def _built(engine: Engine, statement: Asked, pins: tuple[int, ...]) -> Template | None:
    """The statement's plan with slots for constants that are not ``pins``; None if it depends on one."""
    try:
        return _made(engine, statement, pins)
    except (CanceledError, OfSystemError):
        raise
    except Exception:
        # A slot is unlike any constant: what trips over it, whatever it raises, has looked at the constant.
        return None


def _made(engine: Engine, asked: Asked, pins: tuple[int, ...]) -> Template | None:
    catalog = engine.reading_catalog
    before, steady = catalog.consulted.times, catalog.consulted.steady
    marked = marked_statement(asked, pins)
    (written,) = parse(asked.text)
    written = Binder(asked.parameters()).bind(written) if asked.given else written
    for one in (marked, written):
        if attached(one, engine.catalog.__contains__, _refuse) is not one or NOT_KEPT.search(asked.text):
            return None
    if not isinstance(marked, ast.Select | ast.Update | ast.Delete) or type(written) is not type(marked):
        return None
    if isinstance(marked, ast.Update | ast.Delete) and marked.cursor:
        return None
    if isinstance(marked, ast.Select) and marked != ast.Select(marked.query, marked.span):
        return None  # AS OF, and whatever else is not in the plan
    if not isinstance(marked, ast.Select) and not changes_alone(engine, marked.table):
        return None
    bound = bind(marked, catalog)
    if catalog.consulted.steady != steady:
        raise OfSystemError
    if catalog.consulted.times != before:
        return None
    planned = plan_bound(bound, catalog, engine.statistics)
    exact = plan(written, catalog, engine.statistics)
    if any(isinstance(node, LetRec) for node in walk(planned.rel)):
        return None
    slots = slots_in(planned.plan)
    expected = {place for place, one in enumerate(asked.constants) if one is not None and place not in pins}
    filler = Filler(planned.plan)
    if {slot.number for slot in slots} != expected or filler.filled(slot_values(slots, asked)) != exact.plan:
        return None
    shown = (planned.schema, planned.types, planned.order)
    if shown != (exact.schema, exact.types, exact.order):
        return None
    tables = [node.table for node in planned.plan.nodes if isinstance(node, ir.Source)]
    sizes = tuple((table, engine.executor.count(table)) for table in dict.fromkeys(tables))
    reader = planned.reader(engine.executor.dictionary)
    how = _tried(engine, direct(engine, planned.plan, catalog), slot_values(slots, asked))
    return Template(
        marked, planned, tuple(slots), filler, how, reader, sizes if len(planned.plan.nodes) > 4 else ()
    )


def _tried(engine: Engine, how: Direct | None, values: dict[Slot, Literal]) -> Direct | None:
    """A way to answer a plan that works: some functions take constants only, of which slots are columns."""
    try:
        if how is not None:
            rows(engine, how, values)
    except CanceledError:
        raise
    except Error:
        return how
    except Exception:
        return None
    return how


def _refuse(mention: Mention) -> str | None:
    raise Beyond


def slot_values(slots: Iterable[Slot], asked: Asked) -> dict[Slot, Literal]:
    """The values of slots; Beyond if one is none of its type."""
    constants = asked.constants
    found = {}
    for slot in slots:
        constant = constants[slot.number]
        assert constant is not None
        found[slot] = valued(slot, constant) if slot.steps else constant
    return found


def run(engine: Engine, template: Template, asked: Asked, otherwise: Callable[[], Any]) -> Any:
    """Run a statement by its plan; ``otherwise`` runs it as all others."""
    engine.begin_statement()
    engine.transactions.check()
    with engine.transactions.undoing():
        done = _answer(engine, template, asked)
    if done is None:
        return otherwise()
    engine.remembered.used += 1
    if template.direct is not None and template.direct.key:
        engine.remembered.keyed.put(asked.normal.text, engine.catalog.version)
    if isinstance(done, Result):
        return done
    with engine.transactions.statement(changes=True):
        done.apply()
        return done.result()


def _answer(engine: Engine, template: Template, asked: Asked) -> Result | Changes | None:
    """The rows of a query, or what a statement changes; None for errors, which are said by the way of all."""
    try:
        values = slot_values(template.slots, asked)
        statement = template.statement
        found = None
        if template.direct is not None:
            reads = isinstance(statement, ast.Select)
            with engine.executor.dictionary.passing() if reads else nullcontext():
                found = rows(engine, template.direct, values)
        if found is None:
            planned = template.planned
            filled = template.filler.filled(values)
            whole = Planned(planned.rel, filled, planned.schema, planned.types, planned.order)
            found = engine.rows(whole) if isinstance(statement, ast.Select) else engine.run(whole)
        if isinstance(statement, ast.Select):
            return template.reader.result(*found)
        table = engine.table(statement.table)
        if isinstance(statement, ast.Delete):
            return deletion(table, statement, template.planned, found[0])
        return updating(engine, table, statement, template.planned, found[0])
    except OperationalError:
        raise  # to run it again would end as this has
    except (Beyond, Error, RecursionError):
        return None


def asked_by_name(engine: Engine, text: str) -> Asked | None:
    """An EXECUTE as the statement that was prepared, and its values; None if there is more to it."""
    found = executed(text)
    prepared = None if found is None else engine.prepared.get(found[0].lower())
    if found is None or prepared is None:
        return None
    cells, types = found[1], prepared.types
    statement = normal(prepared.text)
    if statement is None or (types and len(types) != len(cells)):
        return None
    given: list[tuple[str | int, Given]] = []
    for place, cell in enumerate(cells):
        try:
            value = _given(engine, cell, types[place] if types else "unknown")
        except Error:
            return None
        if value is None and cell[0] not in "nN":
            return None
        given.append((place, value))

    def syntax() -> Parameters:
        declared = types or ("unknown",) * len(cells)
        pairs = zip(cells, declared, strict=True)
        return [parsed_expression(one if _is_open(type_) else f"({one})::{type_}") for one, type_ in pairs]

    return Asked(prepared.text, syntax, statement, tuple(given))


def _is_open(declared: str) -> bool:
    return declared.lower() == "unknown"


def _given(engine: Engine, cell: str, declared: str) -> Given:
    """A value as a constant of its type; None for NULL, and for what is no constant of it."""
    if cell[0] in "nN":
        return None
    literal = constant(cell)
    if literal is None or _is_open(declared):
        return bool(literal.value) if literal is not None and literal.type.kind is Kind.BOOLEAN else literal
    type_ = _type(engine, declared)
    if type_.kind in (Kind.BOOLEAN, Kind.ENUM) or type_.limits_length:
        return None
    if literal.type == UNKNOWN:
        return meant(literal, type_)
    cast = literal if literal.type == type_ else convert(literal, type_)
    return cast if isinstance(cast, Literal) else None


def _type(engine: Engine, declared: str) -> Type:
    known = engine.remembered.types.get(declared)
    if known is None:
        known = sql_type(parsed_expression(f"null::{declared}").args["to"], declared)
        engine.remembered.types.put(declared, known)
    return known


MOST_ROWS: Final = 10_000
Compute = Callable[[Engine, Bound, Catalog], Result]


def answered(engine: Engine, text: str) -> Iterator[Result] | None:
    """The rows of a text that was asked before, if they are the same; None if they are not known."""
    key = (text.strip().removesuffix(";").rstrip(), None, viewpoint(engine.catalog))
    found: Result | None = engine.remembered.answers.get(engine.catalog, key)

    def outcome() -> Iterator[Result]:
        assert found is not None
        engine.begin_statement()
        with engine.transactions.statement(changes=False):
            result = found.again()
        yield result

    return None if found is None else outcome()


def answer(engine: Engine, statement: ast.Select, compute: Compute) -> Result:
    """The rows of a query that may ask the system: as ``compute`` has them, or has had them before."""
    catalog, text = engine.catalog, statement.text
    key: Hashable = (text, statement.query if has_marks(text) else None, viewpoint(catalog))
    kept = engine.remembered.answers
    found: Result | None = kept.get(catalog, key)
    if found is not None:
        return found.again()
    reading, consulted = engine.reading_catalog, catalog.consulted
    before = consulted.times, consulted.steady
    with noting(catalog) as told:
        bound = bind(statement, reading)
    result = compute(engine, bound, reading)
    times, steady = consulted.times - before[0], consulted.steady - before[1]
    if times == steady > 0 and len(result) <= MOST_ROWS and _alone(engine, bound):
        kept.put(catalog, key, result, told)
        plain = normal(text)
        if plain is not None:
            engine.remembered.of_system.put(plain.text, True)
        return result.again()
    return result


def _alone(engine: Engine, bound: Bound) -> bool:
    """Whether a query asks the system and nothing else."""
    return not engine.catalog.functions and not any(isinstance(node, Get) for node in walk(bound.rel))
