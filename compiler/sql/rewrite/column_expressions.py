"""CHECK constraints, generated columns and defaults, bound over the columns of a table's rows.

The module also finds the columns that such expressions use, and renames or converts those columns.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from sqlglot import exp

from kpg.compiler.catalog.constraints import Check, UniqueIndex
from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.bind.calls import (
    check_assignable,
    coerce_for_assignment,
    coerce_to_boolean,
    default_to_text,
)
from kpg.compiler.sql.bind.per_row_calls import row_number_field
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.scope import Binding, Field, Fields, Scope
from kpg.compiler.sql.bind.volatile_calls import (
    NEXTVAL,
    current_time_type,
    evaluate_volatile_calls,
    is_volatile_call,
    sequence_name,
)
from kpg.compiler.sql.parse.reader import parse_expression
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.functions import is_castable
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER, ColumnDef, Type

ROW_NUMBER: Final = ""
"""Element of ``Default.sequences``: numbers that tell the rows of one INSERT apart."""


@dataclass(frozen=True, slots=True)
class Default:
    """Column default as a scalar over the next values of ``sequences``, columns 0, 1, ... of its input.

    :data:`ROW_NUMBER` among them is the number of the row in its INSERT.
    """

    scalar: Scalar
    sequences: tuple[str, ...]


def row_scope(
    entry: TableEntry, text: str, catalog: Catalog, known: Scope | None = None
) -> tuple[Binding, Scope]:
    """Return a binding and a scope in which a row's columns have their positions as ids."""
    binding = new_binding(text, catalog)
    if known is not None:
        binding.ids = count(len(known.fields))
        return binding, known
    fields = [
        Field(entry.name, column.name, Column(binding.new_id(), column.type))
        for column in entry.schema.columns
    ]
    return binding, Scope(fields=Fields(fields))


def bind_check(entry: TableEntry, check: Check, catalog: Catalog, known: Scope | None = None) -> Scalar:
    """Return a CHECK's condition over the row."""
    node = parse_expression(check.text)
    _refuse_current_time("CHECK", check.text, node)
    binding, scope = row_scope(entry, check.text, catalog, known)
    scalar = binding.expression(scope.without_aggregates("CHECK"), node)
    _refuse_subquery(binding, "CHECK", check.text)
    return coerce_to_boolean(binding, scalar, node, "CHECK")


def bind_index_key(entry: TableEntry, index: UniqueIndex, catalog: Catalog) -> Mfp:
    """Return the predicate and the expressions of a unique index as a map of the row."""
    predicates = (bind_check(entry, Check("", index.where), catalog),) if index.where else ()
    values = []
    for text in index.elements:
        binding, scope = row_scope(entry, text, catalog)
        scalar = binding.expression(scope.without_aggregates("an index"), parse_expression(text))
        _refuse_subquery(binding, "an index", text)
        values.append(default_to_text(scalar))
    return Mfp(predicates, tuple(values))


def bind_checks(entry: TableEntry, catalog: Catalog) -> Mfp | None:
    """Return a map from a row to the results of the table's CHECKs; None without CHECKs."""
    if not entry.constraints.checks:
        return None
    _, scope = row_scope(entry, "", catalog)
    conditions = tuple(bind_check(entry, check, catalog, scope) for check in entry.constraints.checks)
    return Mfp((), conditions)


def bind_generated_columns(entry: TableEntry, catalog: Catalog) -> Mfp | None:
    """Return a map from a row to the row with generated columns and rounded timestamps.

    None if the table has neither.
    """
    found = {
        place: bind_generated(entry, place, catalog)
        for place, rule in enumerate(entry.constraints.rules)
        if rule.generated
    } | _round_seconds(entry)
    if not found:
        return None
    row = (found.get(place, Column(place, column.type)) for place, column in enumerate(entry.schema.columns))
    return Mfp((), tuple(row))


def _round_seconds(entry: TableEntry) -> dict[int, Scalar]:
    """Return the columns whose types keep fewer digits of a second, rounded."""
    return {
        place: Call("$to_digits", (Column(place, column.type), Literal(rule.digits, INTEGER)), column.type)
        for place, (rule, column) in enumerate(
            zip(entry.constraints.rules, entry.schema.columns, strict=False)
        )
        if rule.digits >= 0 and not rule.generated
    }


def bind_generated(entry: TableEntry, position: int, catalog: Catalog) -> Scalar:
    """Return a generated column over the row's other columns."""
    text = entry.constraints.rules[position].generated
    node = parse_expression(text)
    _refuse_current_time("GENERATED", text, node)
    binding, scope = row_scope(entry, text, catalog)
    rules = entry.constraints.rules
    ungenerated = [field for field, rule in zip(scope.fields, rules, strict=True) if not rule.generated]
    for column in node.find_all(exp.Column):
        names = [field.name.lower() for field in scope.fields]
        if column.name.lower() in names and rules[names.index(column.name.lower())].generated:
            raise ProgrammingError(f'generated column "{column.name}" cannot be used by another: {text}')
    scalar = binding.expression(replace(scope, fields=Fields(ungenerated), clause="GENERATED"), node)
    _refuse_subquery(binding, "GENERATED", text)
    return coerce_for_assignment(binding, scalar, entry.schema.columns[position], node)


