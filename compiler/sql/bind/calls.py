"""Calls of registered functions: overload resolution, coercion of arguments, CASE and concatenation.

``CASE WHEN paid THEN price ELSE 0 END`` is a NUMERIC whose display scale varies per row, since 0 prints as 0.
A sum of it has the largest display scale of its operands. It is computed from words at a common scale and
from counts per display scale; COALESCE is treated alike. ``||`` and CONCAT also take operands that are not
text.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.bind.literals import (
    COMPARISONS,
    convert,
    loose_type,
    meant,
    narrowed,
    own_number,
    rounded,
    settled_type,
)
from kpg.compiler.sql.bind.scope import WIDE, Binding, Scope
from kpg.compiler.sql.parse.parameters import NAMED, Beyond, slot_of, then
from kpg.compiler.sql.parse.syntax import known as known_node
from kpg.compiler.sql.parse.syntax import only, span_of, whole
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.runtime.errors import DataError, NotSupportedError, ProgrammingError
from kpg.runtime.functions import Composed, Part, Resolution, castable, common_type, resolve, shown_type
from kpg.runtime.functions.aggregation.builtins import sum_type
from kpg.runtime.functions.comparison import bounded, key
from kpg.runtime.functions.date_time.dates import lengths
from kpg.runtime.functions.text import shown
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar, literal_text
from kpg.runtime.types import (
    BIGINT,
    BIT_KINDS,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    MAX_DECIMAL_PRECISION,
    NUMERIC,
    REGPROC,
    TEXT,
    UNKNOWN,
    ColumnDef,
    Kind,
    Type,
    array,
    decimal,
)
from kpg.runtime.values import numeric

DAY: Final = 86_400_000_000
ARITHMETIC: Final = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
NUMBERS: Final = frozenset({*ARITHMETIC, "div", "mod"})
MOMENTS: Final = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
ASSIGNED: Final = frozenset(
    {(source, target) for source in MOMENTS for target in (*MOMENTS, Kind.TIME) if target is not source}
    | {(source, Kind.INTERVAL) for source in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH, Kind.TIME)}
    | {(Kind.INTERVAL, Kind.TIME), (Kind.JSON, Kind.JSONB), (Kind.JSONB, Kind.JSON)}
    | {(Kind.BIT, Kind.VARBIT), (Kind.VARBIT, Kind.BIT), (Kind.INET, Kind.CIDR), (Kind.CIDR, Kind.INET)}
    | {(Kind.TIME, Kind.TIMETZ), (Kind.TIMETZ, Kind.TIME), (Kind.TIMESTAMPTZ, Kind.TIMETZ)}
    | {(Kind.MACADDR, Kind.MACADDR8), (Kind.MACADDR8, Kind.MACADDR)}
) - {(Kind.DATE, Kind.TIME)}
"""Values that are stored in a column of another kind without a CAST, beside numbers and texts."""


def call(binding: Binding, name: str, args: Sequence[Scalar], node: exp.Expr) -> Scalar:
    """``name(args)`` with implicit casts; ProgrammingError at the node if the types do not fit."""
    if name in COMPARISONS:
        if any(arg.type == REGPROC for arg in args):
            args = [_as_routine(binding, arg, node) for arg in args]
        args = _as_words(name, narrowed(_as_numbers(args)))
    elif name in NUMBERS:
        args = _as_numbers(args)
    try:
        meaning = resolve(name, tuple(arg.type for arg in args))
    except ProgrammingError as error:
        guessed = _of_nulls(name, args) or _of_texts(binding, name, args, node)
        if guessed is not None:
            return call(binding, name, guessed, node)
        span = span_of(node, binding.source) or whole(binding.source)
        placed = ProgrammingError(error.message, span=span, hint=error.hint)
        placed.short, placed.sqlstate = error.short, error.sqlstate
        raise placed from None
    except NotSupportedError as error:
        error.span = span_of(node, binding.source)
        raise
    cast = [brought(binding, arg, type_, node) for arg, type_ in zip(args, meaning.arg_types, strict=True)]
    if meaning.result_type.kind is Kind.DECIMAL and all(isinstance(arg, Literal) for arg in cast):
        meaning, cast = _wide(name, meaning, cast)
    if name in COMPARISONS and meaning.arg_types[0].kind is Kind.INTERVAL:
        cast = list(lengths(tuple(cast)))  # before plans compare words: intervals of one length may differ
    elif name in COMPARISONS or name == "in":
        cast = list(map(key, cast))
    return Call(meaning.function.name, tuple(cast), meaning.result_type)


def _of_nulls(name: str, args: Sequence[Scalar]) -> list[Scalar] | None:
    """The arguments with a type for NULLs that the function takes; None if there is none."""
    if not any(_is_null(arg) for arg in args):
        return None
    known = [arg.type for arg in args if arg.type != UNKNOWN]
    for guess in (
        DOUBLE,
        INTEGER,
        TEXT,
        *map(array, known),
        *(type_.parts[0] for type_ in known if type_.parts),
    ):
        typed = [Literal(None, guess) if _is_null(arg) else arg for arg in args]
        try:
            resolve(name, tuple(arg.type for arg in typed))
        except ProgrammingError:
            continue
        return typed
    return None


def _of_texts(binding: Binding, name: str, args: Sequence[Scalar], node: exp.Expr) -> list[Scalar] | None:
    """The arguments with a type for quoted strings that the function takes; None if there is none."""
    places = [place for place, arg in enumerate(args) if arg.type == UNKNOWN]
    if not places or any(_is_null(arg) for arg in args):
        return None
    known = [arg.type for arg in args if arg.type != UNKNOWN]
    if not known and isinstance(node, exp.Binary | exp.Unary):
        return None  # an operator that there is for many types: none is the best
    for guess in (*known, DOUBLE, INTEGER, *map(array, known)):
        types = tuple(guess if arg.type == UNKNOWN else arg.type for arg in args)
        try:
            resolve(name, types)
        except ProgrammingError:
            continue
        return [brought(binding, arg, type_, node) for arg, type_ in zip(args, types, strict=True)]
    return None


def _as_routine(binding: Binding, arg: Scalar, node: exp.Expr) -> Scalar:
    """A number of a routine as catalogs have it in columns of ``regproc``: its name."""
    if not arg.type.is_numeric:
        return arg
    if _is_nothing(arg):
        return Literal("-", REGPROC)
    return binding.routine_name(arg, node)


def _is_nothing(arg: Scalar) -> bool:
    """Whether it is the number by which catalogs say that there is no function."""
    return isinstance(arg, Literal) and arg.type.is_numeric and slot_of(arg) is None and arg.value == 0


def _is_null(arg: Scalar) -> bool:
    """Whether it is NULL, as it is written."""
    return isinstance(arg, Literal) and arg.type == UNKNOWN and arg.value is None and slot_of(arg) is None


def _as_words(name: str, args: Sequence[Scalar]) -> list[Scalar]:
    """The sides of a comparison as words, if one is a NUMERIC and the other is of words."""
    if not any(arg.type.kind is Kind.NUMERIC for arg in args):
        return list(args)

    return bounded(name, args)


def _wide(name: str, meaning: Resolution, args: list[Scalar]) -> tuple[Resolution, list[Scalar]]:
    """Arithmetic of constants as of NUMERICs, if the result has more digits than a word."""
    words = [arg.value for arg in args if isinstance(arg, Literal) and isinstance(arg.value, int)]
    if any(isinstance(arg, Literal) and slot_of(arg) is not None for arg in args):
        raise Beyond
    if name not in ARITHMETIC or len(words) != len(args):
        return meaning, args
    if abs(ARITHMETIC[name](*words)) < 10**MAX_DECIMAL_PRECISION:
        return meaning, args
    return resolve(name, (NUMERIC,) * len(args)), [coerce(arg, NUMERIC) for arg in args]


def user_type(binding: Binding, node: exp.Expr) -> Type:
    """The type that a name stands for, Postgres' or a user's; an error at its place if there is none."""
    catalog, type_ = binding.catalog, sql_type(node, binding.source)
    with suppress(
        ProgrammingError, NotSupportedError
    ):  # finding the place takes as long as the text: only for the error
        return catalog.known_type(type_, None)
    return catalog.known_type(type_, span_of(node, binding.source))


def brought(binding: Binding, scalar: Scalar, type_: Type, node: exp.Expr) -> Scalar:
    """The scalar as a value of ``type_``; ProgrammingError if it is a quoted string that means none."""
    if isinstance(scalar, Literal) and scalar.type == UNKNOWN and scalar.value is not None:
        moment = special_moment(binding, scalar, type_)
        if moment is not None:
            return moment
        unlimited = Type(type_.kind) if type_.is_text else type_
        value = meant(scalar, unlimited)
        if value is None:
            binding.no_value(str(scalar.value), type_, node)
        slot = slot_of(value)
        return Literal(value.value, type_) if slot is None else then(slot, NAMED, type_)
    return coerce(scalar, type_)


SPECIAL: Final = {"now": None, "today": 0, "tomorrow": 1, "yesterday": -1}
"""Texts that mean another moment at every time, by days from today."""


def special_moment(binding: Binding, literal: Literal, type_: Type) -> Literal | None:
    """The present time or a day beside it, by its name; None for any other text, and in views."""
    if type_.kind not in MOMENTS or binding.kept or slot_of(literal) is not None:
        return None
    name = str(literal.value).strip().lower()
    if name not in SPECIAL:
        return None
    binding.catalog.consulted.times += 1
    now, days = binding.catalog.moment, SPECIAL[name]
    day = now // DAY + (days or 0)
    if type_.kind is Kind.DATE:
        return Literal(day, type_)
    return Literal(now if days is None else day * DAY, type_)


def assigned(binding: Binding, scalar: Scalar, column: ColumnDef, node: exp.Expr) -> Scalar:
    """The scalar as a value to store in a column; constants are rounded and checked at once.

    Raises ProgrammingError if the types do not fit, DataError if a constant is out of range.
    """
    check_assignable(binding, loose_type(scalar), column, node)
    if isinstance(scalar, Literal) and scalar.type.is_exact and column.type.is_exact:
        value = rounded(scalar, column.type)
        if value is None:
            message = f'{literal_text(scalar)} is out of range for column "{column.name}" {column.type}'
            raise DataError(message, span=span_of(node, binding.source))
        return value
    if column.type.kind in BIT_KINDS:
        return _of_length(binding, scalar, column, node)
    return stored(brought(binding, scalar, unlimited(column.type), node), column)


def unlimited(type_: Type) -> Type:
    """The type of an array's values before it is known that their elements are not too long."""
    if type_.kind is not Kind.ARRAY or not type_.limits_length:
        return type_
    return array(TEXT if type_.parts[0].is_text else Type(Kind.VARBIT))


