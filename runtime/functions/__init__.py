"""Scalar, aggregate, window and set-returning functions of SQL and Datalog, each defined once.

``registry`` holds scalar functions, ``aggregation`` aggregate and window functions, ``table_functions``
set-returning ones; the other modules register them. ``type_rules`` has the typing rules.
"""

from kpg.runtime.functions import arithmetic, casts, comparison, datalog, text
from kpg.runtime.functions import arithmetic as rounding
from kpg.runtime.functions import comparison as conditional
from kpg.runtime.functions import comparison as order
from kpg.runtime.functions.aggregation.builtins import sum_type
from kpg.runtime.functions.aggregation.definition import (
    Accumulable,
    AccumulatorKind,
    AggregateFunction,
    AggregateResolution,
    Basic,
    Composed,
    Direction,
    Folded,
    Form,
    Hierarchical,
    Maintenance,
    Part,
    Trend,
    aggregate_named,
    aggregate_names,
    aggregated,
    aggregates,
    algorithm_of,
    exact,
    is_aggregate,
    resolve_aggregate,
    specialised,
)
from kpg.runtime.functions.aggregation.window_functions import (
    Answer,
    WindowFunction,
    window_function,
    window_functions,
)
from kpg.runtime.functions.casts import castable
from kpg.runtime.functions.comparison import TEXT_WORDS
from kpg.runtime.functions.date_time import dates
from kpg.runtime.functions.registry import (
    NullRule,
    Resolution,
    ScalarFunction,
    function_names,
    functions,
    implementation,
    is_function,
    lookup,
    resolve,
)
from kpg.runtime.functions.type_rules import common_type, listed_type, shown_type

__all__ = [
    "TEXT_WORDS",
    "Accumulable",
    "AccumulatorKind",
    "AggregateFunction",
    "AggregateResolution",
    "Answer",
    "Basic",
    "Composed",
    "Direction",
    "Folded",
    "Form",
    "Hierarchical",
    "Maintenance",
    "NullRule",
    "Part",
    "Resolution",
    "ScalarFunction",
    "Trend",
    "WindowFunction",
    "aggregate_named",
    "aggregate_names",
    "aggregated",
    "aggregates",
    "algorithm_of",
    "castable",
    "common_type",
    "exact",
    "function_names",
    "functions",
    "implementation",
    "is_aggregate",
    "is_function",
    "listed_type",
    "lookup",
    "resolve",
    "resolve_aggregate",
    "shown_type",
    "specialised",
    "sum_type",
    "window_function",
    "window_functions",
]

_DEFINING = (
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
