"""Translation of FlowLog's dialect where its meaning differs from Soufflé's.

A program is FlowLog if it declares columns of tuples or of FlowLog's type names, or has its blocks, functions
or commands. The differences:

* Operators bind as in Soufflé, except in programs with blocks. Older FlowLog read those from left to right.
* A lattice column ``dist: min<int32>`` is an aggregate in the heads.
* Names of relations, columns, components and instances ignore case. Each use gets the declared spelling.
* An aggregate ranges over the bindings of named variables. Atoms with underscores become atoms of relations
  without these columns.
* Numbers narrower than 64 bits wrap or round. The first typed operand gives the type of an operation, and the
  operation's name carries it: ``+@int8``. A constant beside a 32-bit float is such a float.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, TypeVar

import numpy as np

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.flowlog.loops import Block, declarations, expand_blocks, expand_negative_cycles
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.traverse import head_aggregate, nodes, transform_tree
from kpg.runtime.errors import Span
from kpg.runtime.functions import lookup_aggregate
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, DOUBLE

T = TypeVar("T")


MergeColumns = Mapping[str, Mapping[int, str]]
"""Merge functions of columns, by relation and position."""


def expand_merge_columns(statements: Sequence[ast.Statement]) -> list[ast.Statement]:
    """Return the statements with merge columns as aggregates in heads."""
    merges: dict[str, dict[int, str]] = {}
    result: list[ast.Statement] = []
    for statement in statements:
        if isinstance(statement, ast.Declaration) and any(part.type.merge for part in statement.attributes):
            places = {at: part.type.merge for at, part in enumerate(statement.attributes) if part.type.merge}
            merges |= {name.text: places for name in statement.names}
            plain = tuple(replace(part, type=replace(part.type, merge="")) for part in statement.attributes)
            statement = replace(statement, attributes=plain)
        result.append(statement)
    return [
        _add_merge_aggregates(one, merges) if merges and isinstance(one, ast.Clause) else one
        for one in result
    ]


def _add_merge_aggregates(clause: ast.Clause, merges: MergeColumns) -> ast.Clause:
    body = clause.body or ast.Truth(True, clause.span)  # without a body it would be a fact
    heads = tuple(_head(head, merges.get(head.name.text, {})) for head in clause.heads)
    return clause if heads == clause.heads else replace(clause, heads=heads, body=body)


def _head(head: ast.Atom, places: Mapping[int, str]) -> ast.Atom:
    args = tuple(
        ast.Call(places[at], (arg,), arg.span) if at in places else arg for at, arg in enumerate(head.args)
    )
    return replace(head, args=args)


EXTREMES = ("min", "max")
"""Functions of merge columns, and functors of any number of values."""
SAME_TYPE_AGGREGATES = (*EXTREMES, "sum")
"""Aggregates whose result has the type of their values."""


def unify_case(statements: Sequence[T]) -> list[T]:
    """Return the statements with all names in the case of their declarations."""
    known = _spellings(statements)
    if not known:
        return list(statements)

    def change(node: Any) -> Any:
        if isinstance(node, ast.Directive):
            return replace(node, names=tuple(_unify_name(name, known) for name in node.names))
        if isinstance(node, ast.Atom | ast.ComponentRef | ast.Override | ast.Query):
            return replace(node, name=_unify_name(node.name, known))
        return node

    return [transform_tree(statement, change) for statement in statements]


def _spellings(statements: Sequence[Any]) -> dict[str, str]:
    """Return the declared spelling of each lower-case name that has only one."""
    found: dict[str, set[str]] = {}
    for text in _declared_names(statements):
        found.setdefault(text.lower(), set()).add(text)
    return {small: texts.pop() for small, texts in found.items() if len(texts) == 1}


def _declared_names(statements: Sequence[Any]) -> Iterator[str]:
    for statement in nodes(tuple(statements)):
        if isinstance(statement, ast.Declaration):
            yield from (name.text for name in statement.names)
        elif isinstance(statement, ast.Component | ast.Init):
            yield statement.name.text


def _unify_name(name: ast.Name, spellings: Mapping[str, str]) -> ast.Name:
    text = ".".join(spellings.get(part.lower(), part) for part in name.text.split("."))
    return name if text == name.text else replace(name, text=text)


BLOCKS: Final = r"\bfixpoint\s*\{|\bloop\s+(?:while|until)\b"
FLOWLOG_SYNTAX: Final = re.compile(
    r":\s*(?P<type>u?int(?:8|16|32|64)|[iu](?:8|16|32|64)|f32|f64|string|bool)\b"
    rf"|:\s*\(\s*[\w?]+\s*:(?!-)|{BLOCKS}|^\s*\.extern\s+fn\b|\bIO\s*=\s*\"?(?:command|cmd)\b",
    re.MULTILINE,
)
TYPE_DEFINITION: Final = re.compile(r"\.type\s+(\w+)")
HAS_BLOCKS: Final = re.compile(BLOCKS)
ROWS_SUFFIX: Final = "@rows"
"""Suffix of the relation of the rows over which a relation's aggregate ranges."""
MAX_ROUNDS: Final = 200
"""Maximum number of rounds of an unrolled loop."""
RENAMED_FUNCTORS: Final = {"to_number": "to_number_or_zero", "to_string": "to_plain_string"}
"""Functors whose FlowLog names have another meaning in Soufflé."""
ZERO_AGGREGATES: Final = {"count": False, "sum": True}
"""Aggregates that are 0 over no rows, and whether they take a value."""
DUPLICATE_SENSITIVE: Final = ("count", "sum", "mean")
"""Aggregates whose result depends on duplicate rows."""
INTEGER_TYPE: Final = re.compile(r"number|unsigned|u?int(8|16|32|64)|[iu](8|16|32|64)")


