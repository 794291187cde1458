"""Scalar, aggregate, window and set-returning functions of SQL and Datalog, each defined once.

``registry`` holds scalar functions, ``aggregation`` aggregate and window functions, and
``table_functions`` set-returning functions. The other modules register them.
``type_rules`` has the typing rules.
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
    CallForm,
    Composite,
    Direction,
    Hierarchical,
    Invertible,
    Maintenance,
    Part,
    Trend,
    aggregate_names,
    aggregates,
    algorithm_of,
    compute_aggregate,
    exact_variant,
    is_aggregate,
    lookup_aggregate,
    resolve_aggregate,
    specialize,
)
from kpg.runtime.functions.aggregation.window_functions import (
    WindowFunction,
    WindowResult,
    window_function,
    window_functions,
)
from kpg.runtime.functions.casts import is_castable
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
from kpg.runtime.functions.type_rules import common_list_type, common_result_type, common_type

__all__ = [
    "TEXT_WORDS",
    "Accumulable",
    "AccumulatorKind",
    "AggregateFunction",
    "AggregateResolution",
    "Basic",
    "CallForm",
    "Composite",
    "Direction",
    "Hierarchical",
    "Invertible",
    "Maintenance",
    "NullRule",
    "Part",
    "Resolution",
    "ScalarFunction",
    "Trend",
    "WindowFunction",
    "WindowResult",
    "aggregate_names",
    "aggregates",
    "algorithm_of",
    "common_list_type",
    "common_result_type",
    "common_type",
    "compute_aggregate",
    "exact_variant",
    "function_names",
    "functions",
    "implementation",
    "is_aggregate",
    "is_castable",
    "is_function",
    "lookup",
    "lookup_aggregate",
    "resolve",
    "resolve_aggregate",
    "specialize",
    "sum_type",
    "window_function",
    "window_functions",
]

_REGISTERING_MODULES = (
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
