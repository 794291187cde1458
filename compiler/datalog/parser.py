"""Parser: Datalog text to the tree of ``syntax.ast``, by lark's LALR parser.

:class:`Builder` has one method per rule of the grammar. After a syntax error the parser blanks the statement
and parses again, so all syntax errors are reported. ``.decl D = debug_delta(R)`` becomes a declaration with
R's columns and the round, and a rule.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.flowlog.loops import Block, evaluate_last_round, until_alternatives
from kpg.compiler.datalog.flowlog.translation import (
    EXTREMES,
    has_equal_precedence,
    is_flowlog,
    translate,
    tuple_type,
)
from kpg.compiler.datalog.preprocessor import Source
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.ast import parse_address, parse_integer, unescape
from kpg.compiler.datalog.syntax.flatten import name_shared_underscores
from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass

LEFT_TO_RIGHT = ("+", "-", "*", "/", "%", "cat")


def precedence(operator: str) -> int:
    return 2 if operator in "*/%" else 1


def is_rule(node: Any, rule: str) -> bool:
    return isinstance(node, Tree) and node.data == rule


def condition_words(node: Any) -> list[str]:
    """Return a word, or the words of a test."""
    return [str(node)] if isinstance(node, Token) else list(map(str, node.children))


def operator_chain(node: Any) -> Iterator[Any]:
    """Yield operands and operators in text order."""
    if not (is_rule(node, "binary") and str(node.children[1]) in LEFT_TO_RIGHT):
        yield node
        return
    left, operator, right = node.children
    yield from operator_chain(left)
    yield operator
    yield from operator_chain(right)


def plan_orders(node: Any) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the orders of a plan with their versions."""
    found = []
    for part in node.children[1:]:
        numbers = [parse_integer(str(token))[0] for token in part.children]
        version = numbers.pop(0) if part.data == "versioned_order" else 0
        found.append((version, tuple(numbers)))
    return tuple(found)


Node = Tree[Token]
FUNCTOR_ALIASES = {"recursive_iteration_cnt": "__ITERATION__"}
"""Functors by their alternative names."""
FLOWLOG_OPTIONS = {"header": "headers"}
KNOWN_ESCAPES = "known: \\\\ \\\" \\' \\? \\n \\t \\r \\a \\b \\f \\v \\0"
MUTABILITIES = ("static", "append", "mutable")
"""FlowLog's qualifiers of how a relation may change.

They have no effect, because all relations may.
"""