def bind_default(column: ColumnDef, text: str, catalog: Catalog, *, checking: bool = False) -> Default:
    """Return a column's DEFAULT; NULL if it has none.

    ``checking`` only validates it: calls of random functions are replaced.
    """
    if not text:
        return Default(Literal(None, column.type), ())
    binding = new_binding(text, catalog)
    sequences: list[str] = []
    fields: list[Field] = []

    def replace_nextval(node: exp.Expr) -> exp.Expr:
        if not (isinstance(node, exp.Anonymous) and str(node.this).lower() == NEXTVAL):
            return node
        sequences.append(sequence_name(node, catalog))
        fields.append(Field("", f"${len(fields)}", Column(binding.new_id(), BIGINT)))
        return exp.column(fields[-1].name, quoted=True)

    node = parse_expression(text).transform(replace_nextval)
    if checking:
        node = evaluate_volatile_calls(node)
    elif any(map(is_volatile_call, node.walk())):
        sequences.append(ROW_NUMBER)
        fields.append(row_number_field(Column(binding.new_id(), BIGINT)))
    scope = Scope(fields=Fields(fields), clause="DEFAULT")
    for column_node in node.find_all(exp.Column):
        if not column_node.name.startswith("$"):
            raise ProgrammingError(f'a DEFAULT cannot use column "{column_node.name}": {text}')
    scalar = binding.expression(scope, node)
    _refuse_subquery(binding, "DEFAULT", text)
    return Default(coerce_for_assignment(binding, scalar, column, node), tuple(sequences))


def check_rules(entry: TableEntry, catalog: Catalog) -> None:
    """Check that the table's CHECKs, generated columns and defaults bind; raise the binder's error."""
    bind_checks(entry, catalog)
    bind_generated_columns(entry, catalog)
    for column, rule in zip(entry.schema.columns, entry.constraints.rules, strict=False):
        bind_default(column, rule.default, catalog, checking=True)


def bind_defaults(entry: TableEntry, places: Sequence[int], catalog: Catalog) -> dict[int, Default]:
    """Return the defaults of the columns at ``places``."""
    columns, rules = entry.schema.columns, entry.constraints
    return {place: bind_default(columns[place], rules.rule(place).default, catalog) for place in places}


def _refuse_current_time(clause: str, text: str, tree: exp.Expr) -> None:
    if any(current_time_type(node) is not None for node in tree.walk()):
        raise NotSupportedError(f"the present time in {clause} is not supported: {text}")


def _refuse_subquery(binding: Binding, clause: str, text: str) -> None:
    if binding.subqueries:
        raise NotSupportedError(f"a subquery in {clause} is not supported: {text}")


def uses_column(text: str, column: str) -> bool:
    """Return whether an expression refers to a column."""
    if not text:
        return False
    return any(node.name.lower() == column.lower() for node in parse_expression(text).find_all(exp.Column))


def names_in_subquery(text: str, column: str) -> bool:
    """Return whether a subquery of an expression refers to a column of this name, of any relation."""
    return any(
        node.name.lower() == column.lower()
        for query in parse_expression(text).find_all(exp.Select)
        for node in query.find_all(exp.Column)
    )


def rename_column(text: str, old: str, new: str) -> str:
    """Return an expression with a column renamed."""
    return rename_in_tokens(text, old, new) if uses_column(text, old) else text


def rename_in_tokens(text: str, old: str, new: str) -> str:
    """Return a text, which need not be an expression, with a name replaced that is no function's."""
    tokens = tokenize(text)
    for place in range(len(tokens) - 1, -1, -1):
        token = tokens[place]
        is_function = place + 1 < len(tokens) and tokens[place + 1].text == "("
        if token.text.lower() == old.lower() and not is_function and token.token_type.name != "STRING":
            is_unquoted = new.isidentifier() and new == new.lower()
            name = new if is_unquoted else '"' + new.replace('"', '""') + '"'
            text = text[: token.start] + name + text[token.end + 1 :]
    return text


def convert_column(entry: TableEntry, position: int, type_: Type, using: str, catalog: Catalog) -> Mfp:
    """Return a map of a row with one column converted to another type, by ``using`` or by a cast.

    ProgrammingError without ``using`` if there is no assignment cast.
    """
    column = entry.schema.columns[position]
    new = ColumnDef(column.name, type_)
    if using:
        binding, scope = row_scope(entry, using, catalog)
        node = parse_expression(using)
        scalar = binding.expression(scope.without_aggregates("USING"), node)
        value = coerce_for_assignment(binding, scalar, new, node)
    else:
        binding, _ = row_scope(entry, column.name, catalog)
        node = exp.column(column.name)
        if not type_.is_text:
            try:
                check_assignable(binding, column.type, new, node)
            except ProgrammingError:
                raise ProgrammingError(
                    f"column {column.name} cannot be cast automatically to type {type_}",
                    hint=f"write USING {column.name}::{type_}",
                ) from None
        old = Column(position, column.type)
        if column.type != type_ and not is_castable(column.type, type_):
            raise ProgrammingError(f"cannot cast {column.type} to {type_}")
        value = old if column.type == type_ else Call("cast", (old,), type_, stored=column.name)
    row = (
        value if index == position else Column(index, other.type)
        for index, other in enumerate(entry.schema.columns)
    )
    return Mfp((), tuple(row))
