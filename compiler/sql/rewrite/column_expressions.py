"""CHECK constraints, generated columns and defaults, bound over the columns of a table's rows.

The module also finds the columns that such expressions use, and renames or converts those columns.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.constraints import Check, UniqueIndex
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.bind.calls import assigned, check_assignable, condition, settled
from kpg.compiler.sql.bind.per_row_calls import numbered_by
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bind.volatile_calls import NEXTVAL, by_chance, is_chance, sequence_of
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.functions import castable
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER, ColumnDef, Type

TIMES: Final = re.compile(r"\bnow\s*\(|\bcurrent_(date|time)|\blocaltime|_timestamp\s*\(", re.IGNORECASE)

ROWS: Final = ""


@dataclass(frozen=True, slots=True)
class Default:
    """A column's default over the next values of ``sequences``, which are columns 0, 1, ... of its input.

    ``ROWS`` among them stands for numbers that tell the rows of one INSERT apart.
    """

    scalar: Scalar
    sequences: tuple[str, ...]


def over_row(
    entry: TableEntry, text: str, catalog: Catalog, known: Scope | None = None
) -> tuple[Binding, Scope]:
    """A binding and a scope in which a row's columns have their positions as ids.

    ``known`` is that scope if it was made for another text.
    """
    binding = new_binding(text, catalog)
    if known is not None:
        binding.ids = count(len(known.fields))
        return binding, known
    fields = [
        Field(entry.name, column.name, Column(binding.fresh(), column.type))
        for column in entry.schema.columns
    ]
    return binding, Scope(fields=Fields(fields))


def bind_check(entry: TableEntry, check: Check, catalog: Catalog, known: Scope | None = None) -> Scalar:
    """A CHECK's condition over the row, whose scope may be ``known``."""
    _no_time("CHECK", check.text)
    binding, scope = over_row(entry, check.text, catalog, known)
    node = parsed_expression(check.text)
    scalar = binding.expression(scope.without_aggregates("CHECK"), node)
    _no_subquery(binding, "CHECK", check.text)
    return condition(binding, scalar, node, "CHECK")


def key_of_row(entry: TableEntry, one: UniqueIndex, catalog: Catalog) -> Mfp:
    """The rows that a unique index is of, and the values of its expressions."""
    predicates = (bind_check(entry, Check("", one.where), catalog),) if one.where else ()
    values = []
    for text in one.elements:
        binding, scope = over_row(entry, text, catalog)
        scalar = binding.expression(scope.without_aggregates("an index"), parsed_expression(text))
        _no_subquery(binding, "an index", text)
        values.append(settled(scalar))
    return Mfp(predicates, tuple(values))


def checks(entry: TableEntry, catalog: Catalog) -> Mfp | None:
    """A row mapped to what each of the table's CHECKs says of it; None without CHECKs."""
    if not entry.constraints.checks:
        return None
    _, scope = over_row(entry, "", catalog)
    conditions = tuple(bind_check(entry, check, catalog, scope) for check in entry.constraints.checks)
    return Mfp((), conditions)


def generated(entry: TableEntry, catalog: Catalog) -> Mfp | None:
    """A row mapped to that with its generated columns; None if the table has none."""
    found = {
        place: bind_generated(entry, place, catalog)
        for place, rule in enumerate(entry.constraints.rules)
        if rule.generated
    } | _rounded(entry)
    if not found:
        return None
    row = (found.get(place, Column(place, column.type)) for place, column in enumerate(entry.schema.columns))
    return Mfp((), tuple(row))


def _rounded(entry: TableEntry) -> dict[int, Scalar]:
    """Moments with fewer digits of a second than there are."""
    return {
        place: Call("$to_digits", (Column(place, column.type), Literal(rule.digits, INTEGER)), column.type)
        for place, (rule, column) in enumerate(
            zip(entry.constraints.rules, entry.schema.columns, strict=False)
        )
        if rule.digits >= 0 and not rule.generated
    }


def bind_generated(entry: TableEntry, place: int, catalog: Catalog) -> Scalar:
    """A generated column over the row's other columns."""
    text = entry.constraints.rules[place].generated
    _no_time("GENERATED", text)
    binding, scope = over_row(entry, text, catalog)
    rules = entry.constraints.rules
    plain = [field for field, rule in zip(scope.fields, rules, strict=True) if not rule.generated]
    node = parsed_expression(text)
    for column in node.find_all(exp.Column):
        names = [field.name.lower() for field in scope.fields]
        if column.name.lower() in names and rules[names.index(column.name.lower())].generated:
            raise ProgrammingError(f'generated column "{column.name}" cannot be used by another: {text}')
    scalar = binding.expression(replace(scope, fields=Fields(plain), clause="GENERATED"), node)
    _no_subquery(binding, "GENERATED", text)
    return assigned(binding, scalar, entry.schema.columns[place], node)


