"""CHECKs of domains, which say VALUE: of a column, and of any value that is cast."""

from dataclasses import replace

from kpg.compiler.constraints import Check, Domain
from kpg.compiler.sql.bind.calls import condition
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.ddl.reader import parsed_expression
from kpg.compiler.sql.tokens import tokenize
from kpg.runtime.scalar import Call, Column, Literal, Scalar, transform
from kpg.runtime.types import BOOLEAN, TEXT


def over_column(check: Check, column: str) -> Check:
    """The CHECK of a domain as one of a column."""
    quoted = '"' + column.replace('"', '""') + '"'
    text, end = "", 0
    for token in tokenize(check.text):
        if token.text.upper() == "VALUE" and check.text[token.start] not in "'\"":
            text += check.text[end : token.start] + quoted
            end = token.end + 1
    return replace(check, text=text + check.text[end:], column=column)


def in_domain(binding: Binding, value: Scalar, domain: Domain) -> Scalar:
    """A value of the domain's type, or an error if it is not one of the domain's."""
    if domain.required:
        message = Literal(f"domain {domain.name} does not allow null values", TEXT)
        known = Call("is_not_null", (value,), BOOLEAN)
        value = Call("$in_domain", (value, known, message), value.type)
    for check in domain.checks:
        inner = new_binding(check.text, binding.catalog)
        column = Column(inner.fresh(), value.type)
        node = parsed_expression(check.text)
        scope = Scope(fields=[Field("", "value", column)], clause="CHECK")
        held = condition(inner, inner.expression(scope, node), node, "CHECK")
        held = _with(held, column, value)
        message = Literal(f'value for domain {domain.name} violates check constraint "{check.name}"', TEXT)
        value = Call("$in_domain", (value, held, message), value.type)
    return value


def _with(scalar: Scalar, column: Column, value: Scalar) -> Scalar:
    return transform(scalar, lambda one: value if one == column else one)