def is_flowlog(text: str) -> bool:
    """Return whether a text without comments is FlowLog.

    Type names that it defines itself do not count.
    """
    defined = set(TYPE_DEFINITION.findall(text))
    return any(found["type"] not in defined for found in FLOWLOG_SYNTAX.finditer(text))


def has_equal_precedence(text: str) -> bool:
    """Return whether FlowLog's text reads operators from left to right with equal precedence."""
    return HAS_BLOCKS.search(text) is not None


def translate(
    statements: Sequence[ast.Statement | Block], diagnostics: Diagnostics
) -> tuple[ast.Statement, ...]:
    """Return FlowLog's statements in the common syntax.

    Unsupported ones are reported.
    """

    flat = expand_merge_columns(
        expand_negative_cycles(expand_blocks(unify_case(statements), diagnostics), diagnostics)
    )
    functions = {statement.name.text for statement in flat if isinstance(statement, ast.Functor)}
    singles = [use_single_floats(statement) for statement in flat]
    return _translate_scope(singles, {}, {}, functions, type_aliases(singles))


DeclarationsByName = Mapping[str, ast.Declaration]


def _translate_scope(
    statements: Sequence[ast.Statement],
    outside: DeclarationsByName,
    components: Mapping[str, DeclarationsByName],
    functions: Collection[str],
    known_as: Mapping[str, str],
) -> tuple[ast.Statement, ...]:
    """Translate the statements of a text or component.

    ``outside`` has the declarations around it.
    """

    own = {name.text: one for one in statements if isinstance(one, ast.Declaration) for name in one.names}
    declared, component_declarations = {**outside, **own}, dict(components)
    result: list[ast.Statement] = []
    helpers: dict[str, ast.Declaration] = {}
    widths, projections = NumericWidths(declared, known_as), AggregateProjections(declared)
    best = _extreme_columns(statements)
    for statement in statements:
        statement = transform_tree(statement, _translate_value)
        if isinstance(statement, ast.Clause) and statement.body is not None:
            statement = replace(
                statement, heads=tuple(_add_extreme_aggregates(head, best) for head in statement.heads)
            )
        if isinstance(statement, ast.Component):
            bases = [component_declarations.get(base.name.text, {}) for base in statement.bases]
            known = {name: found for base in bases for name, found in base.items()}
            parts = _translate_scope(
                statement.statements, {**declared, **known}, component_declarations, functions, known_as
            )
            component_declarations[statement.name.text] = {**known, **declarations(parts)}
            result.append(replace(statement, statements=parts))
        elif isinstance(statement, ast.Clause):
            statement = widths.annotate_operations(
                _plan_all_versions(_compare_functions(statement, functions) if functions else statement)
            )
            statement, more = projections.project_aggregates(statement)
            result += more
            result += (
                _split_aggregate(statement, declared, helpers) if len(statement.heads) == 1 else [statement]
            )
        elif isinstance(statement, ast.Update):
            result.append(widths.annotate_operations(statement))
        elif isinstance(statement, ast.Directive) and statement.kind == "output":
            result.append(replace(statement, options=(*statement.options, ("nullary", "True"))))
        else:
            result.append(statement)
    return (*helpers.values(), *result)