def bind_default(column: ColumnDef, text: str, catalog: Catalog, *, checking: bool = False) -> Default:
    """A column's DEFAULT; a NULL if it has none.

    One that is left to chance is refused unless this is for ``checking`` it.
    """
    if not text:
        return Default(Literal(None, column.type), ())
    binding = new_binding(text, catalog)
    sequences: list[str] = []
    fields: list[Field] = []

    def numbered(node: exp.Expr) -> exp.Expr:
        if not (isinstance(node, exp.Anonymous) and str(node.this).lower() == NEXTVAL):
            return node
        sequences.append(sequence_of(node, catalog))
        fields.append(Field("", f"${len(fields)}", Column(binding.fresh(), BIGINT)))
        return exp.column(fields[-1].name, quoted=True)

    node = parsed_expression(text).transform(numbered)
    if checking:
        node = by_chance(node)
    elif any(map(is_chance, node.walk())):
        sequences.append(ROWS)
        fields.append(numbered_by(Column(binding.fresh(), BIGINT)))
    scope = Scope(fields=Fields(fields), clause="DEFAULT")
    for named in node.find_all(exp.Column):
        if not named.name.startswith("$"):
            raise ProgrammingError(f'a DEFAULT cannot use column "{named.name}": {text}')
    scalar = binding.expression(scope, node)
    _no_subquery(binding, "DEFAULT", text)
    return Default(assigned(binding, scalar, column, node), tuple(sequences))


def check_rules(entry: TableEntry, catalog: Catalog) -> None:
    """Raise what is wrong with a table's rules."""
    checks(entry, catalog)
    generated(entry, catalog)
    for column, rule in zip(entry.schema.columns, entry.constraints.rules, strict=False):
        bind_default(column, rule.default, catalog, checking=True)


def defaults(entry: TableEntry, places: Sequence[int], catalog: Catalog) -> dict[int, Default]:
    """The defaults of the columns at some positions."""
    columns, rules = entry.schema.columns, entry.constraints
    return {place: bind_default(columns[place], rules.rule(place).default, catalog) for place in places}


def _no_time(what: str, text: str) -> None:
    if TIMES.search(text):
        raise NotSupportedError(f"the present time in {what} is not supported: {text}")


def _no_subquery(binding: Binding, what: str, text: str) -> None:
    if binding.subqueries:
        raise NotSupportedError(f"a subquery in {what} is not supported: {text}")


def uses(text: str, column: str) -> bool:
    """Whether an expression names a column."""
    if not text:
        return False
    return any(node.name.lower() == column.lower() for node in parsed_expression(text).find_all(exp.Column))


def renamed(text: str, old: str, new: str) -> str:
    """An expression with another name for a column."""
    if not uses(text, old):
        return text
    tokens = tokenize(text)
    for place in range(len(tokens) - 1, -1, -1):
        token = tokens[place]
        called = place + 1 < len(tokens) and tokens[place + 1].text == "("
        if token.text.lower() == old.lower() and not called and token.token_type.name != "STRING":
            plain = new.isidentifier() and new == new.lower()
            name = new if plain else '"' + new.replace('"', '""') + '"'
            text = text[: token.start] + name + text[token.end + 1 :]
    return text


def converted(entry: TableEntry, place: int, type_: Type, using: str, catalog: Catalog) -> Mfp:
    """A row mapped to the same with one column of another type: the value of ``using``, or a cast.

    ProgrammingError if there is no cast that is made without being asked for.
    """
    column = entry.schema.columns[place]
    new = ColumnDef(column.name, type_)
    if using:
        binding, scope = over_row(entry, using, catalog)
        node = parsed_expression(using)
        scalar = binding.expression(scope.without_aggregates("USING"), node)
        value = assigned(binding, scalar, new, node)
    else:
        binding, _ = over_row(entry, column.name, catalog)
        node = exp.column(column.name)
        if not type_.is_text:
            try:
                check_assignable(binding, column.type, new, node)
            except ProgrammingError:
                raise ProgrammingError(
                    f"column {column.name} cannot be turned into {type_} by itself",
                    hint=f"write USING {column.name}::{type_}",
                ) from None
        old = Column(place, column.type)
        if column.type != type_ and not castable(column.type, type_):
            raise ProgrammingError(f"cannot cast {column.type} to {type_}")
        value = old if column.type == type_ else Call("cast", (old,), type_, stored=column.name)
    row = (
        value if index == place else Column(index, other.type)
        for index, other in enumerate(entry.schema.columns)
    )
    return Mfp((), tuple(row))
