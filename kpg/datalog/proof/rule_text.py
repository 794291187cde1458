"""Texts of proof nodes, in the notation of the program."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, assert_never

from kpg.api.display import cell
from kpg.compiler.datalog.preprocessor import blank_comments
from kpg.compiler.datalog.syntax.flatten import original_name
from kpg.compiler.datalog.types.functors import CONSTRAINTS
from kpg.compiler.rules import core
from kpg.compiler.rules.core import OPERATORS, expression_text, literal_text, rule_text, substitution
from kpg.provenance.proof_tree import RuleText
from kpg.runtime.convert.python_values import to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import Span
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.functions.datalog import quote

GENERATED_NAME: Final = re.compile(r"[$@]\w")
"""Generated functions and variables."""
DATALOG_NAMES: Final = {"concat": "cat", "length": "strlen", "least": "min", "greatest": "max"}
"""Datalog's names of runtime functions."""
GENERATED_PARTS: Final = re.compile(r"(?<=[\w?])@[\w.@]+(?=\()|, !?@round [^()]*\(_\)")
"""The parts of a rule's text that are generated."""
ROUND_PREFIXES: Final = ("@now", "@round")
"""Prefixes of the relations that count rounds."""
Values = Mapping[str, int]


def source_text(span: Span) -> str:
    """Return the program's text at a span, on one line and without comments."""
    plain = blank_comments(span.source[span.start : span.end])[0]
    return re.sub(r"\s*\n\s*", " ", plain).strip()


def rule_source(rule: core.Rule, relation: core.Relation) -> RuleText:
    """Return a rule as written in the program; a generated rule, as its core form."""
    source = source_text(rule.span)
    generated = GENERATED_PARTS.sub("", rule_text(rule, relation))
    return RuleText(source if source.endswith(".") else generated, rule.span)


def plain_name(relation: str) -> str:
    """Return the name of the user's relation that a generated relation belongs to: ``r`` for ``r@all``."""
    return relation.partition("@")[0] or relation


class ProofTexts:
    """Formats rows and literals of a program. Values are words."""

    def __init__(self, program: core.Program, dictionary: Dictionary) -> None:
        self._program = program
        self._dictionary = dictionary

    def row(self, name: str, words: tuple[int, ...]) -> tuple[Any, ...]:
        """Return a row of a relation as Python values."""
        types = self._program.relations[name].types
        return tuple(
            to_python(word, type_, self._dictionary) for word, type_ in zip(words, types, strict=False)
        )

    def atom(self, name: str, words: tuple[int, ...]) -> str:
        """Return a row as an atom, such as ``edge(1, "a")``."""
        relation = self._program.relations[name]
        parts = (
            value_text(value, column.type.domain)
            for value, column in zip(self.row(name, words), relation.columns, strict=True)
        )
        return f"{plain_name(name)}({', '.join(parts)})"

    def literal(self, literal: core.Literal, values: Values) -> str:
        """Return a literal with the values of its variables, or its source if that is clearer.

        Returns an empty string for a literal without information, such as ``4 = 4``.
        """
        match literal:
            case core.Assignment(variable=variable, expression=expression):
                left = expression_text(self._constant(variable, values))
                right = _expression_text(substitution(self._constants(expression, values))(expression))
                text = f"{left} = {_strip_parentheses(right)}"
                if not GENERATED_NAME.search(text):
                    return text
                return "" if variable.name.startswith("@") else f"{original_name(variable.name)} = {left}"
            case core.Comparison(left=left_, right=right_, span=span):
                constants = {**self._constants(left_, values), **self._constants(right_, values)}
                substitute = substitution(constants)
                test = replace(literal, left=substitute(left_), right=substitute(right_))
                return "" if test.left == test.right else _text_or_source(_comparison_text(test), span)
            case core.Negation(atom=atom):
                is_round_counter = atom.relation.startswith(ROUND_PREFIXES)
                return "" if is_round_counter else f"!{self._pattern(atom, values)}"
            case core.Atom(relation=relation) if relation.startswith("@"):
                return self._generated_atom(literal, values)
            case core.Atom():
                return self._pattern(literal, values)
            case core.BodyAggregate(result=result, span=span):
                return f"{expression_text(self._constant(result, values))} = {source_text(span)}"
            case _:
                assert_never(literal)

    def _generated_atom(self, atom: core.Atom, values: Values) -> str:
        """Return the text of an atom of a generated relation: its source, with the value of its result."""
        if atom.relation.startswith(ROUND_PREFIXES):
            return ""
        term = atom.terms[-1]
        source = source_text(atom.span)
        if not isinstance(term, core.Variable):
            return source
        return f"{expression_text(self._constant(term, values))} = {source}"

    def contribution(self, relation: core.Relation, words: tuple[int, ...]) -> str:
        """Return a head with the values to aggregate, such as ``stake("a", "b", sum(7.5))``."""
        parts = [
            _aggregate_text(function, value_text(value, column.type.domain))
            for value, column, function in zip(
                self.row(relation.name, words), relation.columns, relation.aggregates, strict=True
            )
        ]
        return f"{plain_name(relation.name)}({', '.join(parts)})"

    def _pattern(self, atom: core.Atom, values: Values) -> str:
        columns = self._program.relations[atom.relation].columns
        parts = []
        for term, column in zip(atom.terms, columns, strict=True):
            if isinstance(term, core.Variable) and term.name not in values:
                parts.append("_" if GENERATED_NAME.match(term.name) else term.name)
            elif isinstance(term, core.Variable):
                value = to_python(values[term.name], term.type, self._dictionary)
                parts.append(value_text(value, column.type.domain))
            elif isinstance(term, core.Constant) and isinstance(term.value, str):
                parts.append(value_text(term.value, column.type.domain))
            else:
                parts.append(expression_text(term))
        return f"{plain_name(atom.relation)}({', '.join(parts)})"

    def _constants(self, expression: core.Expression, values: Values) -> dict[str, core.Expression]:
        return {variable.name: self._constant(variable, values) for variable in core.variables(expression)}

    def _constant(self, variable: core.Variable, values: Values) -> core.Expression:
        """Return the variable's value, or the variable itself if it has none."""
        if variable.name not in values:
            return core.Variable(original_name(variable.name), variable.type)
        word = values[variable.name]
        value = self._dictionary.get(word) if variable.type.is_text else word
        return core.Constant(value, variable.type)


