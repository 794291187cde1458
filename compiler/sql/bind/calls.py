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
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from kpg.compiler.sql.bind.literals import (
    COMPARISONS,
    compare_as_dates,
    convert,
    default_fields_to_text,
    literal_from_quoted,
    loose_type,
    parse_quoted_number,
    round_literal,
)
from kpg.compiler.sql.bind.scope import WIDEN_DECIMALS, Binding, Scope
from kpg.compiler.sql.parse.parameters import RETYPE_STEP, NotConstantError, add_step, slot_of
from kpg.compiler.sql.parse.syntax import allow_only, span_of, whole_span
from kpg.compiler.sql.parse.syntax import scalar_node as known_node
from kpg.compiler.sql.parse.type_names import sql_type
from kpg.runtime.errors import DataError, NotSupportedError, ProgrammingError
from kpg.runtime.functions import (
    AggregateFunction,
    Composite,
    Part,
    Resolution,
    ScalarFunction,
    common_result_type,
    common_type,
    is_castable,
    resolve,
)
from kpg.runtime.functions.aggregation.builtins import sum_type
from kpg.runtime.functions.comparison import equality_key, round_comparands
from kpg.runtime.functions.date_time.dates import interval_lengths
from kpg.runtime.functions.text import display_text
from kpg.runtime.gc_pause import LazyModule
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

if TYPE_CHECKING:
    from kpg.compiler.system import oids
else:
    oids = LazyModule("kpg.compiler.system.oids")

DAY_MICROSECONDS: Final = 86_400_000_000
ARITHMETIC: Final = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
ARITHMETIC_FUNCTIONS: Final = frozenset({*ARITHMETIC, "div", "mod"})
DATETIME_KINDS: Final = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
ASSIGNMENT_CASTS: Final = frozenset(
    {
        (source, target)
        for source in DATETIME_KINDS
        for target in (*DATETIME_KINDS, Kind.TIME)
        if target is not source
    }
    | {(source, Kind.INTERVAL) for source in (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH, Kind.TIME)}
    | {(Kind.INTERVAL, Kind.TIME), (Kind.JSON, Kind.JSONB), (Kind.JSONB, Kind.JSON)}
    | {(Kind.BIT, Kind.VARBIT), (Kind.VARBIT, Kind.BIT), (Kind.INET, Kind.CIDR), (Kind.CIDR, Kind.INET)}
    | {(Kind.TIME, Kind.TIMETZ), (Kind.TIMETZ, Kind.TIME), (Kind.TIMESTAMPTZ, Kind.TIMETZ)}
    | {(Kind.MACADDR, Kind.MACADDR8), (Kind.MACADDR8, Kind.MACADDR)}
) - {(Kind.DATE, Kind.TIME)}
"""Pairs of kinds with an assignment cast, beside those among numbers and among texts."""


def call(binding: Binding, name: str, args: Sequence[Scalar], node: exp.Expr) -> Scalar:
    """Return ``name(args)`` with implicit casts.

    Raises:
        ProgrammingError: No overload fits the argument types; the error has the node's position.
    """
    if name in COMPARISONS:
        if any(arg.type == REGPROC for arg in args):
            args = [_as_routine_name(binding, arg, node) for arg in args]
        args = _compare_as_words(name, compare_as_dates(_parse_quoted_numbers(args)))
    elif name in ARITHMETIC_FUNCTIONS:
        args = _parse_quoted_numbers(args)
    try:
        meaning = resolve(name, tuple(arg.type for arg in args))
    except ProgrammingError as error:
        guessed = _guess_null_types(name, args) or _guess_text_types(binding, name, args, node)
        if guessed is not None:
            return call(binding, name, guessed, node)
        span = span_of(node, binding.source) or whole_span(binding.source)
        placed = ProgrammingError(error.message, span=span, hint=error.hint)
        placed.short, placed.sqlstate = error.short, error.sqlstate
        raise placed from None
    except NotSupportedError as error:
        error.span = span_of(node, binding.source)
        raise
    if meaning.function.extension:
        require_extension(binding, meaning.function, node)
    cast = [coerce_at(binding, arg, type_, node) for arg, type_ in zip(args, meaning.arg_types, strict=True)]
    if meaning.result_type.kind is Kind.DECIMAL and all(isinstance(arg, Literal) for arg in cast):
        meaning, cast = _widen_arithmetic(name, meaning, cast)
    if name in COMPARISONS and meaning.arg_types[0].kind is Kind.INTERVAL:
        cast = list(
            interval_lengths(tuple(cast))
        )  # plans compare words, but unequal intervals can be equally long
    elif name in COMPARISONS or name == "in":
        cast = list(map(equality_key, cast))
    return Call(meaning.function.name, tuple(cast), meaning.result_type)


