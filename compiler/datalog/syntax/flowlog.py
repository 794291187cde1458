"""What FlowLog's programs mean otherwise: how operators bind, what aggregates range over, blocks of rules.

A text is FlowLog's if it declares columns of types that are named as FlowLog names them, or has its blocks.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.heads import head_aggregate
from kpg.runtime.errors import Span
from kpg.runtime.functions import aggregate_named
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, DOUBLE

T = TypeVar("T")
ITS: Final = re.compile(
    r":\s*(?:u?int(?:8|16|32|64)|[iu](?:8|16|32|64)|f32|f64|string|bool)\b"
    r"|\bfixpoint\s*\{|\bloop\s+(?:while|until)\b|^\s*\.extern\s+fn\b",
    re.MULTILINE,
)
ROWS: Final = "@rows"
"""Follows a relation's name in that of the rows that its aggregate is over."""
MOST_ROUNDS: Final = 200
"""Of a loop that is written out round by round."""
COUNTING: Final = ("count", "sum", "mean")
"""Aggregates to which it matters whether a row is there twice."""
WHOLE: Final = re.compile(r"number|unsigned|u?int(8|16|32|64)|[iu](8|16|32|64)")


@dataclass(frozen=True, slots=True)
class Block:
    """FlowLog's ``fixpoint { rules }``, ``loop while { @it <= most } { rules }``, or ``loop until { name }``.

    ``other`` is what else is said of it, which nothing here does. It is gone once a text is parsed.
    """

    clauses: tuple[ast.Clause, ...]
    most: int | None
    other: str | None
    until: str | None
    span: Span = field(compare=False, repr=False)


def is_flowlog(text: str) -> bool:
    """Whether a text without comments is FlowLog's."""
    return ITS.search(text) is not None


def translate(
    statements: Sequence[ast.Statement | Block], diagnostics: Diagnostics
) -> tuple[ast.Statement, ...]:
    """FlowLog's statements as ours; what has no equal is noted."""
    flat = _without_blocks(statements, diagnostics)
    declared = {name.text: one for one in flat if isinstance(one, ast.Declaration) for name in one.names}
    made: list[ast.Statement] = []
    helpers: dict[str, ast.Declaration] = {}
    for one in flat:
        one = _rewritten(one, _boolean)
        if isinstance(one, ast.Clause) and len(one.heads) == 1:
            made += _aggregated(one, declared, helpers)
        else:
            made.append(one)
    return (*helpers.values(), *made)


# Values


def _boolean(node: Any) -> Any:
    if isinstance(node, ast.Variable) and node.name in ("True", "False"):
        return ast.Boolean(node.name == "True", node.span)
    return node


def _rewritten(node: T, change: Callable[[Any], Any]) -> T:
    """The tree with each of its nodes changed, those inside first."""
    found: Any = node
    if isinstance(found, tuple):
        made: Any = tuple(_rewritten(part, change) for part in found)
        return made
    if not is_dataclass(found) or isinstance(found, Span | type):
        return node
    changes = {}
    for one in fields(found):
        old = getattr(found, one.name)
        new = _rewritten(old, change)
        if new is not old and new != old:
            changes[one.name] = new
    result: T = change(replace(found, **changes) if changes else found)
    return result


# Aggregates: of the different rows of keys and values that all rules derive


def _aggregated(
    clause: ast.Clause, declared: dict[str, ast.Declaration], helpers: dict[str, ast.Declaration]
) -> Iterator[ast.Statement]:
    (head,) = clause.heads
    places = [place for place, arg in enumerate(head.args) if _function(arg) in COUNTING]
    declaration = declared.get(head.name.text)
    if not places or declaration is None or len(declaration.attributes) != len(head.args):
        yield clause
        return
    (place,) = places[:1]
    call = head.args[place]
    assert isinstance(call, ast.Call)
    value = call.args[0]
    rows = replace(head.name, text=head.name.text + ROWS)
    is_new = rows.text not in helpers
    if is_new:
        helpers[rows.text] = _rows(declaration, rows, place, value, clause, declared)
    args = (*head.args[:place], value, *head.args[place + 1 :])
    yield replace(clause, heads=(replace(head, name=rows, args=args),))
    if is_new:
        yield _combined(clause, head, rows, place, declaration)


def _function(arg: ast.Expression) -> str | None:
    found = head_aggregate(arg)
    return None if found is None else found[0]