def _of_length(binding: Binding, scalar: Scalar, column: ColumnDef, node: exp.Expr) -> Scalar:
    """A bit string for a column, which is not cut or filled up as by a CAST."""
    target = column.type
    whole_type = Type(target.kind)
    value = brought(binding, scalar, whole_type, node)
    return Call("$of_length", (value,), target) if target.precision else value


def stored(scalar: Scalar, column: ColumnDef) -> Scalar:
    """The value for a column: if it is cast, errors name the column."""
    if isinstance(scalar, Call) and scalar.function == "cast":
        return replace(scalar, stored=column.name)
    return scalar


def check_assignable(binding: Binding, source: Type, column: ColumnDef, node: exp.Expr) -> None:
    """Refuses to store a value of a kind that the column's type does not take without a CAST."""
    target = column.type
    if source.parts and source.kind is target.kind and len(source.parts) == len(target.parts):
        for part, wanted in zip(source.parts, target.parts, strict=True):
            check_assignable(binding, part, replace(column, type=wanted), node)
        return
    if source.kind in (target.kind, UNKNOWN.kind) or (source.kind, target.kind) in ASSIGNED:
        return
    if target == TEXT and castable(source, target):
        return
    if not (source.is_numeric and target.is_numeric) and not (source.is_text and target.is_text):
        binding.wrong(f'column "{column.name}" is {target}, not {source}', node, "add a CAST")