class Builder:
    """Builds ``ast`` nodes.

    Syntax that the grammar accepts but the dialect lacks is reported.
    """

    def __init__(self, source: Source, diagnostics: Diagnostics, *, takes_tuples: bool = False) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.is_flowlog = is_flowlog(source.text)
        self.has_equal_precedence = has_equal_precedence(source.text)
        self.takes_tuples = takes_tuples
        self.tuples: dict[str, ast.RecordType] = {}

    def program(self, tree: Node) -> ast.Module:
        """Return the module of a parse tree."""
        found = (*self._statements(tree.children), *self.tuples.values())
        return ast.Module(translate(found, self.diagnostics) if self.is_flowlog else found)

    def _statements(self, nodes: Any) -> tuple[ast.Statement, ...]:
        statements = [getattr(self, node.data)(node) for node in nodes]
        if any(node.data == "debug_delta" for node in nodes):
            statements = expand_deltas(statements, self.diagnostics)
        return tuple(statement for statement in statements if statement is not None)

    def _span(self, node: Any) -> Span:
        if isinstance(node, Token):
            return self.source.span(node.start_pos or 0, node.end_pos or 0)
        return self.source.span(node.meta.start_pos, node.meta.end_pos)

    def _name(self, token: Any) -> ast.Name:
        return ast.Name(str(token), self._span(token))

    def _names(self, node: Any) -> tuple[ast.Name, ...]:
        return tuple(self._name(token) for token in node.children)

    def _report_unsupported(self, feature: str, node: Any, hint: str | None = None) -> None:
        self.diagnostics.error("unsupported", f"{feature} is not supported", self._span(node), hint=hint)

    # One method per statement

    def declaration(self, node: Any) -> ast.Declaration:
        _, names, attributes, *rest = node.children
        keys = tuple(
            tuple(self._name(token) for token in key.children)
            for choice in rest
            if choice.data == "choice"
            for key in choice.children[1:]
        )
        attribute_list = self._attributes(attributes)
        return ast.Declaration(
            self._names(names), attribute_list, self._qualifiers(rest), self._span(node), keys
        )

    def _qualifiers(self, parts: Any) -> tuple[ast.Name, ...]:
        found = [self._name(part.children[0]) for part in parts if part.data == "qualifier"]
        kept = tuple(one for one in found if one.text not in MUTABILITIES)
        for part in parts:
            if part.data == "qualifier" and part.children[0] in MUTABILITIES and not self.is_flowlog:
                self._report_token(part.children[0])
        return kept

    def _report_token(self, token: Any) -> None:
        self.diagnostics.error("syntax", f'syntax error at "{token}"', self._span(token))

    def _attributes(self, node: Any) -> tuple[ast.Attribute, ...]:
        return tuple(
            ast.Attribute(self._name(part.children[0]), self._type_ref(part.children[1]))
            for part in node.children
        )

    def _type_ref(self, node: Any) -> ast.TypeRef:
        if node.data == "tuple_type":
            return tuple_type(self._attributes(node), self._span(node), self.tuples)
        if node.data == "merged_type":
            function, name = node.children
            if not self.is_flowlog or function not in EXTREMES:
                self._report_token(function)
            return ast.TypeRef(self._name(name), merge=str(function))
        name, *arguments = node.children
        is_lattice = bool(arguments) and is_rule(arguments[-1], "lattice_mark")
        numbers = tuple(parse_integer(str(part))[0] for part in arguments[: len(arguments) - is_lattice])
        return ast.TypeRef(self._name(name), numbers, is_lattice)

    def subtype(self, node: Any) -> ast.Subtype:
        _, name, base = node.children
        return ast.Subtype(self._name(name), self._type_ref(base), self._span(node))

    def bare_type(self, node: Any) -> ast.Subtype:
        keyword, name = node.children[0], self._name(node.children[1])
        base = "number" if keyword == ".number_type" else "symbol"
        self.diagnostics.warning(
            "deprecated",
            f"deprecated type declaration {keyword}",
            self._span(node),
            hint=f".type {name} <: {base}",
        )
        return ast.Subtype(name, ast.TypeRef(ast.Name(base, name.span)), self._span(node))

    def union_type(self, node: Any) -> ast.UnionType:
        _, name, _, *members = node.children
        return ast.UnionType(
            self._name(name), tuple(self._type_ref(part) for part in members), self._span(node)
        )

    def record_type(self, node: Any) -> ast.RecordType:
        _, name, _, fields = node.children
        return ast.RecordType(self._name(name), self._attributes(fields), self._span(node))

    def adt_type(self, node: Any) -> ast.AdtType:
        _, name, _, *branches = node.children
        parts = tuple(
            ast.Branch(self._name(part.children[0]), self._attributes(part.children[1])) for part in branches
        )
        return ast.AdtType(self._name(name), parts, self._span(node))

    def directive(self, node: Any) -> ast.Directive:
        kind, names, *options = node.children
        named = ((str(part.children[0]), part.children[2]) for part in options)
        found = tuple((FLOWLOG_OPTIONS.get(key, key), self._option(value)) for key, value in named)
        return ast.Directive(str(kind)[1:], self._names(names), found, self._span(node))

    def _option(self, node: Any) -> str:
        (token,) = node.children
        return self._text(token) if token.type == "STRING" else str(token)

    def clause(self, node: Any) -> ast.Clause:
        heads, *rest = node.children
        plan = self._plan(rest.pop()) if rest and rest[-1].data == "plan" else None
        body = self._disjunction(rest[0]) if rest else None
        parts = [part for part in heads.children if not isinstance(part, Token)]
        if len(parts) < len(heads.children) and not self.is_flowlog:
            mark = next(part for part in heads.children if isinstance(part, Token))
            self.diagnostics.error("syntax", 'heads are separated by ","', self._span(mark))
        return ast.Clause(tuple(self._atom(head) for head in parts), body, plan, self._span(node))

    def _plan(self, node: Any) -> ast.Plan:
        is_strict = node.children[0].type == "STRICT"
        return ast.Plan(((0, ()),) if is_strict else plan_orders(node), self._span(node), is_strict)

    def component(self, node: Any) -> ast.Component:
        _, reference, *rest = node.children
        bases: tuple[ast.ComponentRef, ...] = ()
        if rest and rest[0].data == "bases":
            bases = tuple(self._component_ref(part) for part in rest.pop(0).children)
        head = self._component_ref(reference)
        statements = self._statements(rest)
        return ast.Component(head.name, head.arguments, bases, statements, self._span(node))

    def _component_ref(self, node: Any) -> ast.ComponentRef:
        name, *arguments = (part for part in node.children if part.type in ("IDENT", "QUALIFIED"))
        return ast.ComponentRef(self._name(name), tuple(self._name(part) for part in arguments))

    def init(self, node: Any) -> ast.Init:
        _, name, _, reference = node.children
        return ast.Init(self._name(name), self._component_ref(reference), self._span(node))

    def override(self, node: Any) -> ast.Override:
        return ast.Override(self._name(node.children[1]), self._span(node))

    def pragma(self, node: Any) -> ast.Pragma:
        key, *value = (self._text(token) for token in node.children[1:])
        return ast.Pragma(key, value[0] if value else "", self._span(node))

    def goal(self, node: Any) -> ast.Goal:
        return ast.Goal(self._disjunction(node.children[0]), self._span(node))

    def query(self, node: Any) -> ast.Query:
        _, name, *marks = node.children
        return ast.Query(self._name(name), tuple(self._name(mark) for mark in marks), self._span(node))

    def update(self, node: Any) -> ast.Update:
        sign, atom = node.children
        return ast.Update(1 if sign == "+" else -1, self._atom(atom), self._span(node))

    def functor(self, node: Any) -> ast.Functor:
        """Return a user-defined functor.

        FlowLog's are called without ``@``.
        """
        keyword, name, types, result, *_ = node.children
        mark = "@" if str(keyword) == ".functor" else ""
        *args, value = (ast.TypeRef(self._name(part.children[-1])) for part in (*types.children, result))
        marked_name = ast.Name(f"{mark}{name}", self._span(name))
        return ast.Functor(marked_name, tuple(args), value, self._span(node))

    def debug_delta(self, node: Any) -> Any:

        _, name, _, _, relation, *rest = node.children
        return DeltaDeclaration(
            self._name(name), self._name(relation), self._qualifiers(rest), self._span(node)
        )

    def lattice(self, node: Any) -> ast.Lattice:
        _, name, *parts = node.children
        pairs = (part.children for part in parts)
        operators = tuple((self._name(key), self._expression(value)) for key, value in pairs)
        return ast.Lattice(self._name(name), operators, self._span(node))

    def subsumption(self, node: Any) -> ast.Subsumption:
        less, _, greater, body, *_ = node.children
        found = self._disjunction(body)
        return ast.Subsumption(self._atom(less), self._atom(greater), found, self._span(node))

    def block(self, node: Any) -> Block:
        """Return FlowLog's block of rules, which ``translate`` replaces by statements."""
        clauses = tuple(self.clause(part) for part in node.children if is_rule(part, "clause"))
        parts = list(node.children)
        iterative = [
            self._name(name)
            for mark, name in pairwise(parts)
            if isinstance(mark, Token) and mark.type == "ITERATIVE"
        ]
        max_round, needs_both = None, False
        until: tuple[tuple[str, ...], ...] = ()
        for condition in node.find_data("loop_condition"):
            tests = [part for part in condition.children if not isinstance(part, Token)]
            needs_both = len(tests) < len(condition.children)
            if len({part.data for part in tests}) < len(tests):
                self._report_unsupported("a loop with two conditions of a kind", condition)
            for part in tests:
                if part.data == "loop_until":
                    until = until_alternatives(list(map(str, part.children[1:])))
                    continue
                for test in part.find_data("loop_test"):
                    if test.children[0] != "@it":
                        self._report_unsupported(f"{test.children[0]}, other than @it,", test)
                max_round = evaluate_last_round([condition_words(child) for child in part.children[1:]])
        return Block(clauses, tuple(iterative), max_round, until, needs_both, self._span(node.children[0]))

    # Bodies

    def _disjunction(self, node: Any) -> ast.Body:
        parts = tuple(self._conjunction(part) for part in node.children)
        return parts[0] if len(parts) == 1 else ast.Or(parts, self._span(node))

    def _conjunction(self, node: Any) -> ast.Body:
        parts = tuple(self._literal(part) for part in node.children)
        return parts[0] if len(parts) == 1 else ast.And(parts, self._span(node))

    def _aggregate_body(self, node: Any) -> ast.Body:
        return name_shared_underscores(self._literal(node))

    def _literal(self, node: Any) -> ast.Body:
        match node.data:
            case "atom" | "aggregate_atom":
                return self._atom(node)
            case "comparison":
                left, operator, right = node.children
                return ast.Comparison(
                    str(operator.children[0]),
                    self._expression(left),
                    self._expression(right),
                    self._span(node),
                )
            case "truth":
                return ast.Truth(str(node.children[0]) == "true", self._span(node))
            case "negation":
                return ast.Not(self._literal(node.children[0]), self._span(node))
            case "group":
                return self._disjunction(node.children[0])
            case _:
                return self._disjunction(node)

    def _atom(self, node: Any) -> ast.Atom:
        name, arguments = node.children
        return ast.Atom(self._name(name), self._tuple(arguments), self._span(node))

    # Expressions

    def _tuple(self, node: Any) -> tuple[ast.Expression, ...]:
        return tuple(self._expression(part) for part in node.children)

    def _expression(self, node: Any) -> ast.Expression:
        span = self._span(node)
        match node.data, node.children:
            case "variable", (name,):
                return ast.Variable(str(name), span)
            case "underscore", _:
                return ast.Underscore(span)
            case "integer", (token,):
                value, unsigned = parse_integer(str(token))
                return ast.Integer(value, unsigned, span)
            case "address", (token,):
                return ast.Integer(self._address(token), False, span)
            case "boolean", (token,):
                return ast.Boolean(str(token) == "true", span)
            case "float", (token,):
                return ast.Float(float(token), span)
            case "raw_string", (token,):
                return ast.String(str(token).strip("r").strip("#")[1:-1], span)
            case "string", (token,):
                return ast.String(self._text(token), span)
            case "nil", _:
                return ast.Nil(span)
            case "record", parts:
                return ast.Record(tuple(self._expression(part) for part in parts), span)
            case "dollar", (name, *arguments):
                return ast.Dollar(str(name)[1:], self._tuple(arguments[0]) if arguments else None, span)
            case "binary", (left, operator, right):
                if self.has_equal_precedence and str(operator) in LEFT_TO_RIGHT:
                    return self._left_to_right(node)
                return ast.Call(str(operator), (self._expression(left), self._expression(right)), span)
            case "prefix", (operator, operand):
                return self._prefix(operator, self._expression(operand), span)
            case "short_tuple", parts:
                return self._build_tuple(tuple(self._expression(part) for part in parts), span)
            case "call" | "extremum", (name, arguments):
                return ast.Call(FUNCTOR_ALIASES.get(str(name), str(name)), self._tuple(arguments), span)
            case "cast", (_, value, name) | (value, name):
                return ast.Cast(self._expression(value), self._name(name), span)
            case "parentheses", (arguments,):
                return self._parentheses(arguments)
            case _:
                return self._rare_expression(node, span)

    def _prefix(self, sign: Any, operand: ast.Expression, span: Span) -> ast.Expression:
        """Return a sign or complement.

        The ``+`` sign exists only in FlowLog.
        """
        if sign != "+":
            return ast.Call("neg" if sign == "-" else str(sign), (operand,), span)
        if not self.is_flowlog:
            self._report_token(sign)
        return operand

    def _left_to_right(self, node: Any) -> ast.Expression:
        """Return a chain of operations as FlowLog reads it, with equal precedence of operators."""
        parts = list(operator_chain(node))
        found = self._expression(parts[0])
        for operator, operand in zip(parts[1::2], parts[2::2], strict=True):
            right = self._expression(operand)
            span = self.source.span(node.meta.start_pos, operand.meta.end_pos)
            found = ast.Call(str(operator), (found, right), span)
        levels = [precedence(str(part)) for part in parts[1::2]]
        if levels != sorted(levels, reverse=True):
            hint = "write parentheses"
            message = "operators are read from left to right, as FlowLog did while it had loops"
            self.diagnostics.warning("precedence", message, self._span(node), hint=hint)
        return found

    def _rare_expression(self, node: Any, span: Span) -> ast.Expression:
        match node.data, node.children:
            case "bare_aggregate", (function, body):
                return ast.Aggregate(str(function), None, self._aggregate_body(body), span)
            case "aggregate_of_tuple", (function, value, body):
                return ast.Aggregate(
                    str(function), self._parentheses(value), self._aggregate_body(body), span
                )
            case "aggregate_of_expression", (function, value, body):
                return ast.Aggregate(str(function), self._expression(value), self._aggregate_body(body), span)
            case "user_functor", (name, arguments):
                return ast.Call(str(name), self._tuple(arguments), span)
            case "user_aggregate", (function, value, initial, body):
                found, first = self._expression(value), self._expression(initial)
                return ast.Aggregate(str(function), found, self._aggregate_body(body), span, first)
            case _:
                return ast.Call("autoinc", (), span)

    def _parentheses(self, node: Any) -> ast.Expression:
        """Return the expression in parentheses, or report ``()`` and, outside of FlowLog, ``(a, b)``."""
        parts = self._tuple(node)
        if len(parts) == 1:
            return parts[0]
        return self._build_tuple(parts, self._span(node))

    def _build_tuple(self, parts: tuple[ast.Expression, ...], span: Span) -> ast.Expression:
        if parts and (self.is_flowlog or self.takes_tuples):
            return ast.Record(parts, span)
        hint = "a record is written [a, b]" if parts else None
        self.diagnostics.error("syntax", "expected one expression in the parentheses", span, hint=hint)
        return parts[0] if parts else ast.Underscore(span)

    def _address(self, token: Token) -> int:
        value = parse_address(str(token))
        if value is None:
            self.diagnostics.error("syntax", f"{token} is no IPv4 address", self._span(token))
        return value or 0

    def _text(self, token: Token) -> str:
        text, wrong = unescape(str(token)[1:-1])
        if wrong is not None:
            start = (token.start_pos or 0) + 1 + wrong
            message = f"unknown escape {str(token)[1 + wrong : 3 + wrong]}"
            self.diagnostics.error("syntax", message, self.source.span(start, start + 2), hint=KNOWN_ESCAPES)
        return text