def require_extension(binding: Binding, function: ScalarFunction | AggregateFunction, node: exp.Expr) -> None:
    """Raise ProgrammingError if a function is of an extension that the database does not have."""
    if function.extension and function.extension not in binding.catalog.extensions:
        binding.fail(
            f"unknown function {function.name}", node, f"CREATE EXTENSION {function.extension} defines it"
        )


def _guess_null_types(name: str, args: Sequence[Scalar]) -> list[Scalar] | None:
    """Return the arguments with a type for NULL literals that the function accepts, else None."""
    if not any(_is_null_literal(arg) for arg in args):
        return None
    known = [arg.type for arg in args if arg.type != UNKNOWN]
    for guess in (
        DOUBLE,
        INTEGER,
        TEXT,
        *map(array, known),
        *(type_.parts[0] for type_ in known if type_.parts),
    ):
        typed = [Literal(None, guess) if _is_null_literal(arg) else arg for arg in args]
        try:
            resolve(name, tuple(arg.type for arg in typed))
        except ProgrammingError:
            continue
        return typed
    return None


def _guess_text_types(
    binding: Binding, name: str, args: Sequence[Scalar], node: exp.Expr
) -> list[Scalar] | None:
    """Return the arguments with a type for quoted strings that the function accepts, else None."""
    places = [place for place, arg in enumerate(args) if arg.type == UNKNOWN]
    if not places or any(_is_null_literal(arg) for arg in args):
        return None
    known = [arg.type for arg in args if arg.type != UNKNOWN]
    if not known and isinstance(node, exp.Binary | exp.Unary):
        return None  # many types have the operator, and none is preferred
    for guess in (*known, DOUBLE, INTEGER, *map(array, known)):
        types = tuple(guess if arg.type == UNKNOWN else arg.type for arg in args)
        try:
            resolve(name, types)
        except ProgrammingError:
            continue
        return [coerce_at(binding, arg, type_, node) for arg, type_ in zip(args, types, strict=True)]
    return None


def _as_routine_name(binding: Binding, arg: Scalar, node: exp.Expr) -> Scalar:
    """Return the name of a routine's OID, since columns of type ``regproc`` hold names."""
    if not arg.type.is_numeric:
        return arg
    if _is_zero_oid(arg):
        return Literal("-", REGPROC)
    return binding.routine_name(arg, node)


def _is_zero_oid(arg: Scalar) -> bool:
    """Return whether a literal is OID 0, which means no function in the catalogs."""
    return isinstance(arg, Literal) and arg.type.is_numeric and slot_of(arg) is None and arg.value == 0


def _is_null_literal(arg: Scalar) -> bool:
    return isinstance(arg, Literal) and arg.type == UNKNOWN and arg.value is None and slot_of(arg) is None


def _compare_as_words(name: str, args: Sequence[Scalar]) -> list[Scalar]:
    """Convert the sides of a comparison to words if one is a NUMERIC and the other is not."""
    if not any(arg.type.kind is Kind.NUMERIC for arg in args):
        return list(args)

    return round_comparands(name, args)


def _widen_arithmetic(name: str, meaning: Resolution, args: list[Scalar]) -> tuple[Resolution, list[Scalar]]:
    """Return arithmetic over constants as NUMERIC if the result has more digits than a DECIMAL."""
    words = [arg.value for arg in args if isinstance(arg, Literal) and isinstance(arg.value, int)]
    if any(isinstance(arg, Literal) and slot_of(arg) is not None for arg in args):
        raise NotConstantError
    if name not in ARITHMETIC or len(words) != len(args):
        return meaning, args
    if abs(ARITHMETIC[name](*words)) < 10**MAX_DECIMAL_PRECISION:
        return meaning, args
    return resolve(name, (NUMERIC,) * len(args)), [coerce(arg, NUMERIC) for arg in args]