def coerce(scalar: Scalar, type_: Type) -> Scalar:
    """The scalar cast to ``type_``, at once if it is a constant and that is exact."""
    if scalar.type == type_:
        return scalar
    if isinstance(scalar, Literal):
        folded = convert(scalar, type_)
        if folded is not None:
            return folded
    if scalar.type == UNKNOWN:
        return Literal(None, type_)
    return Call("cast", (scalar,), type_)


def settled(scalar: Scalar) -> Scalar:
    """The scalar with a type: a string or NULL that no context gave one is text."""
    if isinstance(scalar, Literal) and scalar.type == UNKNOWN:
        slot = slot_of(scalar)
        return Literal(scalar.value, TEXT) if slot is None else then(slot, NAMED, TEXT)
    return scalar


def of_places(name: str, args: list[Scalar]) -> Scalar | None:
    """A DECIMAL rounded to places that are known, which is a DECIMAL of so many; None for all else."""
    if name != "round" or len(args) != 2 or args[0].type.kind is not Kind.DECIMAL:
        return None
    type_, places = args[0].type, args[1].value if isinstance(args[1], Literal) else None
    if isinstance(args[1], Literal) and slot_of(args[1]) is not None:
        raise Beyond
    if not isinstance(places, int) or places < 0:
        return None
    digits = type_.precision - type_.scale + places + (places < type_.scale)
    return coerce(args[0], decimal(digits, places)) if digits <= MAX_DECIMAL_PRECISION else None