def _extreme_columns(statements: Sequence[ast.Statement]) -> dict[str, dict[int, str]]:
    """Return the columns for which rules keep the least or greatest value, by relation."""
    found: dict[str, dict[int, str]] = {}
    for statement in statements:
        for head in statement.heads if isinstance(statement, ast.Clause) else ():
            for place, arg in enumerate(head.args):
                function = _aggregate_function_name(arg)
                if function in EXTREMES:
                    found.setdefault(head.name.text, {})[place] = function
    return found


def _add_extreme_aggregates(head: ast.Atom, best: Mapping[str, Mapping[int, str]]) -> ast.Atom:
    """Add the aggregates of the relation's other rules to the head: ``d(x, 0)`` beside ``d(y, min(c))``."""
    functions = best.get(head.name.text, {})
    args = tuple(
        ast.Call(functions[place], (arg,), arg.span)
        if place in functions and _aggregate_function_name(arg) is None
        else arg
        for place, arg in enumerate(head.args)
    )
    return replace(head, args=args) if functions else head


def _plan_all_versions(clause: ast.Clause) -> ast.Clause:
    """Apply a single plan to all versions of the clause."""
    if clause.plan is None or clause.plan.is_strict or len(clause.plan.orders) != 1:
        return clause
    ((_, order),) = clause.plan.orders
    return replace(clause, plan=replace(clause.plan, orders=((0, order),)))


# Values


def _translate_value(node: Any) -> Any:
    """Translate the constants True and False, and renamed functors."""
    if isinstance(node, ast.Variable) and node.name in ("True", "False"):
        return ast.Boolean(node.name == "True", node.span)
    if isinstance(node, ast.Call) and node.function in RENAMED_FUNCTORS:
        return replace(node, function=RENAMED_FUNCTORS[node.function])
    return node


# Aggregates over the distinct rows of keys and values that all rules derive


def _split_aggregate(
    clause: ast.Clause, declared: DeclarationsByName, helpers: dict[str, ast.Declaration]
) -> Iterator[ast.Statement]:
    (head,) = clause.heads
    places = [place for place, arg in enumerate(head.args) if _aggregate_function_name(arg) is not None]
    declaration = declared.get(head.name.text)
    counts = any(_aggregate_function_name(head.args[place]) in DUPLICATE_SENSITIVE for place in places)
    if not counts or declaration is None or len(declaration.attributes) != len(head.args):
        yield clause
        return
    operands = {place: _aggregate_operand(head.args[place]) for place in places}
    rows = replace(head.name, text=head.name.text + ROWS_SUFFIX)
    is_new = rows.text not in helpers and rows.text not in declared
    if is_new:
        helpers[rows.text] = _rows_declaration(declaration, rows, operands, clause, declared)
    args = tuple(operands.get(place, arg) for place, arg in enumerate(head.args))
    yield replace(clause, heads=(replace(head, name=rows, args=args),))
    if is_new:
        yield _aggregation_rule(clause, head, rows, places, declaration)


def _aggregate_operand(arg: ast.Expression) -> ast.Expression:
    found = head_aggregate(arg)
    assert found is not None
    return found[1]


def _aggregate_function_name(arg: ast.Expression) -> str | None:
    found = head_aggregate(arg)
    return None if found is None else found[0]