def resolve_type(binding: Binding, node: exp.Expr) -> Type:
    """Return the built-in or user-defined type of a name.

    Raises:
        ProgrammingError: There is no such type; the error has the node's position.
    """
    catalog, type_ = binding.catalog, sql_type(node, binding.source)
    with suppress(
        ProgrammingError, NotSupportedError
    ):  # finding the position takes time in proportion to the text, so only the error needs it
        return catalog.resolve_type(type_, None)
    return catalog.resolve_type(type_, span_of(node, binding.source))


def coerce_at(binding: Binding, scalar: Scalar, type_: Type, node: exp.Expr) -> Scalar:
    """Coerce the scalar to ``type_``, reading quoted strings as input of the type.

    Raises:
        ProgrammingError: A quoted string is not valid input; the error has the node's position.
    """
    if isinstance(scalar, Literal) and scalar.type == UNKNOWN and scalar.value is not None:
        moment = special_datetime(binding, scalar, type_)
        if moment is not None:
            return moment
        unlimited = Type(type_.kind) if type_.is_text else type_
        value = literal_from_quoted(scalar, unlimited)
        if value is None:
            binding.fail_invalid_input(str(scalar.value), type_, node)
        slot = slot_of(value)
        return Literal(value.value, type_) if slot is None else add_step(slot, RETYPE_STEP, type_)
    return coerce(scalar, type_)


SPECIAL_DATETIMES: Final = {"now": None, "today": 0, "tomorrow": 1, "yesterday": -1}
"""Special date/time inputs, as days from today; None for the current time."""


def special_datetime(binding: Binding, literal: Literal, type_: Type) -> Literal | None:
    """Return the value of a special date/time input; None for any other text, and in views."""
    if type_.kind not in DATETIME_KINDS or binding.is_view or slot_of(literal) is not None:
        return None
    name = str(literal.value).strip().lower()
    if name not in SPECIAL_DATETIMES:
        return None
    binding.catalog.system_reads.count += 1
    now, days = binding.catalog.now, SPECIAL_DATETIMES[name]
    day = now // DAY_MICROSECONDS + (days or 0)
    if type_.kind is Kind.DATE:
        return Literal(day, type_)
    return Literal(now if days is None else day * DAY_MICROSECONDS, type_)


def coerce_for_assignment(binding: Binding, scalar: Scalar, column: ColumnDef, node: exp.Expr) -> Scalar:
    """Coerce the scalar to a table's column. Constants are rounded and checked at once.

    Raises:
        ProgrammingError: There is no assignment cast between the types.
        DataError: A constant is out of range.
    """
    check_assignable(binding, loose_type(scalar), column, node)
    if isinstance(scalar, Literal) and scalar.type.is_exact and column.type.is_exact:
        value = round_literal(scalar, column.type)
        if value is None:
            message = f'{literal_text(scalar)} is out of range for column "{column.name}" {column.type}'
            raise DataError(message, span=span_of(node, binding.source))
        return value
    if isinstance(scalar, Literal) and scalar.type == UNKNOWN and column.type.is_text:
        return coerce_at(binding, scalar, column.type, node)  # its length is checked when it is stored
    unlimited = coerce_at(binding, scalar, without_length_limit(column.type, scalar.type), node)
    return check_length(name_stored_column(unlimited, column), column.type)


def without_length_limit(type_: Type, source: Type | None = None) -> Type:
    """Return a type without its length limit, which assignment checks, unless all values of a source fit."""
    if type_.kind is Kind.ARRAY and type_.has_length_limit:
        return array(TEXT if type_.parts[0].is_text else Type(Kind.VARBIT))
    if not _is_limited(type_) or type_ == source:
        return type_
    fits = source is not None and source.is_text and type_.is_text and 0 < source.precision <= type_.precision
    return type_ if fits else Type(type_.kind)


def _is_limited(type_: Type) -> bool:
    return type_.precision > 0 and (type_.is_text or type_.kind in BIT_KINDS)


def check_length(value: Scalar, type_: Type) -> Scalar:
    """Check the length of a text or bit string for a type. Assignment, unlike CAST, truncates only blanks."""
    return Call("$of_length", (value,), type_) if _is_limited(type_) and value.type != type_ else value


