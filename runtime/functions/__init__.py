"""The functions that SQL and Datalog expressions call, each defined once.

``registry`` holds the definitions, the other modules make them; ``rules`` has the typing, ``aggregates``
the aggregate functions.
"""

from kpg.runtime.functions import (
    arithmetic,
    casts,
    comparison,
    conditional,
    datalog,
    dates,
    order,
    rounding,
    text,
)
from kpg.runtime.functions.aggregates import (
    AggregateFunction,
    AggregateKind,
    AggregateResolution,
    aggregates,
    is_aggregate,
    resolve_aggregate,
    sum_type,
)
from kpg.runtime.functions.casts import castable
from kpg.runtime.functions.order import TEXT_WORDS
from kpg.runtime.functions.registry import (
    NullRule,
    Resolution,
    ScalarFunction,
    functions,
    implementation,
    lookup,
    resolve,
)
from kpg.runtime.functions.rules import common_type

__all__ = [
    "TEXT_WORDS",
    "AggregateFunction",
    "AggregateKind",
    "AggregateResolution",
    "NullRule",
    "Resolution",
    "ScalarFunction",
    "aggregates",
    "castable",
    "common_type",
    "functions",
    "implementation",
    "is_aggregate",
    "lookup",
    "resolve",
    "resolve_aggregate",
    "sum_type",
]

_DEFINING = (arithmetic, casts, comparison, conditional, datalog, dates, order, rounding, text)