def value_text(value: Any, domain: core.Domain) -> str:
    """Return a value as the program would write it."""
    if isinstance(value, str) and domain is core.Domain.SYMBOL:
        return quote(value)
    return repr(value) if isinstance(value, float) else cell(value)


def _expression_text(expression: core.Expression) -> str:
    """Return an expression with Datalog's names of functions."""
    return expression_text(_use_datalog_names(expression))


def _use_datalog_names(expression: core.Expression) -> core.Expression:
    if not isinstance(expression, core.Call):
        return expression
    name = DATALOG_NAMES.get(expression.function, expression.function)
    if name == "cast":
        type_ = expression.type
        name = "to_string" if type_.is_text else "to_float" if type_.is_float else "to_number"
    return replace(expression, function=name, args=tuple(_use_datalog_names(arg) for arg in expression.args))


def _comparison_text(test: core.Comparison) -> str:
    """Return a comparison with Datalog's operators and functions."""
    if test.function in OPERATORS:
        return literal_text(
            replace(test, left=_use_datalog_names(test.left), right=_use_datalog_names(test.right))
        )
    sides = (test.right, test.left) if test.function == "contains" else (test.left, test.right)
    name = "match" if test.function == CONSTRAINTS["match"] else test.function
    return f"{'!' if test.negated else ''}{name}({', '.join(map(_expression_text, sides))})"


def _aggregate_text(function: str | None, value: str) -> str:
    """Return a head's term. An aggregate that counts rows has no argument."""
    if function is None:
        return value
    return function if lookup_aggregate(function).is_nullary else f"{function}({value})"


def _text_or_source(text: str, span: Span) -> str:
    """Return the text, or the source if the text has generated names."""
    if not GENERATED_NAME.search(text):
        return text
    source = source_text(span)
    if source.startswith(("[", "$")) and "=" not in source:
        return ""  # a pattern inside an atom, which shows its values
    return source


def _strip_parentheses(text: str) -> str:
    """Return the text without parentheses around all of it."""
    return (
        text[1:-1] if text.startswith("(") and text.endswith(")") and _has_outer_parentheses(text) else text
    )


def _has_outer_parentheses(text: str) -> bool:
    level = 0
    for position, char in enumerate(text):
        level += (char == "(") - (char == ")")
        if level == 0:
            return position == len(text) - 1
    return False
