"""Magic sets: rewrite a program to derive only tuples that its goals demand. Goals are rows of a table.

``program_rewriting.prepare`` is the entry point: it chooses a strategy and builds the program.
``rule_rewriting`` rewrites one rule, in the literal order of ``sips``. ``linear_recursion`` has the special
cases for linear rules. ``program_rewriting.restrict_program`` limits a program to what its own outputs
need.
"""

from kpg.compiler.rules.magic.program_rewriting import (
    Explanation,
    GoalProgram,
    Policy,
    Strategy,
    counting_steps,
    is_finite,
    origins,
    prepare,
    restrict_program,
)

__all__ = [
    "Explanation",
    "GoalProgram",
    "Policy",
    "Strategy",
    "counting_steps",
    "is_finite",
    "origins",
    "prepare",
    "restrict_program",
]
