"""Where in a program's text an operation stands that failed while rows were computed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from kpg.compiler.rules import core
from kpg.runtime.errors import DataError, Span
from kpg.runtime.scalar import Call, Literal, Scalar

HINTS: Final = {
    "guard the divisor": "let the rule say that the divisor is not 0",
    "cast an operand to DOUBLE": "numbers have 64 bits: to_float(...) makes floats of them",
}
"""What a rule can do where SQL can do otherwise."""


def place(error: DataError, program: core.Program) -> None:
    """Give the error the place of the operation, if one rule of the program has such a one.

    If several have, their lines are a hint.
    """
    operation = error.operation
    if error.span is not None or not isinstance(operation, Call):
        return
    found: dict[tuple[str, int], Span] = {}
    for rule in program.rules:
        for expression, span in _expressions(rule.body):
            if any(_is_like(part, operation) for part in _parts(expression)):
                found.setdefault((span.file, span.start), span)
    if found and error.hint is not None:
        error.hint = next((ours for hint, ours in HINTS.items() if error.hint.startswith(hint)), error.hint)
    if len(found) == 1:
        (error.span,) = found.values()
    elif found:
        lines = sorted({span.line for span in found.values()})
        error.hint = f"it is in one of the rules at lines {', '.join(map(str, lines))}"


@contextmanager
def placed(program: core.Program) -> Iterator[None]:
    """Gives errors that are raised inside their places in the program's text."""
    try:
        yield
    except DataError as error:
        place(error, program)
        raise


def _expressions(body: Sequence[core.Literal]) -> Iterator[tuple[core.Expression, Span]]:
    for one in body:
        if isinstance(one, core.Assignment):
            yield one.expression, one.span
        elif isinstance(one, core.Comparison):
            whole = core.Call(one.function, (one.left, one.right), one.left.type)
            yield whole, one.span
        elif isinstance(one, core.BodyAggregate):
            yield from _expressions(one.body)
            if one.value is not None:
                yield one.value, one.span


def _parts(expression: core.Expression) -> Iterator[core.Call]:
    if isinstance(expression, core.Call):
        yield expression
        for arg in expression.args:
            yield from _parts(arg)


def _is_like(expression: core.Expression, scalar: Scalar) -> bool:
    """Whether the scalar may be what the expression was lowered to: a variable may be anything by now."""
    if isinstance(expression, core.Constant):
        return not isinstance(scalar, Literal) or scalar.value == expression.value
    if not isinstance(expression, core.Call):
        return True
    if not isinstance(scalar, Call):
        return isinstance(scalar, Literal)  # Computed before.
    if expression.function == "cast" and scalar.function != "cast":
        return _is_like(expression.args[0], scalar)
    return (
        expression.function == scalar.function
        and len(expression.args) == len(scalar.args)
        and all(map(_is_like, expression.args, scalar.args))
    )
