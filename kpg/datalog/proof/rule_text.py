"""Texts of proof nodes, in the notation of the program."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, assert_never

from kpg.api.display import cell
from kpg.compiler.datalog.preprocessor import blank_comments
from kpg.compiler.datalog.syntax.flatten import written
from kpg.compiler.datalog.types.functors import CONSTRAINTS
from kpg.compiler.rules import core
from kpg.compiler.rules.core import OPERATORS, expression_text, literal_text, replacing, rule_text
from kpg.provenance.proof_tree import RuleText
from kpg.runtime.convert.python_values import to_python
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import Span
from kpg.runtime.functions import aggregate_named
from kpg.runtime.functions.datalog import quote

MADE_UP: Final = re.compile(r"[$@]\w")
"""Functions and variables that the user did not write."""
WRITTEN: Final = {"concat": "cat", "length": "strlen", "least": "min", "greatest": "max"}
"""What Datalog calls functions of the runtime."""
MARK: Final = re.compile(r"(?<=[\w?])@[\w.@]+(?=\()|, !?@round [^()]*\(_\)")
"""What tells relations that were made beside one of the user's from it."""
ROUNDS: Final = ("@now", "@round")
"""Begin the names of relations that count rounds."""
Values = Mapping[str, int]


def source_text(span: Span) -> str:
    """What the user wrote there, on one line and without comments."""
    plain = blank_comments(span.source[span.start : span.end])[0]
    return re.sub(r"\s*\n\s*", " ", plain).strip()


def rule_of(rule: core.Rule, relation: core.Relation) -> RuleText:
    """A rule as it was written; one that was made up, as the core has it."""
    source = source_text(rule.span)
    made = MARK.sub("", rule_text(rule, relation))
    return RuleText(source if source.endswith(".") else made, rule.span)


def plain_name(relation: str) -> str:
    """What the user calls a relation that was made beside one of the user's: ``r`` for ``r@all``."""
    return relation.partition("@")[0] or relation