MAX_ERRORS = 20
"""Maximum number of statements with syntax errors that are skipped.

Each costs another parse of the text.
"""
BOUNDARY = re.compile(
    r'"(?:[^"\\]|\\(?:.|\n))*"|(?P<end>\.(?=\s|$|[^\w."]))|(?P<directive>\.(?:decl|type|number_type|symbol_type|input|output|printsize|'
    r"limitsize|comp|init|override|pragma|query|functor|lattice|extern|iterative)\b)|(?P<open>\{)|(?P<close>\})"
)
STRING = r'"(?:[^"\\]|\\.)*"'
BRACKET = re.compile(rf"{STRING}|[(\[{{}}\])]", re.DOTALL)
LINES = re.compile(STRING, re.DOTALL)
SQL = re.compile(r"\s*(?:select|insert\s+into|create|with|update|delete\s+from|drop)\s+[\w*]", re.IGNORECASE)
CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
SPELLING = {
    "IDENT": "a name",
    "QUALIFIED": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "$END": "the end of the text",
}


@lru_cache(maxsize=1)
def _grammar() -> str:
    return (files("kpg.grammars") / "datalog.lark").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_grammar(), parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse(source: Source, diagnostics: Diagnostics, *, takes_tuples: bool = False) -> ast.Module:
    """Parse the text and return the statements without syntax errors.

    With ``takes_tuples``, ``(1, 2)`` is a value.
    """
    text = source.text
    for _ in range(MAX_ERRORS):
        try:
            tree = _parser().parse(text)
        except UnexpectedInput as error:
            if _is_at_end(error) and (place := _find_unclosed_bracket(text)) is not None:
                message = f'"{text[place]}" is not closed'
                diagnostics.error("syntax", message, source.span(place, place + 1))
                return ast.Module(())
            start, end = _report_error(error, text, source, diagnostics)
            begin, finish = _statement_bounds(text, start, end)
            text = text[:begin] + re.sub(r"[^\n]", " ", text[begin:finish]) + text[finish:]
        else:
            return Builder(source, diagnostics, takes_tuples=takes_tuples).program(tree)
    return ast.Module(())


