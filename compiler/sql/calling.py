"""CALL: the procedure that is meant, and the values of its arguments."""

from sqlglot import exp

from kpg.compiler.catalog import Catalog
from kpg.compiler.routines import Routine
from kpg.compiler.sql import session as ast
from kpg.compiler.sql.bind.inlined import resolved_call
from kpg.compiler.sql.bind.query import new_binding
from kpg.compiler.sql.bind.scope import Scope
from kpg.runtime.errors import NotSupportedError, ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.scalar import Scalar


def called_procedure(statement: ast.CallProcedure, catalog: Catalog) -> tuple[Routine, list[Mfp]]:
    """The procedure, and how each argument is computed, over nothing."""
    span = statement.span
    binding = new_binding(span.source, catalog)
    found = resolved_call(binding, Scope(), statement.call)
    if found is None:
        name = span.source[span.start : span.end].partition("(")[0].split()[-1]
        raise ProgrammingError(f"procedure {name} does not exist", span=span)
    routine, scalars = found
    if routine.kind != "procedure":
        raise ProgrammingError(f"{routine.name} is not a procedure", span=span, hint="use SELECT")
    if binding.subqueries:
        raise NotSupportedError("a subquery as an argument of CALL is not supported", span=span)
    return routine, [Mfp((), (scalar,)) for scalar in scalars]


def out_targets(call: exp.Expr, routine: Routine) -> list[str]:
    """What stands in a CALL for each OUT parameter, as text."""
    operands = call.expressions if not isinstance(call, exp.Dot) else call.expression.expressions
    names = [name.lower() for name, _ in routine.outs]
    found = []
    for parameter, operand in zip(routine.parameters, operands, strict=False):
        if parameter.name.lower() in names:
            found.append(operand.sql("postgres"))
    return found


__all__ = ["Scalar", "called_procedure", "out_targets"]
