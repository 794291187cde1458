"""The core as text, in the dialect's own syntax as far as it goes: for EXPLAIN and tests."""

from collections.abc import Iterator
from typing import assert_never

from kpg.compiler.rules.core import (
    Assignment,
    Atom,
    BodyAggregate,
    Call,
    Comparison,
    Constant,
    Expression,
    HeadTerm,
    Literal,
    Negation,
    Parameter,
    Program,
    Relation,
    Rule,
    Variable,
    Wildcard,
)
from kpg.runtime.functions.datalog import quote
from kpg.runtime.scalar import shown
from kpg.runtime.types import word_to_float

OPERATORS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}


def program_text(program: Program) -> str:
    """Declarations, facts and rules, one a line."""
    return "\n".join(_lines(program))


def _lines(program: Program) -> Iterator[str]:
    for relation in program.relations.values():
        yield relation_text(relation)
        for row in program.facts.get(relation.name, ()):
            terms = (Constant(value, type_) for value, type_ in zip(row, relation.types, strict=True))
            yield f"{relation.name}({', '.join(map(expression_text, terms))})."
    for rule in program.rules:
        yield rule_text(rule, program.relations[rule.head.relation])


def relation_text(relation: Relation) -> str:
    """The declaration, with the kind of relation it is."""
    columns = ", ".join(f"{column.name}: {column.type.name}" for column in relation.columns)
    return f".decl {relation.name}({columns}) {relation.kind.value}"


def rule_text(rule: Rule, relation: Relation | None = None) -> str:
    """The rule; the head's aggregates are shown if its relation is given."""
    aggregates = relation.aggregates if relation is not None else ()
    functions = aggregates or (None,) * len(rule.head.terms)
    terms = ", ".join(map(_head_term, rule.head.terms, functions))
    head = f"{rule.head.relation}({terms})"
    body = ", ".join(literal_text(one) for one in rule.body)
    return f"{head} :- {body}." if body else f"{head}."


def _head_term(term: HeadTerm, function: str | None) -> str:
    text = expression_text(term)
    return text if function is None else f"{function}({text})"


def literal_text(literal: Literal) -> str:
    """A literal of a body."""
    match literal:
        case Atom(relation=relation, terms=terms):
            return f"{relation}({', '.join(expression_text(term) for term in terms)})"
        case Negation(atom=atom):
            return f"!{literal_text(atom)}"
        case Comparison(function=function, left=left, right=right, negated=negated):
            sides = expression_text(left), expression_text(right)
            if function in OPERATORS:
                return f"{sides[0]} {OPERATORS[function]} {sides[1]}"
            return f"{'!' if negated else ''}{function}({sides[0]}, {sides[1]})"
        case Assignment(variable=variable, expression=expression):
            return f"{variable.name} := {expression_text(expression)}"
        case BodyAggregate(result=result, function=function, value=value, body=body, groups=groups):
            operand = "" if value is None else f" {expression_text(value)}"
            by = f" by {', '.join(group.name for group in groups)}" if groups else ""
            inner = ", ".join(literal_text(one) for one in body)
            return f"{result.name} := {function}{operand} : {{ {inner} }}{by}"
        case _:
            assert_never(literal)


def expression_text(expression: Expression | Wildcard) -> str:
    """An expression or term."""
    match expression:
        case Variable(name=name):
            return name
        case Wildcard():
            return "_"
        case Parameter(name=name):
            return f"${name}"
        case Constant(value=value, type=type_):
            if isinstance(value, str):
                return quote(value)
            return repr(word_to_float(value)) if type_.is_float else str(value)
        case Call(function=function, args=args):
            if function in INFIX and len(args) == 2:
                return f"({expression_text(args[0])} {INFIX[function]} {expression_text(args[1])})"
            return f"{shown(function)}({', '.join(map(expression_text, args))})"
        case _:
            assert_never(expression)
