"""ORDER BY as words: what sorts by int64 as SQL sorts by values."""

from kpg.runtime.functions.registry import (
    Composition,
    NullRule,
    Opcode,
    Overload,
    Rule,
    Signature,
    primitive,
    scalar,
)
from kpg.runtime.scalar import Call, Literal, Scalar
from kpg.runtime.types import BIGINT, INTEGER, Type

TEXT_WORDS = 4
"""How many order words a text has: 28 bytes; longer equal prefixes are compared by ``TopK.exact``."""


def _integer(call: Call, position: int) -> int:
    literal = call.args[position]
    assert isinstance(literal, Literal) and isinstance(literal.value, int)
    return literal.value


def _flags(call: Call) -> int:
    return _integer(call, 1) | _integer(call, 2) << 1


def _text(call: Call) -> Scalar:
    x, descending, nulls_first, part = call.args
    word = Call("$text_word", (x, part), BIGINT)
    return Call("$order", (word, descending, nulls_first), BIGINT)


primitive("$order", Opcode("order", _flags, operands=1))
primitive("$text_word", Opcode("text_word", lambda call: _integer(call, 1), operands=1))


def _rule(text: bool) -> Rule:
    def rule(types: tuple[Type, ...]) -> Signature | None:
        if len(types) != 4 or types[0].is_interned is not text:
            return None
        return Signature((types[0], INTEGER, INTEGER, INTEGER), BIGINT)

    return rule


scalar(
    "order_word",
    "a value and the literals descending (0, 1), nulls first (0, 1) and part (text: 0 to 3, else 0)",
    "A number that orders as ORDER BY does; for text, one for each seven bytes.",
    {},
    Overload(_rule(True), Composition(_text)),
    Overload(_rule(False), Opcode("order", _flags, operands=1)),
    nulls=NullRule.OWN,
)
