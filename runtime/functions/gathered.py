"""Aggregates that gather their values, one entry each: joined texts."""

from kpg.runtime.functions import sequences
from kpg.runtime.functions.aggregation import AggregateFunction, Basic, Types, register
from kpg.runtime.functions.registry import Signature
from kpg.runtime.functions.rules import is_unknown
from kpg.runtime.types import TEXT


def _text(types: Types) -> Signature | None:
    if len(types) != 2 or not all(type_.is_text or is_unknown(type_) for type_ in types):
        return None
    return Signature((TEXT, TEXT), TEXT)


register(
    AggregateFunction(
        "string_agg",
        "a text and a separator",
        "The texts in their order, each after the first with its separator before it.",
        {"('a', '+'), (NULL, '+'), ('b', '+')": "'a+b'"},
        _text,
        sequences.natural(sequences.joining),
        Basic(),
        in_order=sequences.joining,
    )
)