def name_stored_column(scalar: Scalar, column: ColumnDef) -> Scalar:
    """Set the column that errors of the scalar's cast name."""
    if isinstance(scalar, Call) and scalar.function == "cast":
        return replace(scalar, stored=column.name)
    return scalar


def check_assignable(binding: Binding, source: Type, column: ColumnDef, node: exp.Expr) -> None:
    """Raise ProgrammingError if storing a value in the column needs an explicit CAST."""
    target = column.type
    if source.parts and source.kind is target.kind and len(source.parts) == len(target.parts):
        for part, wanted in zip(source.parts, target.parts, strict=True):
            check_assignable(binding, part, replace(column, type=wanted), node)
        return
    if source.kind in (target.kind, UNKNOWN.kind) or (source.kind, target.kind) in ASSIGNMENT_CASTS:
        return
    if target == TEXT and is_castable(source, target):
        return
    if not (source.is_numeric and target.is_numeric) and not (source.is_text and target.is_text):
        binding.fail(f'column "{column.name}" is {target}, not {source}', node, "add a CAST")


def coerce(scalar: Scalar, type_: Type) -> Scalar:
    """Cast the scalar to ``type_``. A constant with an exact value of that type is converted at once."""
    if scalar.type == type_:
        return scalar
    if isinstance(scalar, Literal):
        folded = convert(scalar, type_)
        if folded is not None:
            return folded
    if scalar.type == UNKNOWN:
        return Literal(None, type_)
    return Call("cast", (scalar,), type_)


def default_to_text(scalar: Scalar) -> Scalar:
    """Give a string or NULL of type UNKNOWN the type TEXT."""
    if isinstance(scalar, Literal) and scalar.type == UNKNOWN:
        slot = slot_of(scalar)
        return Literal(scalar.value, TEXT) if slot is None else add_step(slot, RETYPE_STEP, TEXT)
    return scalar


def round_to_scale(name: str, args: list[Scalar]) -> Scalar | None:
    """Return ``round(decimal, places)`` as a cast to DECIMAL; None for any other call."""
    if name != "round" or len(args) != 2 or args[0].type.kind is not Kind.DECIMAL:
        return None
    type_, places = args[0].type, args[1].value if isinstance(args[1], Literal) else None
    if isinstance(args[1], Literal) and slot_of(args[1]) is not None:
        raise NotConstantError
    if not isinstance(places, int) or places < 0:
        return None
    digits = type_.precision - type_.scale + places + (places < type_.scale)
    return coerce(args[0], decimal(digits, places)) if digits <= MAX_DECIMAL_PRECISION else None


def has_cross_type_comparison(left: Type, right: Type) -> bool:
    """Return whether Postgres compares the two types without a cast: NULLIF then keeps the first type."""
    return left.kind is not right.kind and any(
        test(left) and test(right)
        for test in (
            lambda type_: type_.is_integer,
            lambda type_: type_.is_float,
            lambda type_: type_.kind in DATETIME_KINDS,
        )
    )


def coerce_unknown_operand(binding: Binding, args: Sequence[Scalar], node: exp.Expr) -> list[Scalar]:
    """Coerce an operand of type UNKNOWN to the type of the other operand."""
    left, right = args
    if left.type == UNKNOWN and right.type != UNKNOWN:
        left = coerce_at(binding, left, right.type, node)
    elif right.type == UNKNOWN and left.type != UNKNOWN:
        right = coerce_at(binding, right, left.type, node)
    return [left, right]


def _parse_quoted_numbers(args: Sequence[Scalar]) -> list[Scalar]:
    """Give quoted numbers beside DECIMALs their own scale, so that they are not rounded."""
    known = [arg.type for arg in args if arg.type != UNKNOWN]
    if not any(type_.kind is Kind.DECIMAL for type_ in known) or not all(type_.is_exact for type_ in known):
        return list(args)
    return [parse_quoted_number(arg) or arg for arg in args]


