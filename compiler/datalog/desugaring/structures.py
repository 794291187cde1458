"""Records and ADT values as expressions of the core, made and taken apart.

While a rule is normalised a record is the call ``[Type]`` and a branch the call ``$Name`` of its plain
arguments, which may be unbound; ``encode`` makes the texts that they are, ``fields`` reads them.
"""

from collections.abc import Iterator

from kpg.compiler.datalog.desugaring.constants import fold
from kpg.compiler.datalog.typing.types import Branch, TypeKind, TypeTable
from kpg.compiler.rules.core import Call, Constant, Domain, Expression
from kpg.runtime.types import BIGINT, DOUBLE, TEXT


def record(structure: str, args: tuple[Expression, ...]) -> Call:
    """A record of a type."""
    return Call(f"[{structure}]", args, TEXT)


def branch(name: str, args: tuple[Expression, ...]) -> Call:
    """A value of an ADT; primitives' names are lower case, so a mark sets branches apart."""
    return Call(f"${name}()", args, TEXT)


def is_structure(expression: Expression) -> bool:
    """Whether the expression is a record or branch by its parts."""
    return isinstance(expression, Call) and (
        expression.function.startswith("[") or expression.function.endswith("()")
    )


def _definition(call: Call, table: TypeTable) -> Branch:
    if call.function.startswith("["):
        return table.records[call.function[1:-1]]
    return table.branches[call.function[1:-2]]


def encode(expression: Expression, table: TypeTable) -> Expression:
    """The expression with its records and branches as texts, and what is constant computed."""
    if not isinstance(expression, Call):
        return expression
    args = tuple(encode(arg, table) for arg in expression.args)
    if not is_structure(expression):
        return fold(Call(expression.function, args, expression.type))
    definition = _definition(expression, table)
    kinds = [table.kinds[type_] for _, type_ in definition.fields]
    texts = tuple(_text(arg, kind) for arg, kind in zip(args, kinds, strict=True))
    if expression.function.startswith("["):
        return fold(Call("$record", texts, TEXT))
    return fold(Call("$branch", (Constant(definition.name, TEXT), *texts), TEXT))


def _text(arg: Expression, kind: TypeKind) -> Expression:
    match kind.domain:
        case Domain.SYMBOL:
            return fold(Call("$quote", (arg,), TEXT))
        case Domain.RECORD | Domain.ADT:
            return arg
        case _:
            return fold(Call("$show", (arg,), TEXT))


def condition(call: Call, value: Expression, table: TypeTable) -> tuple[Expression, Expression]:
    """Two expressions that are equal if ``value`` has the call's shape."""
    name = Constant(_definition(call, table).name, TEXT)
    return Call("$branch_of", (value,), TEXT), name


def fields(call: Call, value: Expression, table: TypeTable) -> Iterator[tuple[Expression, Expression]]:
    """The call's arguments, each with the expression that reads it from ``value``."""
    for position, (arg, (_, type_)) in enumerate(
        zip(call.args, _definition(call, table).fields, strict=True)
    ):
        read: Expression = Call("$field", (value, Constant(position, BIGINT)), TEXT)
        match table.kinds[type_].domain:
            case Domain.SYMBOL:
                read = Call("$unquote", (read,), TEXT)
            case Domain.FLOAT:
                read = Call("$float", (read,), DOUBLE)
            case Domain.NUMBER | Domain.UNSIGNED:
                read = Call("$number", (read,), BIGINT)
            case _:
                pass
        yield arg, read