def _is_at_end(error: UnexpectedInput) -> bool:
    match error:
        case UnexpectedToken(token=Token(type="$END")) | UnexpectedEOF():
            return True
        case _:
            return False


def _find_unclosed_bracket(text: str) -> int | None:
    """Return the position of the first bracket that is open at the end of the text."""
    places: list[int] = []
    for found in BRACKET.finditer(text):
        if found[0] in CLOSED_BY:
            places.append(found.start())
        elif places and found[0] == CLOSED_BY[text[places[-1]]]:
            places.pop()
    return places[0] if places else None


def _report_error(
    error: UnexpectedInput, text: str, source: Source, diagnostics: Diagnostics
) -> tuple[int, int]:
    """Report the error, and return its bounds in the parser's text."""
    match error:
        case UnexpectedToken(token=Token(type="$END")) | UnexpectedEOF():
            start = max(0, len(text.rstrip()) - 1)
            end = start + 1
            message = "syntax error at the end of the text"
        case UnexpectedToken(token=token) if token.startswith(".") and "_DOT" in (error.accepts or ()):
            start, end = int(token.start_pos or 0), int(token.end_pos or 0)
            message = f'a "." is missing before "{token}"'
            diagnostics.error("syntax", message, source.span(start, end))
            return start - 1, start
        case UnexpectedToken(token=token):
            start, end = int(token.start_pos or 0), int(token.end_pos or 0)
            message = f'syntax error at "{token}"'
        case UnexpectedCharacters():
            start = int(error.pos_in_stream or 0)
            end = start + 1
            message = f'syntax error at "{text[start]}"'
            if text[start] == '"':
                message = "a string does not end"
        case _:
            raise error
    string_start = _find_unended_string(text, start)
    if string_start is not None:
        diagnostics.error(
            "syntax", "a string does not end in its line", source.span(string_start, string_start + 1)
        )
        return string_start, string_start + 1
    hint = "this is SQL: db.query and db.sql take it" if SQL.match(text) else _expectation(error)
    if hint is None and start == len(text.rstrip()) - 1 and "_DOT" in (getattr(error, "accepts", None) or ()):
        hint = 'perhaps a "." is missing'
    diagnostics.error("syntax", message, source.span(start, end), hint=hint)
    return start, end