def _rows_declaration(
    declaration: ast.Declaration,
    name: ast.Name,
    operands: Mapping[int, ast.Expression],
    clause: ast.Clause,
    declared: DeclarationsByName,
) -> ast.Declaration:
    """Return the declaration of the rows: the relation's, with the types of the aggregated values."""
    attributes = list(declaration.attributes)
    for place, value in operands.items():
        found = _operand_type(value, clause.body, declared)
        if found is not None:
            attributes[place] = replace(attributes[place], type=found)
    return ast.Declaration((name,), tuple(attributes), (), declaration.span)


def _operand_type(
    value: ast.Expression, body: ast.Body | None, declared: DeclarationsByName
) -> ast.TypeRef | None:
    """Return the type of the first column in which the value's first variable occurs."""
    names = [part.name for part in nodes(value) if isinstance(part, ast.Variable)]
    for atom in nodes(body):
        declaration = declared.get(atom.name.text) if isinstance(atom, ast.Atom) else None
        if declaration is None or not isinstance(atom, ast.Atom):
            continue
        for arg, attribute in zip(atom.args, declaration.attributes, strict=False):
            if isinstance(arg, ast.Variable) and arg.name in names[:1]:
                return attribute.type
    return None


def _returns_float(function: str) -> bool:
    """Return whether the aggregate of integers is not an integer, as a mean."""
    signature = lookup_aggregate(function).rule((BIGINT,))
    return signature is not None and signature.result == DOUBLE


def _aggregation_rule(
    clause: ast.Clause,
    head: ast.Atom,
    rows: ast.Name,
    places: Sequence[int],
    declaration: ast.Declaration,
) -> ast.Clause:
    """Return the rule that aggregates the rows.

    A mean over a column of integers is an integer. Without keys, counts and sums of no rows are 0.
    """
    functions = [_aggregate_function_name(head.args[place]) for place in places]
    if len(places) == len(head.args) and all(function in ZERO_AGGREGATES for function in functions):
        return _global_aggregation_rule(clause, head, rows)
    span = clause.span
    names = [ast.Variable(f"c{number}", span) for number in range(len(head.args))]
    args: list[ast.Expression] = list(names)
    for place in places:
        function = str(_aggregate_function_name(head.args[place]))
        whole = INTEGER_TYPE.fullmatch(declaration.attributes[place].type.name.text)
        if whole and _returns_float(function):
            value = ast.Variable("value", span)
            inner = tuple(
                value if at == place else _other_term(names[at], places, at) for at in range(len(names))
            )
            total = ast.Aggregate("sum", value, ast.Atom(rows, inner, span), span)
            number = ast.Aggregate("count", None, ast.Atom(rows, inner, span), span)
            args[place] = ast.Call("/", (total, number), span)
        else:
            args[place] = ast.Call(function, (names[place],), span)
    used = {part.name for arg in args for part in nodes(arg) if isinstance(part, ast.Variable)}
    body = tuple(name if name.name in used else ast.Underscore(span) for name in names)
    return ast.Clause((replace(head, args=tuple(args)),), ast.Atom(rows, body, span), None, span)


def _global_aggregation_rule(clause: ast.Clause, head: ast.Atom, rows: ast.Name) -> ast.Clause:
    span = clause.span
    args: list[ast.Expression] = []
    for place, arg in enumerate(head.args):
        value = ast.Variable("value", span)
        inner = tuple(value if at == place else ast.Underscore(span) for at in range(len(head.args)))
        function = str(_aggregate_function_name(arg))
        operand = value if ZERO_AGGREGATES[function] else None
        atom = ast.Atom(rows, inner if operand else (ast.Underscore(span),) * len(head.args), span)
        args.append(ast.Aggregate(function, operand, atom, span))
    return ast.Clause((replace(head, args=tuple(args)),), None, None, span)


def _other_term(name: ast.Variable, places: Sequence[int], place: int) -> ast.Expression:
    """Return a key of the rows, or a wildcard for the value of another aggregate."""
    return ast.Underscore(name.span) if place in places else name


# Tuples: records whose type is known by its fields


def tuple_type(
    fields: tuple[ast.Attribute, ...], span: Span, record_types: dict[str, ast.RecordType]
) -> ast.TypeRef:
    """Return the type ``(a: int32, b: string)``, and add its record type to ``record_types``."""
    name = ast.Name(f"({', '.join(attribute.type.name.text for attribute in fields)})", span)
    if name.text not in record_types:
        named = tuple(
            replace(attribute, name=replace(attribute.name, text=f"{place}"))
            for place, attribute in enumerate(fields)
        )
        record_types[name.text] = ast.RecordType(name, named, span)
    return ast.TypeRef(name)


