"""Entry point of the Datalog front end: text to a checked core program, or all diagnostics.

:func:`check_depth` limits the nesting of expressions to ``MAX_DEPTH``, because later stages
recurse on them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import count
from pathlib import Path
from typing import Any, assert_never

from kpg.compiler.catalog.access_control import require_file_access
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.clauses import Clauses
from kpg.compiler.datalog.core_program import ProgramBuilder
from kpg.compiler.datalog.desugar.core_rules import GENERATED_PREFIX, check_versions
from kpg.compiler.datalog.desugar.inline import inline
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.parser import parse
from kpg.compiler.datalog.preprocessor import File, Read, Setting, preprocess
from kpg.compiler.datalog.stratification import check_monotone, check_stratification
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.components import instantiate
from kpg.compiler.datalog.syntax.lattices import expand_lattices
from kpg.compiler.datalog.types.declarations import Relations, declare_types
from kpg.compiler.datalog.types.functors import FunctorFunctions, declare_functors, resolve_user_aggregates
from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Expression,
    Literal,
    Negation,
    Program,
    Rule,
)
from kpg.runtime.errors import Diagnostic, Span
from kpg.runtime.records import dataclass

MAX_DEPTH = 200
"""Maximum depth of nested calls in an expression.

Each takes several of Python's 1000 stack frames.
"""


def check_depth(rules: Iterable[Rule], diagnostics: Diagnostics) -> None:
    """Report rules with an expression of more than ``MAX_DEPTH`` nested calls."""
    for rule in rules:
        for expression, span in _expressions(rule.body):
            if _is_deep(expression):
                message = f"an expression nested more than {MAX_DEPTH} deep is not supported"
                hint = "give parts of it to variables of relations in between"
                diagnostics.error("unsupported", message, span, hint=hint)


def _expressions(body: Iterable[Literal]) -> Iterator[tuple[Expression, Span]]:
    for literal in body:
        match literal:
            case Assignment(expression=expression, span=span):
                yield expression, span
            case Comparison(left=left, right=right, span=span):
                yield left, span
                yield right, span
            case BodyAggregate(value=value, body=inner, span=span):
                if value is not None:
                    yield value, span
                yield from _expressions(inner)
            case Atom() | Negation():
                pass
            case _:
                assert_never(literal)


def _is_deep(expression: Expression) -> bool:
    level: list[Expression] = [expression]
    for _ in range(MAX_DEPTH):
        level = [arg for part in level if isinstance(part, Call) for arg in part.args]
        if not level:
            return False
    return True


NUMBER_SIZE = "number-size"
MAX_ROUNDS = "max-rounds"
LEGACY = "legacy"
ROUNDS = re.compile(r"0*[1-9][0-9]{0,17}", re.ASCII)
USER_AGGREGATE = "@@"
MAX_SHALLOW_DEPTH = 30
"""Maximum nesting of brackets that is not reported as the cause of too deep recursion."""
STATEMENT = re.compile(r"[^.\s][^.]*")
TYPES = (ast.Subtype, ast.UnionType, ast.RecordType, ast.AdtType)


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program without errors, with its warnings.

    ``statements`` are all statements but goals and updates. A text checked later can extend them.
    ``mark`` ends the names of generated relations, which distinguishes them from those of other
    programs.
    """

    program: Program
    warnings: tuple[Diagnostic, ...]
    statements: tuple[ast.Statement, ...] = field(default=(), repr=False)
    mark: str = ""
    functions: FunctorFunctions = field(default_factory=dict, repr=False)


def check(
    text: str,
    catalog: Catalog,
    *,
    file: str = "",
    read: Read | None = None,
    base: CheckedProgram | None = None,
    setting: Setting | None = None,
    functors: Mapping[str, Callable[..., Any]] | None = None,
    mark: str | None = None,
) -> CheckedProgram:
    """Check a program whose undeclared relations are tables and views of the catalog.

    The result is the whole program, but only with the goals and updates of the text.

    Args:
      text: the program.
      catalog: the catalog.
      file: the name of the text in messages, from which includes are looked up.
      read: returns the text of an included file by its path.
      base: a checked program that the text extends, usually by goals. Its relations may be in the
        catalog, and have the meaning that it gives them.
      setting: folders for includes, and macros.
      functors: the Python functions of declared functors.
      mark: the mark that the program had when it was checked earlier.

    Raises:
      DatalogError: with all diagnostics, if there is an error.
    """
    diagnostics = Diagnostics()
    checked = None
    try:
        source = preprocess(
            File(file, text), include_reader(catalog, read or read_file), diagnostics, setting
        )
        structures = () if base is None else base.program.structures
        tree = parse(source, diagnostics, takes_tuples=any(name.startswith("(") for name in structures))
        if not diagnostics.has_errors:
            mark = mark if base is None else base.mark
            checked = _check(tree.statements, catalog, base, functors or {}, diagnostics, mark)
    except RecursionError:
        message = "a program nested this deep is not supported"
        diagnostics.error("unsupported", message, _deepest_position(File(file, text)))
    diagnostics.raise_errors()
    assert checked is not None
    return checked