def _find_unended_string(text: str, place: int) -> int | None:
    """Return the start of an earlier string that ends in the line of an error, which it may have caused."""
    line = text.rfind("\n", 0, place) + 1
    for found in LINES.finditer(text):
        if found.start() > place:
            return None
        if found.end() > line and "\n" in found[0]:
            return found.start()
    return None


def _expectation(error: UnexpectedInput) -> str | None:
    """Return a hint that lists the possible tokens, if they are few."""
    names: Any = getattr(error, "accepts", None) or getattr(error, "expected", None)
    names = names or getattr(error, "allowed", None) or ()
    found = {_spelling(name) for name in names}
    alternatives = sorted(found - {'";"'} if '":-"' in found else found)  # only FlowLog separates heads by it
    if not alternatives or len(alternatives) > 8:
        return None
    return f"expected {' or '.join(alternatives)}"


def _spelling(name: str) -> str:
    if name in SPELLING:
        return SPELLING[name]
    pattern = next((terminal.pattern for terminal in _parser().terminals if terminal.name == name), None)
    if pattern is None:
        return name.lower()
    words: dict[str, str] = {
        "LOGICAL_OR": "an operator",
        "LOGICAL_XOR": "an operator",
        "LOGICAL_AND": "an operator",
        "OR": "an operator",
        "XOR": "an operator",
        "AND": "an operator",
        "SHIFT": "an operator",
        "TIMES": "an operator",
        "CAT": "an operator",
        "_DOT": '"."',
    }
    if name in words or pattern.type == "re":
        return words.get(name, name.lower().replace("_", " "))
    return f'"{pattern.value}"'