def coerce_to_common(
    binding: Binding,
    args: Sequence[Scalar],
    nodes: Sequence[exp.Expr],
    description: str,
    joint_type: Callable[[tuple[Type, ...]], Type | None] = common_result_type,
) -> list[Scalar]:
    """Coerce the scalars to their common type.

    Raises:
        ProgrammingError: There is no common type; ``description`` names the scalars.
    """
    args = _parse_quoted_numbers(args)
    target = joint_type(tuple(map(loose_type, args)))
    if target is None:
        known = args[0].type
        for arg, node in zip(args, nodes, strict=True):
            joint = common_type((known, loose_type(arg)))
            if joint is None:
                binding.fail(f"{description} {known} and {arg.type} cannot be matched", node, "add a CAST")
            known = joint
        raise AssertionError("some pair has no common type")
    target = default_fields_to_text(target)
    return [coerce_at(binding, arg, target, node) for arg, node in zip(args, nodes, strict=True)]


def check_comparable(binding: Binding, type_: Type, operator_kind: str, node: exp.Expr) -> None:
    """Raise ProgrammingError if a type has no ``equality`` or ``ordering`` operator."""
    kind = type_.parts[0].kind if type_.kind is Kind.ARRAY else type_.kind
    if kind is Kind.JSON:
        binding.fail(
            f"could not identify an {operator_kind} operator for type {oids.type_facts(type_)[0]}", node
        )


def coerce_to_boolean(binding: Binding, scalar: Scalar, node: exp.Expr, clause: str) -> Scalar:
    """Return a BOOLEAN scalar.

    Raises:
        ProgrammingError: It has another type. The error names the clause.
    """
    if scalar.type == UNKNOWN:
        return coerce_at(binding, scalar, BOOLEAN, node)
    if scalar.type != BOOLEAN:
        binding.fail(f"{clause} needs a BOOLEAN, not {scalar.type}", node)
    return scalar


def bind_case(binding: Binding, scope: Scope, node: exp.Expr) -> Scalar:
    """Bind CASE or IF."""
    allow_only(node, binding.source, "this", "ifs", "default", "true", "false")
    if isinstance(node, exp.If):
        branches, operand, default = [node], None, node.args.get("false")
    else:
        branches, operand, default = node.args["ifs"], node.args.get("this"), node.args.get("default")
    scope = scope.without_set_returning("CASE")
    tested = binding.expression(scope, operand) if operand is not None else None
    conditions = [_bind_when(binding, scope, tested, branch.this) for branch in branches]
    values = [binding.expression(scope, branch.args["true"]) for branch in branches]
    values.append(binding.expression(scope, default) if default is not None else Literal(None, UNKNOWN))
    nodes = [*(branch.args["true"] for branch in branches), default if default is not None else node]
    values = coerce_to_common(binding, values, nodes, "CASE branches")
    result = values[-1]
    for test, value in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        result = If(test, value, result, value.type)
    return result


def _bind_when(binding: Binding, scope: Scope, operand: Scalar | None, node: exp.Expr) -> Scalar:
    value = binding.expression(scope, node)
    if operand is not None:
        return call(binding, "eq", [operand, value], node)
    return coerce_to_boolean(binding, value, node, "WHEN")


WORD_AGGREGATES = {"$sum": False, "$avg": True}
"""Aggregates of NUMERIC that :func:`decompose_over_words` decomposes, and whether each is a mean."""


def decompose_over_words(
    function: str, args: Sequence[Scalar]
) -> tuple[Composite, tuple[Scalar, ...]] | None:
    """Return an aggregate of NUMERIC as a composition of sums of words, and its operand.

    Return None unless the operand chooses among DECIMALs by CASE and COALESCE.
    """
    if function not in WORD_AGGREGATES or len(args) != 1 or args[0].type != NUMERIC or WIDEN_DECIMALS.get():
        return None
    leaves = _leaves(args[0])
    if leaves is None:
        return None
    known = [leaf.type for leaf in leaves if not (isinstance(leaf, Literal) and leaf.value is None)]
    joint = common_type(tuple(known)) if known else None
    if joint is None or joint.kind is not Kind.DECIMAL:
        return None
    scales = sorted({type_.scale for type_ in known}, reverse=True)
    words = _map_leaves(args[0], lambda leaf: coerce(leaf, joint), joint)
    marks = [_map_leaves(args[0], functools.partial(_scale_marker, scale), INTEGER) for scale in scales[:-1]]

    def build(_: tuple[Scalar, ...]) -> tuple[tuple[Part, ...], Scalar]:
        total = Column(0, sum_type(joint))
        parts = [Part("sum", (words,)), *(Part("count", (mark,)) for mark in marks)]
        result = _numeric_of_scale(total, scales[-1])
        for place, scale in reversed(list(enumerate(scales[:-1], 1))):
            some = Call("gt", (Column(place, BIGINT), Literal(0, BIGINT)), BOOLEAN)
            result = If(some, _numeric_of_scale(total, scale), result, NUMERIC)
        if WORD_AGGREGATES[function]:
            parts.append(Part("count", (words,)))
            number = Call("nullif", (Column(len(parts) - 1, BIGINT), Literal(0, BIGINT)), BIGINT)
            result = Call("div", (result, number), NUMERIC)
        return tuple(parts), result

    return Composite(build), (words,)