class Texts:
    """Rows and literals as text; values are words."""

    def __init__(self, program: core.Program, dictionary: Dictionary) -> None:
        self._program = program
        self._dictionary = dictionary

    def row(self, name: str, words: tuple[int, ...]) -> tuple[Any, ...]:
        """A relation's row in Python's values."""
        types = self._program.relations[name].types
        return tuple(
            to_python(word, type_, self._dictionary) for word, type_ in zip(words, types, strict=False)
        )

    def atom(self, name: str, words: tuple[int, ...]) -> str:
        """``edge(1, "a")``."""
        relation = self._program.relations[name]
        parts = (
            shown(value, column.type.domain)
            for value, column in zip(self.row(name, words), relation.columns, strict=True)
        )
        return f"{plain_name(name)}({', '.join(parts)})"

    def literal(self, literal: core.Literal, values: Values) -> str:
        """A literal with the values of its variables; as it was written, where that says more.

        Empty for what says nothing: ``4 = 4``, and what only makes a term of the head.
        """
        match literal:
            case core.Assignment(variable=variable, expression=expression):
                left = expression_text(self._constant(variable, values))
                right = _expression(replacing(self._constants(expression, values))(expression))
                made = f"{left} = {_bare(right)}"
                if not MADE_UP.search(made):
                    return made
                return "" if variable.name.startswith("@") else f"{written(variable.name)} = {left}"
            case core.Comparison(left=left_, right=right_, span=span):
                known = {**self._constants(left_, values), **self._constants(right_, values)}
                change = replacing(known)
                test = replace(literal, left=change(left_), right=change(right_))
                return "" if test.left == test.right else _or_source(_test(test), span)
            case core.Negation(atom=atom):
                is_of_rounds = atom.relation.startswith(ROUNDS)
                return "" if is_of_rounds else f"!{self._pattern(atom, values)}"
            case core.Atom(relation=relation) if relation.startswith("@"):
                return self._made_up(literal, values)
            case core.Atom():
                return self._pattern(literal, values)
            case core.BodyAggregate(result=result, span=span):
                return f"{expression_text(self._constant(result, values))} = {source_text(span)}"
            case _:
                assert_never(literal)

    def _made_up(self, atom: core.Atom, values: Values) -> str:
        """An atom of a relation that stands for what the user wrote there: a range with its value."""
        if atom.relation.startswith(ROUNDS):
            return ""
        term = atom.terms[-1]
        written = source_text(atom.span)
        if not isinstance(term, core.Variable):
            return written
        return f"{expression_text(self._constant(term, values))} = {written}"

    def contribution(self, relation: core.Relation, words: tuple[int, ...]) -> str:
        """A head with the values that are to be aggregated: ``stake("a", "b", sum(7.5))``."""
        parts = [
            _aggregated(function, shown(value, column.type.domain))
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
                parts.append("_" if MADE_UP.match(term.name) else term.name)
            elif isinstance(term, core.Variable):
                value = to_python(values[term.name], term.type, self._dictionary)
                parts.append(shown(value, column.type.domain))
            elif isinstance(term, core.Constant) and isinstance(term.value, str):
                parts.append(shown(term.value, column.type.domain))
            else:
                parts.append(expression_text(term))
        return f"{plain_name(atom.relation)}({', '.join(parts)})"

    def _constants(self, expression: core.Expression, values: Values) -> dict[str, core.Expression]:
        return {one.name: self._constant(one, values) for one in core.variables(expression)}

    def _constant(self, variable: core.Variable, values: Values) -> core.Expression:
        """The variable's value; if it has none, the variable as it was written."""
        if variable.name not in values:
            return core.Variable(written(variable.name), variable.type)
        word = values[variable.name]
        value = self._dictionary.get(word) if variable.type.is_text else word
        return core.Constant(value, variable.type)


def shown(value: Any, domain: core.Domain) -> str:
    """A value as the program would write it."""
    if isinstance(value, str) and domain is core.Domain.SYMBOL:
        return quote(value)
    return repr(value) if isinstance(value, float) else cell(value)


def _expression(expression: core.Expression) -> str:
    """An expression by the names that Datalog has for functions."""
    return expression_text(_renamed(expression))


def _renamed(expression: core.Expression) -> core.Expression:
    if not isinstance(expression, core.Call):
        return expression
    name = WRITTEN.get(expression.function, expression.function)
    if name == "cast":
        type_ = expression.type
        name = "to_string" if type_.is_text else "to_float" if type_.is_float else "to_number"
    return replace(expression, function=name, args=tuple(_renamed(arg) for arg in expression.args))


def _test(test: core.Comparison) -> str:
    """A comparison as Datalog has it."""
    if test.function in OPERATORS:
        return literal_text(replace(test, left=_renamed(test.left), right=_renamed(test.right)))
    sides = (test.right, test.left) if test.function == "contains" else (test.left, test.right)
    name = "match" if test.function == CONSTRAINTS["match"] else test.function
    return f"{'!' if test.negated else ''}{name}({', '.join(map(_expression, sides))})"


def _aggregated(function: str | None, value: str) -> str:
    """A head's term; what is counted has no value of its own."""
    if function is None:
        return value
    return function if aggregate_named(function).takes_rows else f"{function}({value})"


def _or_source(made: str, span: Span) -> str:
    """The literal with values, unless it is made of what the user did not write."""
    if not MADE_UP.search(made):
        return made
    source = source_text(span)
    if source.startswith(("[", "$")) and "=" not in source:
        return ""  # a pattern inside of an atom, which shows its values
    return source


def _bare(text: str) -> str:
    """Without the parentheses around all of it."""
    return text[1:-1] if text.startswith("(") and text.endswith(")") and _encloses(text) else text


def _encloses(text: str) -> bool:
    level = 0
    for place, char in enumerate(text):
        level += (char == "(") - (char == ")")
        if level == 0:
            return place == len(text) - 1
    return False
