"""What is cast to a domain, held to its CHECKs, which say VALUE."""

from kpg.compiler.catalog.constraints import Domain
from kpg.compiler.sql.bind.calls import condition
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.scope import Binding, Field, Scope
from kpg.compiler.sql.parse.reader import parsed_expression
from kpg.runtime.scalar import Call, Column, Literal, Scalar, transform
from kpg.runtime.types import BOOLEAN, TEXT


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