def _numeric_of_scale(total: Scalar, scale: int) -> Scalar:
    """Return a sum as a NUMERIC of the display scale, which loses no digits."""
    return coerce(coerce(total, decimal(MAX_DECIMAL_PRECISION, scale)), NUMERIC)


def _leaves(scalar: Scalar) -> list[Scalar] | None:
    """Return the scalars that CASE and COALESCE choose among, as words; None for any other expression."""
    if isinstance(scalar, Literal):
        found = _decimal_literal(scalar)
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


def _decimal_literal(literal: Literal) -> Literal | None:
    """Return a NUMERIC constant as a DECIMAL or BIGINT; None if it has too many digits."""
    if literal.value is None:
        return literal
    value = numeric.decode(str(literal.value))
    if not value.is_finite() or value.adjusted() + numeric.display_scale(value) >= MAX_DECIMAL_PRECISION:
        return None
    scale = numeric.display_scale(value)
    type_ = decimal(MAX_DECIMAL_PRECISION, scale) if scale else BIGINT
    return Literal(int(Decimal(value).scaleb(scale)), type_)


def _map_leaves(scalar: Scalar, leaf: Callable[[Scalar], Scalar], type_: Type) -> Scalar:
    """Return the expression with each leaf mapped, and with type ``type_``."""
    if isinstance(scalar, If):
        then, otherwise = (_map_leaves(part, leaf, type_) for part in (scalar.then, scalar.otherwise))
        return If(scalar.condition, then, otherwise, type_)
    if isinstance(scalar, Literal):
        found = _decimal_literal(scalar)
        assert found is not None
        return leaf(found) if found.value is not None else Literal(None, type_)
    assert isinstance(scalar, Call)
    first, *rest = scalar.args
    if scalar.function != "coalesce":
        return leaf(first)
    if not rest:
        return _map_leaves(first, leaf, type_)
    others = Call("coalesce", tuple(rest), NUMERIC)
    missing = Call("is_null", (first,), BOOLEAN)
    return If(missing, _map_leaves(others, leaf, type_), _map_leaves(first, leaf, type_), type_)


def _scale_marker(scale: int, leaf: Scalar) -> Scalar:
    """Return a scalar that is not NULL where the leaf has a value of this scale."""
    nothing, one = Literal(None, INTEGER), Literal(1, INTEGER)
    if leaf.type.scale != scale:
        return nothing
    return one if isinstance(leaf, Literal) else If(Call("is_null", (leaf,), BOOLEAN), nothing, one, INTEGER)


CONCATENATED_KINDS: Final = frozenset({Kind.BYTEA, Kind.JSONB, Kind.VARBIT, Kind.BIT})
"""Kinds for which ``||`` reads a quoted constant as a value of the same kind."""


def coerce_concat_operands(args: list[Scalar]) -> list[Scalar]:
    """Cast operands of ``||`` to text beside a text or a quoted constant."""
    if not any(arg.type.is_text or arg.type == UNKNOWN for arg in args):
        return args
    if any(arg.type.kind in CONCATENATED_KINDS for arg in args) and not any(arg.type.is_text for arg in args):
        return args
    return [coerce(arg, TEXT) if is_castable(arg.type, TEXT) else arg for arg in args]


def bind_concat_function(binding: Binding, scope: Scope, node: exp.Concat) -> Scalar:
    """Bind CONCAT, which skips NULLs."""
    empty = Literal("", TEXT)
    texts: list[Scalar] = []
    for part in node.expressions:
        value = display_text(default_to_text(binding.expression(scope, part)))
        if not value.type.is_text and not is_castable(value.type, TEXT):
            binding.fail(f"cannot cast {value.type} to {TEXT}", part)
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
