"""Entry point of the Datalog front end: text to a checked core program, or DatalogError with all diagnostics.

:func:`check_depth` limits the nesting of expressions to ``DEEPEST``, because later stages recurse on them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import count
from pathlib import Path
from typing import Any, assert_never

from kpg.compiler.catalog.access_control import need_file
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.datalog.clauses import Clauses
from kpg.compiler.datalog.core_program import Assembly
from kpg.compiler.datalog.desugar.core_rules import MADE_UP, check_versions
from kpg.compiler.datalog.desugar.inline import inline
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.parser import parse
from kpg.compiler.datalog.preprocessor import File, Read, Setting, preprocess
from kpg.compiler.datalog.stratification import check_monotone, check_stratified
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.components import instantiate
from kpg.compiler.datalog.syntax.lattices import without_lattices
from kpg.compiler.datalog.types.declarations import Relations, declare_types
from kpg.compiler.datalog.types.functors import Made, declare_functors, with_folds
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

DEEPEST = 200
"""Calls in each other in an expression: each takes frames of Python's stack, of which there are 1000."""


def check_depth(rules: Iterable[Rule], diagnostics: Diagnostics) -> None:
    """Notes rules with an expression of more than ``DEEPEST`` calls in each other."""
    for rule in rules:
        for expression, span in _expressions(rule.body):
            if _is_deep(expression):
                message = f"an expression nested more than {DEEPEST} deep is not supported"
                hint = "give parts of it to variables of relations in between"
                diagnostics.error("unsupported", message, span, hint=hint)


def _expressions(body: Iterable[Literal]) -> Iterator[tuple[Expression, Span]]:
    for one in body:
        match one:
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
                assert_never(one)


def _is_deep(expression: Expression) -> bool:
    level: list[Expression] = [expression]
    for _ in range(DEEPEST):
        level = [arg for one in level if isinstance(one, Call) for arg in one.args]
        if not level:
            return False
    return True


NUMBER_SIZE = "number-size"
MAX_ROUNDS = "max-rounds"
LEGACY = "legacy"
ROUNDS = re.compile(r"0*[1-9][0-9]{0,17}", re.ASCII)
USERS_AGGREGATE = "@@"
SHALLOW = 30
"""Brackets in brackets that nobody has trouble with."""
STATEMENT = re.compile(r"[^.\s][^.]*")
TYPES = (ast.Subtype, ast.UnionType, ast.RecordType, ast.AdtType)


@dataclass(frozen=True, slots=True)
class Checked:
    """A program without errors, and the warnings about it.

    ``statements`` are those that a text checked after it adds to: all but goals and updates. ``mark`` ends
    the names of relations that it had to make up, which sets them apart from other programs'.
    """

    program: Program
    warnings: tuple[Diagnostic, ...]
    statements: tuple[ast.Statement, ...] = field(default=(), repr=False)
    mark: str = ""
    functions: Made = field(default_factory=dict, repr=False)


def check(
    text: str,
    catalog: Catalog,
    *,
    file: str = "",
    read: Read | None = None,
    after: Checked | None = None,
    setting: Setting | None = None,
    functors: Mapping[str, Callable[..., Any]] | None = None,
    mark: str | None = None,
) -> Checked:
    """Check a program whose undeclared relations are tables and views of the catalog.

    ``after`` is a program that the text adds statements to (goals above all); its own relations may be in
    the catalog, and mean what it says. The result is the whole program, with the goals and updates of the
    text only. ``file`` names the text in messages and is where includes are looked up from; ``read`` gives
    the text of an included file by its path, ``setting`` where else to look and macros; ``functors`` are the
    functions of declared ones, ``mark`` is the one that the program had before. Raises DatalogError.
    """
    diagnostics = Diagnostics()
    checked = None
    try:
        source = preprocess(File(file, text), reader(catalog, read or read_file), diagnostics, setting)
        structures = () if after is None else after.program.structures
        tree = parse(source, diagnostics, takes_tuples=any(name.startswith("(") for name in structures))
        if not diagnostics.failed:
            mark = mark if after is None else after.mark
            checked = _check(tree.statements, catalog, after, functors or {}, diagnostics, mark)
    except RecursionError:
        message = "a program nested this deep is not supported"
        diagnostics.error("unsupported", message, _deepest(File(file, text)))
    diagnostics.raise_errors()
    assert checked is not None
    return checked


def _deepest(file: File) -> Span:
    """The place where most brackets are open; the longest statement, if that is nowhere deep."""
    depth, most, place = 0, 0, 0
    for offset, mark in enumerate(file.text):
        depth += (mark in "([{") - (mark in ")]}")
        if depth > most:
            most, place = depth, offset
    if most > SHALLOW:
        return file.span(place, place + 1)
    start, end = max(
        ((found.start(), found.end()) for found in STATEMENT.finditer(file.text)),
        key=lambda stretch: stretch[1] - stretch[0],
        default=(0, 0),
    )
    return file.span(start, end)