def compared_as_they_are(left: Type, right: Type) -> bool:
    """Whether Postgres compares values of two types without making one the other: NULLIF keeps the first."""
    return left.kind is not right.kind and any(
        test(left) and test(right)
        for test in (
            lambda type_: type_.is_integer,
            lambda type_: type_.is_float,
            lambda type_: type_.kind in MOMENTS,
        )
    )


def settle(binding: Binding, args: Sequence[Scalar], node: exp.Expr) -> list[Scalar]:
    """The arguments of a binary operator: one of unknown type takes the other's."""
    left, right = args
    if left.type == UNKNOWN and right.type != UNKNOWN:
        left = brought(binding, left, right.type, node)
    elif right.type == UNKNOWN and left.type != UNKNOWN:
        right = brought(binding, right, left.type, node)
    return [left, right]


def _as_numbers(args: Sequence[Scalar]) -> list[Scalar]:
    """Quoted numbers beside DECIMALs are numbers with places of their own: they are not rounded to fit."""
    known = [arg.type for arg in args if arg.type != UNKNOWN]
    if not any(type_.kind is Kind.DECIMAL for type_ in known) or not all(type_.is_exact for type_ in known):
        return list(args)
    return [own_number(arg) or arg for arg in args]


def unified(
    binding: Binding,
    args: Sequence[Scalar],
    nodes: Sequence[exp.Expr],
    what: str,
    joint_type: Callable[[tuple[Type, ...]], Type | None] = shown_type,
) -> list[Scalar]:
    """The arguments brought to their joint type; ProgrammingError where there is none."""
    args = _as_numbers(args)
    target = joint_type(tuple(map(loose_type, args)))
    if target is None:
        known = args[0].type
        for arg, node in zip(args, nodes, strict=True):
            joint = common_type((known, loose_type(arg)))
            if joint is None:
                binding.wrong(f"{what} {known} and {arg.type} cannot be matched", node, "add a CAST")
            known = joint
        raise AssertionError("some pair has no common type")
    target = settled_type(target)
    return [brought(binding, arg, target, node) for arg, node in zip(args, nodes, strict=True)]


def comparable(binding: Binding, type_: Type, what: str, node: exp.Expr) -> None:
    """ProgrammingError for a type without "equality", so that it is no group key, or without "ordering"."""
    kind = type_.parts[0].kind if type_.kind is Kind.ARRAY else type_.kind
    if kind is Kind.JSON:
        from kpg.compiler.system.oids import type_facts  # lazy: the system catalogs

        binding.wrong(f"could not identify an {what} operator for type {type_facts(type_)[0]}", node)


def condition(binding: Binding, scalar: Scalar, node: exp.Expr, clause: str) -> Scalar:
    """The scalar as a BOOLEAN; ProgrammingError if it is none."""
    if scalar.type == UNKNOWN:
        return brought(binding, scalar, BOOLEAN, node)
    if scalar.type != BOOLEAN:
        binding.wrong(f"{clause} needs a BOOLEAN, not {scalar.type}", node)
    return scalar