def _statement_bounds(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of the text to blank: the statement of an error, within its component."""
    begin, depth = 0, 0
    for found in BOUNDARY.finditer(text):
        if found.lastgroup is None:
            continue
        opens_component = found.lastgroup == "open" and _opens_component(text, found.start())
        if found.start() >= max(start, begin) and found.start() >= end - 1:
            if found.lastgroup == "end" and depth == 0:
                return begin, found.end()
            if found.lastgroup == "directive" and found.start() > start:
                return begin, found.start()
        if found.lastgroup == "open":
            depth += 0 if opens_component else 1
        elif found.lastgroup == "close" and depth:
            depth -= 1
            continue
        if found.start() < start and (found.lastgroup in ("end", "close") or opens_component):
            begin, depth = found.end(), 0
        elif found.start() <= start and found.lastgroup == "directive":
            begin, depth = found.start(), 0
    return begin, len(text)


def _opens_component(text: str, brace: int) -> bool:
    header = text.rfind(".comp", 0, brace)
    return header >= 0 and not re.search(r"[{}]", text[header:brace])


@dataclass(frozen=True, slots=True)
class DeltaDeclaration:
    """A ``debug_delta`` declaration.

    It exists only during parsing.
    """

    name: ast.Name
    relation: ast.Name
    qualifiers: tuple[ast.Name, ...]
    span: Span = field(compare=False, repr=False)


def expand_deltas(statements: Sequence[Any], diagnostics: Diagnostics) -> list[Any]:
    """Replace ``debug_delta`` declarations by declarations and rules."""
    declared = {
        name.text: one for one in statements if isinstance(one, ast.Declaration) for name in one.names
    }
    result: list[Any] = []
    for statement in statements:
        if not isinstance(statement, DeltaDeclaration):
            result.append(statement)
        elif statement.relation.text in declared:
            result += _expand_delta(statement, declared[statement.relation.text])
        else:
            hint = "declare it beside its debug_delta"
            message = f"relation {statement.relation} is not defined"
            diagnostics.error("undefined", message, statement.relation.span, hint=hint)
    return result


def _expand_delta(delta: DeltaDeclaration, declaration: ast.Declaration) -> Iterator[ast.Statement]:
    span = delta.span
    round_ = ast.Attribute(ast.Name("iteration", span), ast.TypeRef(ast.Name("unsigned", span)))
    yield ast.Declaration((delta.name,), (*declaration.attributes, round_), delta.qualifiers, span)
    names = tuple(ast.Variable(f"c{place}", span) for place in range(len(declaration.attributes)))
    head = ast.Atom(delta.name, (*names, ast.Call("$delta", (), span)), span)
    yield ast.Clause((head,), ast.Atom(delta.relation, names, span), None, span)