def read_file(path: str) -> str:
    """The text of a file in UTF-8."""
    return Path(path).read_text(encoding="utf-8")


def reader(catalog: Catalog, read: Read = read_file) -> Read:
    """What reads included files. It raises PrivilegeError for a role that may not have files read."""

    def checked(path: str) -> str:
        need_file(catalog, "from", None, "include")
        return read(path)

    return checked if catalog.is_limited else read


def _check(
    new: tuple[ast.Statement, ...],
    catalog: Catalog,
    after: Checked | None,
    functors: Mapping[str, Callable[..., Any]],
    diagnostics: Diagnostics,
    mark: str | None,
) -> Checked:
    old = () if after is None else after.statements
    own = frozenset[str]() if after is None else frozenset(after.program.relations)
    statements = instantiate(ast.Module((*old, *new)), diagnostics).statements
    statements = without_lattices(statements, diagnostics)
    types = (one for one in statements if isinstance(one, TYPES))
    table = declare_types(types, diagnostics)
    table.is_legacy = any(isinstance(one, ast.Pragma) and one.key == LEGACY for one in statements)
    declared = (one for one in statements if isinstance(one, ast.Functor))
    made = {} if after is None else after.functions
    declare_functors(declared, table, catalog, functors, made, diagnostics)
    if any(USERS_AGGREGATE in text for text in {_source(one) for one in statements}):
        statements = with_folds(statements, table, diagnostics)
    relations = Relations(catalog, table, diagnostics, own)
    relations.declare(one for one in statements if isinstance(one, ast.Declaration))
    pragmas = {one.key: one.value for one in statements if isinstance(one, ast.Pragma)}
    _check_rounds(statements, diagnostics)
    size = _number_size(statements, diagnostics)
    clauses = Clauses(relations, diagnostics, size)
    for one in statements:
        clauses.statement(one)
    rules = [*clauses.rules, *(rule for goal in clauses.goals for rule in goal.rules)]
    inlined = inline(rules, _inline_relations(clauses), table, diagnostics)
    mark = _mark(catalog) if mark is None else mark
    assembly = Assembly(clauses, inlined.kept, diagnostics, size, mark)
    assembly.add(inlined.rules)
    program = assembly.program(pragmas)
    check_stratified(program.relations, program.rules, diagnostics)
    if not diagnostics.failed:
        check_monotone(program.relations, program.rules, diagnostics)
    check_depth(program.rules, diagnostics)
    check_versions(program.relations, program.rules, diagnostics)
    kept = tuple(one for one in (*old, *new) if not isinstance(one, ast.Goal | ast.Update))
    callable_ = {name: function for name, function in table.functions.items() if name in table.functors}
    return Checked(program, diagnostics.sorted(), kept, mark, callable_)


def _source(one: ast.Statement) -> str:
    """The text that a rule is in."""
    return one.span.source if isinstance(one, ast.Clause) else ""


def _mark(catalog: Catalog) -> str:
    """The first mark that no made-up relation of the catalog has."""
    taken = {entry.name.partition("~")[2] for entry in catalog if entry.name.startswith(MADE_UP)}
    number = next(n for n in count(1) if ("" if n == 1 else str(n)) not in taken)
    return "" if number == 1 else f"~{number}"


def _check_rounds(statements: Iterable[ast.Statement], diagnostics: Diagnostics) -> None:
    for one in statements:
        if isinstance(one, ast.Pragma) and one.key == MAX_ROUNDS and not ROUNDS.fullmatch(one.value):
            message = f'{MAX_ROUNDS} "{one.value}" is not a number of rounds'
            diagnostics.error("unsupported", message, one.span, hint="give a positive number")


def _number_size(statements: Iterable[ast.Statement], diagnostics: Diagnostics) -> int:
    size = 64
    for one in statements:
        if isinstance(one, ast.Pragma) and one.key == NUMBER_SIZE:
            if one.value in ("32", "64"):
                size = int(one.value)
            else:
                message = f'numbers of "{one.value}" bits are not supported'
                diagnostics.error("unsupported", message, one.span, hint="the sizes are 32 and 64")
    return size


def _inline_relations(clauses: Clauses) -> set[str]:
    """The relations to inline; those that cannot be are noted."""
    names: set[str] = set()
    for info in clauses.relations.known.values():
        if not info.is_inline:
            continue
        if info.has_input or info.has_output:
            message = f"relation {info.name} is read or written, it cannot be inlined"
            clauses.diagnostics.error("inline", message, info.span)
        elif any(one is not None for one in info.aggregates):
            message = f"relation {info.name} aggregates, it cannot be inlined"
            clauses.diagnostics.error("inline", message, info.span)
        else:
            names.add(info.name)
    return names