def bind_case(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    only(node, binding.source, "this", "ifs", "default", "true", "false")
    if isinstance(node, exp.If):
        branches, operand, default = [node], None, node.args.get("false")
    else:
        branches, operand, default = node.args["ifs"], node.args.get("this"), node.args.get("default")
    scope = scope.without_rows("CASE")
    tested = binding.expression(scope, operand) if operand is not None else None
    conditions = [_branch(binding, scope, tested, branch.this) for branch in branches]
    values = [binding.expression(scope, branch.args["true"]) for branch in branches]
    values.append(binding.expression(scope, default) if default is not None else Literal(None, UNKNOWN))
    nodes = [*(branch.args["true"] for branch in branches), default if default is not None else node]
    values = unified(binding, values, nodes, "CASE branches")
    result = values[-1]
    for test, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        result = If(test, value, result, value.type)
    return result


def _branch(binding: Binding, scope: Scope, tested: Scalar | None, node: exp.Expr) -> Scalar:
    value = binding.expression(scope, node)
    if tested is not None:
        return call(binding, "eq", [tested, value], node)
    return condition(binding, value, node, "WHEN")


MEANS = {"$sum": False, "$avg": True}
"""The aggregates of NUMERICs that are computed so, and whether it is a mean."""


def over_words(function: str, args: Sequence[Scalar]) -> tuple[Composed, tuple[Scalar, ...]] | None:
    """How such an aggregate is made of sums of words, and its operand; None if it is over anything else."""
    if function not in MEANS or len(args) != 1 or args[0].type != NUMERIC or WIDE.get():
        return None
    leaves = _leaves(args[0])
    if leaves is None:
        return None
    known = [leaf.type for leaf in leaves if not (isinstance(leaf, Literal) and leaf.value is None)]
    joint = common_type(tuple(known)) if known else None
    if joint is None or joint.kind is not Kind.DECIMAL:
        return None
    scales = sorted({type_.scale for type_ in known}, reverse=True)
    words = _rebuilt(args[0], lambda leaf: coerce(leaf, joint), joint)
    marks = [_rebuilt(args[0], functools.partial(_mark, scale), INTEGER) for scale in scales[:-1]]

    def build(_: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        total = Column(0, sum_type(joint))
        parts = [Part("sum", (words,)), *(Part("count", (mark,)) for mark in marks)]
        result = _with_scale(total, scales[-1])
        for place, scale in reversed(list(enumerate(scales[:-1], 1))):
            some = Call("gt", (Column(place, BIGINT), Literal(0, BIGINT)), BOOLEAN)
            result = If(some, _with_scale(total, scale), result, NUMERIC)
        if MEANS[function]:
            parts.append(Part("count", (words,)))
            number = Call("nullif", (Column(len(parts) - 1, BIGINT), Literal(0, BIGINT)), BIGINT)
            result = Call("div", (result, number), NUMERIC)
        return tuple(parts), result

    return Composed(build), (words,)


def _with_scale(total: Scalar, scale: int) -> Scalar:
    """A sum of which no more digits behind the point are needed, as a NUMERIC of so many."""
    return coerce(coerce(total, decimal(MAX_DECIMAL_PRECISION, scale)), NUMERIC)


def _leaves(scalar: Scalar) -> list[Scalar] | None:
    """What CASE and COALESCE choose among, as words; None if something is no such."""
    if isinstance(scalar, Literal):
        found = _literal(scalar)
        return None if found is None else [found]
    if isinstance(scalar, If):
        parts: Sequence[Scalar] = (scalar.then, scalar.otherwise)
    elif isinstance(scalar, Call) and scalar.function == "coalesce":
        parts = scalar.args
    elif isinstance(scalar, Call) and scalar.function == "cast" and scalar.args[0].type.is_exact:
        return [scalar.args[0]]
    else:
        return None
    found_parts = [_leaves(part) for part in parts]
    return None if None in found_parts else [leaf for part in found_parts for leaf in part or ()]


def _literal(literal: Literal) -> Literal | None:
    """A constant NUMERIC as a word, if it is one."""
    if literal.value is None:
        return literal
    value = numeric.decode(str(literal.value))
    if not value.is_finite() or value.adjusted() + numeric.shown_scale(value) >= MAX_DECIMAL_PRECISION:
        return None
    scale = numeric.shown_scale(value)
    type_ = decimal(MAX_DECIMAL_PRECISION, scale) if scale else BIGINT
    return Literal(int(Decimal(value).scaleb(scale)), type_)


def _rebuilt(scalar: Scalar, leaf: Callable[[Scalar], Scalar], type_: Type) -> Scalar:
    """The expression of another type, with something else for each of its leaves."""
    if isinstance(scalar, If):
        then, otherwise = (_rebuilt(part, leaf, type_) for part in (scalar.then, scalar.otherwise))
        return If(scalar.condition, then, otherwise, type_)
    if isinstance(scalar, Literal):
        found = _literal(scalar)
        assert found is not None
        return leaf(found) if found.value is not None else Literal(None, type_)
    assert isinstance(scalar, Call)
    first, *rest = scalar.args
    if scalar.function != "coalesce":
        return leaf(first)
    if not rest:
        return _rebuilt(first, leaf, type_)
    others = Call("coalesce", tuple(rest), NUMERIC)
    missing = Call("is_null", (first,), BOOLEAN)
    return If(missing, _rebuilt(others, leaf, type_), _rebuilt(first, leaf, type_), type_)


def _mark(scale: int, leaf: Scalar) -> Scalar:
    """Not NULL where the leaf has a value of this scale."""
    nothing, one = Literal(None, INTEGER), Literal(1, INTEGER)
    if leaf.type.scale != scale:
        return nothing
    return one if isinstance(leaf, Literal) else If(Call("is_null", (leaf,), BOOLEAN), nothing, one, INTEGER)


OWN: Final = frozenset({Kind.BYTEA, Kind.JSONB, Kind.VARBIT, Kind.BIT})
"""Types that ``||`` joins to a quoted constant as one of their own values."""


def as_texts(args: list[Scalar]) -> list[Scalar]:
    """The operands of ``||``: beside a text or a quoted constant, a value of another type as text."""
    if not any(arg.type.is_text or arg.type == UNKNOWN for arg in args):
        return args
    if any(arg.type.kind in OWN for arg in args) and not any(arg.type.is_text for arg in args):
        return args
    return [coerce(arg, TEXT) if castable(arg.type, TEXT) else arg for arg in args]


def concatenated(binding: Binding, scope: Scope, node: exp.Concat) -> Scalar:
    """CONCAT: the arguments as text, one after the other, NULLs left out."""
    empty = Literal("", TEXT)
    texts: list[Scalar] = []
    for part in node.expressions:
        value = shown(settled(binding.expression(scope, part)))
        if not value.type.is_text and not castable(value.type, TEXT):
            binding.wrong(f"cannot cast {value.type} to {TEXT}", part)
        texts.append(call(binding, "coalesce", [coerce(value, TEXT), empty], node))
    result = texts[0]
    for text in texts[1:]:
        result = call(binding, "concat", [result, text], node)
    return result


LONG_CHAIN: Final = 200
"""Operators in a chain that is bound here: shorter ones keep calls of two arguments, which passes know."""
CHAINED: Final = frozenset({exp.Add, exp.Sub, exp.Mul, exp.DPipe})
INTEGER_CHAINS: Final = {"add": "$add_all", "sub": "$sub_all", "mul": "$mul_all"}
DOUBLE_CHAINS: Final = {"add": "$add_doubles", "sub": "$sub_doubles", "mul": "$mul_doubles"}


def is_long_chain(node: exp.Expr) -> bool:
    """Whether at least ``LONG_CHAIN`` operators follow each other on the left."""
    for _ in range(LONG_CHAIN):
        if type(node) not in CHAINED:
            return False
        node = node.this
    return True


def bind_chain(binding: Binding, scope: Scope, node: exp.Expr, most: int) -> Scalar:
    """The scalar of a chain of binary operators, bound from the left; at most ``most`` deep.

    The parser makes ``a + b + c`` a tree as deep as the chain is long, and all code that walks a scalar is
    recursive. So a long run of one operator on one type becomes one call of many arguments, which is
    evaluated from left to right as the tree would be.
    """
    operators: list[exp.Expr] = []
    while type(node) in CHAINED:
        operators.append(node)
        node = node.this
    value, depth = binding.expression(scope, node), 0
    for binary in reversed(operators):
        right = binary.expression
        step = type(binary)(this=known_node(value), expression=right)
        result = binding.expression(scope, step)
        right.parent = binary
        joined = _flattened(result, value)
        depth += joined is result
        if depth > most:
            binding.refuse(f"nesting deeper than {most}", binary)
        value = joined
    return value


def _flattened(result: Scalar, left: Scalar) -> Scalar:
    """Append the second argument of ``result`` to those of ``left``, its first, if both are one operator."""
    if not isinstance(result, Call) or not isinstance(left, Call):
        return result
    if len(result.args) != 2 or result.args[0] is not left or left.type != result.type:
        return result
    many = _function_of_many(result.function, result.type)
    fitting = left.function == many or (left.function == result.function and _is_uniform(left))
    if many is None or not fitting or not _is_uniform(result):
        return result
    return Call(many, (*left.args, result.args[1]), result.type)


def _function_of_many(function: str, type_: Type) -> str | None:
    if type_.is_integer:
        return INTEGER_CHAINS.get(function)
    if type_.kind is Kind.DOUBLE:
        return DOUBLE_CHAINS.get(function)
    return "$concat_all" if function == "concat" and type_.is_text else None


def _is_uniform(call: Call) -> bool:
    """Whether both arguments of an operator have the type of its result."""
    return all(arg.type == call.type or (arg.type.is_text and call.type.is_text) for arg in call.args)
