"""PG_LSN in operators of numbers."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from kpg.runtime.functions.registry import Memoized, Overload, extend
from kpg.runtime.functions.rules import among
from kpg.runtime.types import NUMERIC, PG_LSN, Kind
from kpg.runtime.values.small import MOST_LSN

OF = frozenset({Kind.PG_LSN})


def _plain(code: Callable[..., object]) -> Memoized:
    return Memoized(lambda call: code)


def moved(place: int, by: Decimal) -> int:
    """The place so many bytes on."""
    if not by.is_finite():
        raise ValueError("cannot add NaN to pg_lsn")
    found = place + int(by.to_integral_value(ROUND_HALF_UP))
    if not 0 <= found < MOST_LSN:
        raise ValueError("pg_lsn out of range")
    return found


for _name, _args, _code in (
    ("add", (PG_LSN, NUMERIC), moved),
    ("add", (NUMERIC, PG_LSN), lambda by, place: moved(place, by)),
    ("sub", (PG_LSN, NUMERIC), lambda place, by: moved(place, -by)),
):
    extend(_name, "PG_LSN", Overload(among(OF, PG_LSN, *_args), _plain(_code)))
extend(
    "sub",
    "PG_LSN",
    Overload(among(OF, NUMERIC, PG_LSN, PG_LSN), Memoized(lambda call: lambda x, y: Decimal(x - y))),
)