def _rows(
    declaration: ast.Declaration,
    name: ast.Name,
    place: int,
    value: ast.Expression,
    clause: ast.Clause,
    declared: dict[str, ast.Declaration],
) -> ast.Declaration:
    """The declaration of the rows: as the relation's, with the value's type."""
    attributes = list(declaration.attributes)
    found = _type_of(value, clause.body, declared)
    if found is not None:
        attributes[place] = replace(attributes[place], type=found)
    return ast.Declaration((name,), tuple(attributes), (), declaration.span)


def _type_of(
    value: ast.Expression, body: ast.Body | None, declared: dict[str, ast.Declaration]
) -> ast.TypeRef | None:
    """The type of the first column that one of the value's variables stands in."""
    names = [part.name for part in _nodes(value) if isinstance(part, ast.Variable)]
    for atom in _nodes(body):
        declaration = declared.get(atom.name.text) if isinstance(atom, ast.Atom) else None
        if declaration is None or not isinstance(atom, ast.Atom):
            continue
        for arg, attribute in zip(atom.args, declaration.attributes, strict=False):
            if isinstance(arg, ast.Variable) and arg.name in names[:1]:
                return attribute.type
    return None


def _nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for part in node:
            yield from _nodes(part)
    elif is_dataclass(node) and not isinstance(node, Span | type):
        yield node
        for one in fields(node):
            yield from _nodes(getattr(node, one.name))


def _leaves_whole_numbers(function: str) -> bool:
    """Whether the aggregate of whole numbers is none: it is a mean."""
    signature = aggregate_named(function).rule((BIGINT,))
    return signature is not None and signature.result == DOUBLE


def _combined(
    clause: ast.Clause, head: ast.Atom, rows: ast.Name, place: int, declaration: ast.Declaration
) -> ast.Clause:
    """The rule that aggregates the rows; a mean of a column of whole numbers is whole."""
    span = clause.span
    names = [ast.Variable(f"c{number}", span) for number in range(len(head.args))]
    function = _function(head.args[place])
    atom = ast.Atom(rows, tuple(names), span)
    value: ast.Expression = ast.Call(str(function), (names[place],), span)
    body: ast.Body = atom
    whole = WHOLE.fullmatch(declaration.attributes[place].type.name.text)
    if whole and _leaves_whole_numbers(str(function)):
        keys = tuple(ast.Underscore(span) if one is names[place] else one for one in names)
        total = ast.Aggregate("sum", names[place], atom, span)
        number = ast.Aggregate("count", None, ast.Atom(rows, keys, span), span)
        value, body = ast.Call("/", (total, number), span), ast.Atom(rows, keys, span)
    args = (*names[:place], value, *names[place + 1 :])
    return ast.Clause((replace(head, args=args),), body, None, span)


# Blocks


def _without_blocks(
    statements: Sequence[ast.Statement | Block], diagnostics: Diagnostics
) -> list[ast.Statement]:
    """The statements with blocks' rules in place of the blocks, if nothing later changes what they read."""
    flat: list[ast.Statement] = []
    for number, one in enumerate(statements):
        if not isinstance(one, Block):
            flat.append(one)
            continue
        if one.other is not None:
            hint = (
                "supported are fixpoint {...}, loop while { @it <= 10 } {...} and loop until { name } {...}"
            )
            diagnostics.error("unsupported", f"{one.other} is not supported", one.span, hint=hint)
            continue
        _check_later(one, flat, statements[number + 1 :], diagnostics)
        if one.until is not None:
            flat = _stopped(one, one.until, flat, diagnostics)
        else:
            flat = _rounds(one, flat, diagnostics) if one.most is not None else [*flat, *one.clauses]
    return flat


def _check_later(
    block: Block,
    before: Sequence[ast.Statement],
    after: Sequence[ast.Statement | Block],
    diagnostics: Diagnostics,
) -> None:
    """A block sees what was derived before it: rules after it may not add to that."""
    clauses = (*(one for one in before if isinstance(one, ast.Clause)), *block.clauses)
    read = {atom.name.text for one in clauses for atom in _nodes(one.body) if isinstance(atom, ast.Atom)}
    read |= {head.name.text for one in block.clauses for head in one.heads}
    for one in after:
        later = one.clauses if isinstance(one, Block) else (one,)
        for clause in later:
            if not isinstance(clause, ast.Clause) or clause.body is None:
                continue
            for head in clause.heads:
                if head.name.text in read:
                    message = f"a rule for {head.name} behind a block that reads it is not supported"
                    hint = "put it before the block"
                    diagnostics.error("unsupported", message, head.span, hint=hint)