def _deepest_position(file: File) -> Span:
    """Return the position with the most open brackets, or the longest statement if that is not deep."""
    depth, most, place = 0, 0, 0
    for offset, mark in enumerate(file.text):
        depth += (mark in "([{") - (mark in ")]}")
        if depth > most:
            most, place = depth, offset
    if most > MAX_SHALLOW_DEPTH:
        return file.span(place, place + 1)
    start, end = max(
        ((found.start(), found.end()) for found in STATEMENT.finditer(file.text)),
        key=lambda stretch: stretch[1] - stretch[0],
        default=(0, 0),
    )
    return file.span(start, end)


def read_file(path: str) -> str:
    """Return the text of a UTF-8 file."""
    return Path(path).read_text(encoding="utf-8")


def include_reader(catalog: Catalog, read: Read = read_file) -> Read:
    """Return the function that reads included files.

    It raises PrivilegeError if the role may not read files.
    """

    def read_checked(path: str) -> str:
        require_file_access(catalog, "from", None, "include")
        return read(path)

    return read_checked if catalog.checks_privileges else read


def _check(
    new_statements: tuple[ast.Statement, ...],
    catalog: Catalog,
    base: CheckedProgram | None,
    functors: Mapping[str, Callable[..., Any]],
    diagnostics: Diagnostics,
    mark: str | None,
) -> CheckedProgram:
    old = () if base is None else base.statements
    own = frozenset[str]() if base is None else frozenset(base.program.relations)
    statements = instantiate(ast.Module((*old, *new_statements)), diagnostics).statements
    statements = expand_lattices(statements, diagnostics)
    types = (one for one in statements if isinstance(one, TYPES))
    table = declare_types(types, diagnostics)
    table.is_legacy = any(isinstance(one, ast.Pragma) and one.key == LEGACY for one in statements)
    declared = (one for one in statements if isinstance(one, ast.Functor))
    previous_functions = {} if base is None else base.functions
    declare_functors(declared, table, catalog, functors, previous_functions, diagnostics)
    if any(USER_AGGREGATE in text for text in {_source_text(one) for one in statements}):
        statements = resolve_user_aggregates(statements, table, diagnostics)
    relations = Relations(catalog, table, diagnostics, own)
    relations.declare(one for one in statements if isinstance(one, ast.Declaration))
    pragmas = {one.key: one.value for one in statements if isinstance(one, ast.Pragma)}
    _check_rounds(statements, diagnostics)
    size = _number_size(statements, diagnostics)
    clauses = Clauses(relations, diagnostics, size)
    for statement in statements:
        clauses.add(statement)
    rules = [*clauses.rules, *(rule for goal in clauses.goals for rule in goal.rules)]
    inlined = inline(rules, _inline_relations(clauses), table, diagnostics)
    mark = _free_mark(catalog) if mark is None else mark
    assembly = ProgramBuilder(clauses, inlined.not_inlined, diagnostics, size, mark)
    assembly.add(inlined.rules)
    program = assembly.program(pragmas)
    check_stratification(program.relations, program.rules, diagnostics)
    if not diagnostics.has_errors:
        check_monotone(program.relations, program.rules, diagnostics)
    check_depth(program.rules, diagnostics)
    check_versions(program.relations, program.rules, diagnostics)
    kept = tuple(one for one in (*old, *new_statements) if not isinstance(one, ast.Goal | ast.Update))
    callable_ = {name: function for name, function in table.functions.items() if name in table.functors}
    return CheckedProgram(program, diagnostics.in_text_order(), kept, mark, callable_)


def _source_text(statement: ast.Statement) -> str:
    """Return the text that contains a rule."""
    return statement.span.source if isinstance(statement, ast.Clause) else ""


def _free_mark(catalog: Catalog) -> str:
    """Return the first mark that no generated relation of the catalog has."""
    taken = {entry.name.partition("~")[2] for entry in catalog if entry.name.startswith(GENERATED_PREFIX)}
    number = next(n for n in count(1) if ("" if n == 1 else str(n)) not in taken)
    return "" if number == 1 else f"~{number}"


def _check_rounds(statements: Iterable[ast.Statement], diagnostics: Diagnostics) -> None:
    for statement in statements:
        if (
            isinstance(statement, ast.Pragma)
            and statement.key == MAX_ROUNDS
            and not ROUNDS.fullmatch(statement.value)
        ):
            message = f'{MAX_ROUNDS} "{statement.value}" is not a number of rounds'
            diagnostics.error("unsupported", message, statement.span, hint="give a positive number")


def _number_size(statements: Iterable[ast.Statement], diagnostics: Diagnostics) -> int:
    size = 64
    for statement in statements:
        if isinstance(statement, ast.Pragma) and statement.key == NUMBER_SIZE:
            if statement.value in ("32", "64"):
                size = int(statement.value)
            else:
                message = f'numbers of "{statement.value}" bits are not supported'
                diagnostics.error("unsupported", message, statement.span, hint="the sizes are 32 and 64")
    return size


def _inline_relations(clauses: Clauses) -> set[str]:
    """Return the relations to inline, and report those that cannot be."""
    names: set[str] = set()
    for info in clauses.relations.by_name.values():
        if not info.is_inline:
            continue
        if info.has_input or info.has_output:
            message = f"relation {info.name} is read or written, it cannot be inlined"
            clauses.diagnostics.error("inline", message, info.span)
        elif any(aggregate is not None for aggregate in info.aggregates):
            message = f"relation {info.name} aggregates, it cannot be inlined"
            clauses.diagnostics.error("inline", message, info.span)
        else:
            names.add(info.name)
    return names