# User-defined predicates


def _compare_functions(clause: ast.Clause, functions: Collection[str]) -> ast.Clause:
    """Replace atoms that call user functions by comparisons with True."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Atom) and node.name.text in functions:
            call = ast.Call(node.name.text, node.args, node.span)
            return ast.Comparison("=", call, ast.Boolean(True, node.span), node.span)
        return node

    return replace(clause, body=transform_tree(clause.body, change))


@dataclass(frozen=True, slots=True)
class AggregateProjections:
    """Projections of relations for aggregates over atoms with underscores, by name."""

    declarations: Mapping[str, ast.Declaration]
    relations: dict[str, ast.Declaration] = field(default_factory=dict)

    def project_aggregates(self, clause: ast.Clause) -> tuple[ast.Clause, list[ast.Statement]]:
        """Return the rule with aggregates over named variables only, and the additional rules."""
        added: list[ast.Statement] = []

        def change(node: Any) -> Any:
            if not isinstance(node, ast.Aggregate):
                return node
            return replace(node, body=transform_tree(node.body, lambda part: self._atom(part, added)))

        return transform_tree(clause, change), added

    def _atom(self, atom: Any, added: list[ast.Statement]) -> Any:
        if not isinstance(atom, ast.Atom) or atom.name.text not in self.declarations:
            return atom
        declaration = self.declarations[atom.name.text]
        kept = [at for at, arg in enumerate(atom.args) if not isinstance(arg, ast.Underscore)]
        if len(kept) == len(atom.args) or len(atom.args) != len(declaration.attributes):
            return atom
        span = atom.span
        name = replace(atom.name, text=f"{atom.name.text}@{'.'.join(map(str, kept))}")
        if name.text not in self.relations:
            attributes = tuple(declaration.attributes[at] for at in kept)
            self.relations[name.text] = ast.Declaration((name,), attributes, (), span)
            terms = {at: ast.Variable(f"c{at}", span) for at in kept}
            wide = tuple(terms.get(at, ast.Underscore(span)) for at in range(len(atom.args)))
            head = ast.Atom(name, tuple(terms.values()), span)
            added += [
                self.relations[name.text],
                ast.Clause((head,), ast.Atom(atom.name, wide, span), None, span),
            ]
        return ast.Atom(name, tuple(atom.args[at] for at in kept), span)


TreeType = TypeVar("TreeType", ast.Clause, ast.Update)
SINGLE: Final = "f32"
TYPE_ALIASES: Final = {"number": "int32", "unsigned": "uint32", "float": SINGLE}
"""Alternative names of FlowLog's types."""
NARROW_TYPES: Final = (*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)), SINGLE)
OPERATIONS: Final = (*"+-*/%^", "neg", "band", "bor", "bxor", "bshl", "bshr", "bshru", "bnot")
INT32_FUNCTORS: Final = ("strlen", "ord", "to_number", "to_number_or_zero")


def type_aliases(statements: Sequence[Any]) -> dict[str, str]:
    """Return the base type of each declared type."""
    found: dict[str, str] = {}
    for statement in nodes(tuple(statements)):
        if isinstance(statement, ast.Subtype):
            found[statement.name.text] = statement.base.name.text
        elif isinstance(statement, ast.UnionType):
            found[statement.name.text] = statement.members[0].name.text
    return found


def use_single_floats(statement: ast.Statement) -> ast.Statement:
    """Return the statement with 32-bit floats for columns of type ``float``, as in FlowLog."""

    def change(node: Any) -> Any:
        if isinstance(node, ast.Attribute) and node.type.name.text == "float":
            return replace(node, type=replace(node.type, name=replace(node.type.name, text=SINGLE)))
        return node

    return transform_tree(statement, change)