def _rounds(block: Block, before: list[ast.Statement], diagnostics: Diagnostics) -> list[ast.Statement]:
    """A loop written out: each round derives from what there was of all its relations before it."""
    names = dict.fromkeys(head.name.text for clause in block.clauses for head in clause.heads)
    declared = {name.text: one for one in before if isinstance(one, ast.Declaration) for name in one.names}
    rounds = (block.most or 0) + 1
    missing = [name for name in names if name not in declared]
    if missing or rounds * len(names) > MOST_ROUNDS:
        message = f"a loop of relations that are not declared before it, or of more than {MOST_ROUNDS} rounds"
        diagnostics.error("unsupported", f"{message} for all of them is not supported", block.span)
        return before
    for name in names:
        if any(isinstance(one, ast.Directive) and _reads(one, name) for one in before):
            message = f"a loop of {name}, which is an input, is not supported"
            diagnostics.error("unsupported", message, block.span)
            return before
    terms = {name: _terms(declared[name], block.span) for name in names}
    made = [_renamed(one, names, 0) if isinstance(one, ast.Clause) else one for one in before]
    for number in range(rounds + 1):
        for name in names:
            label = ast.Name(f"{name}@{number}", block.span)
            made.append(replace(declared[name], names=(label,), qualifiers=()))
            if number:
                made.append(_copy(label.text, f"{name}@{number - 1}", terms[name], block.span))
        if number:
            made += [_with_heads(_renamed(one, names, number - 1), one, number) for one in block.clauses]
    return [*made, *(_copy(name, f"{name}@{rounds}", terms[name], block.span) for name in names)]


def _stopped(
    block: Block, stop: str, before: list[ast.Statement], diagnostics: Diagnostics
) -> list[ast.Statement]:
    """A loop that ends after the round in which a relation of it gets a row: that is its ``.limitsize``.

    Rules by which nothing follows make all relations of the loop depend on each other: so all of them end.
    """
    names = dict.fromkeys(head.name.text for clause in block.clauses for head in clause.heads)
    declared = {name.text: one for one in before if isinstance(one, ast.Declaration) for name in one.names}
    read = [name for name in names for one in before if isinstance(one, ast.Directive) and _reads(one, name)]
    if stop not in names or read or any(name not in declared for name in names):
        message = "a loop of relations that are not declared before it or are inputs, or until one of others"
        diagnostics.error("unsupported", f"{message}, is not supported", block.span)
        return before
    made = [_renamed(one, names, 0) if isinstance(one, ast.Clause) else one for one in before]
    terms = {name: _terms(declared[name], block.span) for name in names}
    for name in names:
        label = ast.Name(f"{name}@0", block.span)
        made.append(replace(declared[name], names=(label,), qualifiers=()))
        made.append(_copy(name, label.text, terms[name], block.span))
    for name in names:
        if name != stop:
            made += [_tied(name, stop, terms, block.span), _tied(stop, name, terms, block.span)]
    limit = ast.Directive("limitsize", (ast.Name(stop, block.span),), (("n", "1"),), block.span)
    return [*made, *block.clauses, limit]


def _tied(name: str, other: str, terms: Mapping[str, tuple[ast.Variable, ...]], span: Span) -> ast.Clause:
    """``name(x) :- name(x), other(_).``"""
    head = ast.Atom(ast.Name(name, span), terms[name], span)
    blanks = tuple(ast.Underscore(span) for _ in terms[other])
    body = ast.And((head, ast.Atom(ast.Name(other, span), blanks, span)), span)
    return ast.Clause((head,), body, None, span)


def _terms(declaration: ast.Declaration, span: Span) -> tuple[ast.Variable, ...]:
    return tuple(ast.Variable(f"c{place}", span) for place in range(len(declaration.attributes)))


def _reads(directive: ast.Directive, name: str) -> bool:
    return directive.kind == "input" and any(one.text == name for one in directive.names)


def _with_heads(clause: ast.Clause, old: ast.Clause, number: int) -> ast.Clause:
    """The clause with heads named for the round."""
    heads = tuple(
        replace(head, name=replace(head.name, text=f"{was.name.text}@{number}"))
        for head, was in zip(clause.heads, old.heads, strict=True)
    )
    return replace(clause, heads=heads)


def _renamed(clause: ast.Clause, names: Collection[str], number: int) -> ast.Clause:
    """The clause with atoms of the relations named for the round."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Atom) and node.name.text in names:
            return replace(node, name=replace(node.name, text=f"{node.name.text}@{number}"))
        return node

    return _rewritten(clause, change)


def _copy(target: str, source: str, terms: tuple[ast.Variable, ...], span: Span) -> ast.Clause:
    head = ast.Atom(ast.Name(target, span), terms, span)
    return ast.Clause((head,), ast.Atom(ast.Name(source, span), terms, span), None, span)