@dataclass(frozen=True, slots=True)
class NumericWidths:
    """Types of relations' columns.

    ``base_types`` maps types to their base types.
    """

    declarations: Mapping[str, ast.Declaration]
    base_types: Mapping[str, str]

    def annotate_operations(self, statement: TreeType) -> TreeType:
        """Return a rule or update with the operand type added to the names of operations."""
        names = dict(self._variable_types(statement))
        reader = _VariableTypes(names)
        while any(reader.learn(node) for node in nodes(statement)):
            pass

        def change(node: Any) -> Any:
            if isinstance(node, ast.Call):
                return _annotate_call(node, reader)
            if isinstance(node, ast.Comparison):
                type_ = reader.type_of(node.left) or reader.type_of(node.right)
                left, right = _round_constants((node.left, node.right), type_)
                return replace(node, left=left, right=right)
            if isinstance(node, ast.Atom):
                types = self._types(node)
                made: tuple[ast.Expression, ...] = tuple(
                    _round_constants((arg,), type_)[0] for arg, type_ in zip(node.args, types, strict=False)
                )
                return replace(node, args=(*made, *node.args[len(made) :]))
            return node

        return transform_tree(statement, change)

    def _types(self, atom: ast.Atom) -> list[str]:
        declaration = self.declarations.get(atom.name.text)
        attributes = () if declaration is None else declaration.attributes
        return [self._type(attribute.type.name.text) for attribute in attributes]

    def _type(self, name: str) -> str:
        for _ in self.base_types:
            name = self.base_types.get(name, name)
        return TYPE_ALIASES.get(name, name)

    def _variable_types(self, statement: Any) -> Iterator[tuple[str, str]]:
        for atom in nodes(statement.body if isinstance(statement, ast.Clause) else ()):
            if isinstance(atom, ast.Atom):
                for arg, type_ in zip(atom.args, self._types(atom), strict=False):
                    if isinstance(arg, ast.Variable):
                        yield arg.name, type_


@dataclass(frozen=True, slots=True)
class _VariableTypes:
    """Types of a rule's variables."""

    names: dict[str, str] = field(default_factory=dict)

    def learn(self, node: Any) -> bool:
        """Record the type that an equation gives to a variable, and return whether there was one."""
        if not isinstance(node, ast.Comparison) or node.operator != "=":
            return False
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.Variable) and one.name not in self.names:
                type_ = self.type_of(other)
                if type_ is not None:
                    self.names[one.name] = type_
                    return True
        return False

    def type_of(self, expression: Any) -> str | None:
        """Return the type of an expression as far as it follows from the expression alone."""
        if isinstance(expression, ast.Variable):
            return self.names.get(expression.name)
        if isinstance(expression, ast.Aggregate) and expression.function in SAME_TYPE_AGGREGATES:
            return self.type_of(expression.value)
        if not isinstance(expression, ast.Call):
            return None
        if expression.function in INT32_FUNCTORS:
            return "int32"
        if expression.function.partition("@")[0] not in (*OPERATIONS, *EXTREMES):
            return None
        return next((type_ for type_ in map(self.type_of, expression.args) if type_), None)


def _annotate_call(node: ast.Call, reader: _VariableTypes) -> ast.Call:
    """Return the call with the operand type added to its name."""
    type_ = reader.type_of(node)
    if node.function in OPERATIONS and type_ in NARROW_TYPES:
        return replace(node, function=f"{node.function}@{type_}", args=_round_constants(node.args, type_))
    if node.function == "to_plain_string" and reader.type_of(node.args[0]) == SINGLE:
        return replace(node, function=f"{node.function}@{SINGLE}")
    return node


def _round_constants(args: Sequence[ast.Expression], type_: str | None) -> tuple[ast.Expression, ...]:
    """Return the expressions, with constants rounded if the type is a 32-bit float."""
    return tuple(map(_round_constant, args)) if type_ == SINGLE else tuple(args)


def _round_constant(arg: ast.Expression) -> ast.Expression:
    if isinstance(arg, ast.Float):
        return replace(arg, value=round_to_single(arg.value))
    if isinstance(arg, ast.Call) and arg.function in EXTREMES:
        return replace(arg, args=_round_constants(arg.args, SINGLE))
    return arg


def round_to_single(value: float) -> float:
    """Return the nearest 32-bit float."""
    with np.errstate(all="ignore"):
        return float(np.float32(value))
