"""Lazy import of rare functions: their modules are imported on first use of a name.

Startup does not pay for functions that a program does not call. A listed module defines exactly the
functions listed under it.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Final

from kpg.runtime.types import BIT_KINDS, Kind, Type

SCALARS: Final[Mapping[str, str]] = {
    "arrays": """array_append array_prepend array_cat cardinality array_length array_upper array_lower
        array_ndims array_dims array_position array_positions array_remove array_replace array_to_string
        string_to_array trim_array num_nulls num_nonnulls""",
    "binary_strings": """encode decode get_byte set_byte get_bit set_bit bit_count convert_to
        convert_from convert crc32 crc32c sha224 sha256 sha384 sha512""",
    "networks": """host masklen family netmask hostmask broadcast network set_masklen abbrev
        inet_same_family inet_merge contained_or_equal contains_or_equals macaddr8_set7bit""",
    "ranges": """int4range int8range numrange daterange tsrange tstzrange int4multirange int8multirange
        nummultirange datemultirange tsmultirange tstzmultirange isempty lower_inc upper_inc lower_inf
        upper_inf not_right_of not_left_of adjacent_to range_merge multirange""",
    "json_constructors": """to_json to_jsonb json_build_array jsonb_build_array json_build_object
        jsonb_build_object json_object jsonb_object json_typeof jsonb_typeof json_array_length
        jsonb_array_length json_strip_nulls jsonb_strip_nulls array_to_json row_to_json jsonb_pretty
        json_object_of json_array_of""",
    "json_operators": """is_json json_extract_path json_extract_path_text jsonb_extract_path
        jsonb_extract_path_text array_fill parse_ident pg_size_bytes pg_size_pretty jsonb_set_lax
        jsonb_set jsonb_insert json_get json_get_text json_get_path json_get_path_text contains_all
        contained_in overlaps_with key_exists any_key_exists all_keys_exist jsonb_concat jsonb_delete
        json_delete_path""",
    "type_support": "enum_first enum_last enum_range pg_input_is_valid",
    "json_path": """jsonb_path_exists jsonb_path_match jsonb_path_query_array jsonb_path_query_first
        path_exists path_matches jsonpath""",
    "date_time.operations": """timezone age date_bin make_time make_timestamp make_timestamptz
        make_interval justify_hours justify_days justify_interval isfinite overlaps date_add
        date_subtract date_part extract_century extract_decade extract_isodow extract_isoyear
        extract_julian extract_microseconds extract_millennium extract_milliseconds extract_timezone
        extract_timezone_hour extract_timezone_minute""",
    "to_char_numbers": "to_char to_date to_timestamp to_number",
    "mathematics": """gcd lcm factorial whole_quotient width_bucket scale min_scale trim_scale
        bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right sin cos tan cot asin acos
        atan atan2 sind cosd tand cotd asind acosd atand atan2d sinh cosh tanh asinh acosh atanh degrees
        radians pi erf erfc""",
    "regex_functions": """regexp_like regexp_match regexp_split_to_array regexp_replace regexp_count
        regexp_instr regexp_substr similar_to regexp_imatch similar_substring""",
    "strings": """translate overlay chr ascii octet_length bit_length btrim quote_literal quote_ident
        quote_nullable to_hex format unistr normalize is_normalized""",
}
"""Names of scalar functions by module."""

PRIMITIVES: Final[Mapping[str, str]] = {
    "arrays": """$array $element $slice $slice_marks $any_eq $any_ne $any_lt $any_le $any_gt $any_ge
        $all_eq $all_ne $all_lt $all_le $all_gt $all_ge $with_element $with_slice $with_member""",
    "mathematics": "$random $random_uuid $drawn $limit $offset",
    "aggregation.exact_sums": """$word $mod $wide_sum $wide_mean $mean $spread_samp_root
        $spread_samp_square $spread_pop_root $spread_pop_square""",
    "date_time.to_char_moments": "$in_style $read_in_style $by_template $east",
    "type_support": "$row $whole_row $row_field $row_is_null $row_is_not_null",
}
"""Names of the building blocks that binders call, by module."""

ROW_FUNCTIONS: Final[Mapping[str, str]] = {
    "set_returning_functions": """unnest generate_subscripts string_to_table regexp_split_to_table
        regexp_matches json_array_elements json_array_elements_text json_each json_each_text
        json_object_keys jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text
        jsonb_object_keys json_to_record json_to_recordset jsonb_to_record jsonb_to_recordset
        json_populate_record json_populate_recordset jsonb_populate_record jsonb_populate_recordset
        $json_populate_record $json_populate_recordset $jsonb_populate_record $jsonb_populate_recordset
        generate_series""",
    "json_path": "jsonb_path_query",
    "type_support": "pg_input_error_info",
}
"""Names of set-returning functions by module."""

AGGREGATES: Final[Mapping[str, str]] = {
    "aggregation.holistic_aggregates": """string_agg array_agg list json_agg jsonb_agg json_object_agg
        jsonb_object_agg first last arg_min min_by arg_max max_by product percentile_cont
        percentile_disc mode median quantile_cont rank dense_rank percent_rank cume_dist top_k
        distinct_values distinct_count""",
    "json_constructors": """json_agg_strict jsonb_agg_strict json_object_agg_strict
        jsonb_object_agg_strict json_object_agg_unique jsonb_object_agg_unique
        json_object_agg_unique_strict jsonb_object_agg_unique_strict""",
    "aggregation.exact_sums": """$exact_sum $exact_avg $wide_avg $exact_stddev_samp $exact_stddev_pop
        $exact_var_samp $exact_var_pop $stddev_samp $stddev_pop $var_samp $var_pop""",
    "ranges": "range_agg range_intersect_agg $bits_and $bits_or $bits_xor",
    "aggregation.variance": """$comoment stddev stddev_samp stddev_pop variance var_samp var_pop corr
        covar_pop covar_samp regr_count regr_avgx regr_avgy regr_sxx regr_syy regr_sxy regr_slope
        regr_intercept regr_r2""",
}
"""Names of aggregates by module."""

TYPE_MODULES: Final[Mapping[Kind, str]] = {
    **dict.fromkeys(BIT_KINDS, "binary_strings"),
    Kind.BYTEA: "binary_strings",
    Kind.TIMETZ: "date_time.operations",
    Kind.INET: "networks",
    Kind.CIDR: "networks",
    Kind.MACADDR: "networks",
    Kind.MACADDR8: "networks",
    Kind.RANGE: "ranges",
    Kind.MULTIRANGE: "ranges",
    Kind.PG_LSN: "mathematics",
}
"""Modules with the overloads of functions and operators for a kind of type."""
POPULATE_FUNCTIONS: Final = frozenset(
    {"json_populate_record", "json_populate_recordset", "jsonb_populate_record", "jsonb_populate_recordset"}
)
"""Set-returning functions whose result columns are the fields of their row argument.

In a select list they return whole rows.
"""
COLUMN_DEFINITION_FUNCTIONS: Final = frozenset(
    {"json_to_record", "json_to_recordset", "jsonb_to_record", "jsonb_to_recordset"}
)
"""Set-returning functions whose result columns come from the column definition list of the call."""
_SCALARS: Final = {name: module for module, names in SCALARS.items() for name in names.split()}
_PRIMITIVES: Final = {name: module for module, names in PRIMITIVES.items() for name in names.split()}
_ROWS: Final = {name: module for module, names in ROW_FUNCTIONS.items() for name in names.split()}
_AGGREGATES: Final = {name: module for module, names in AGGREGATES.items() for name in names.split()}


def scalar_names() -> frozenset[str]:
    """Return the names of all lazily defined scalar functions."""
    return frozenset(_SCALARS)


def row_function_names() -> frozenset[str]:
    """Return the names of all lazily defined set-returning functions."""
    return frozenset(_ROWS)


def aggregate_names() -> frozenset[str]:
    """Return the names of all lazily defined aggregates."""
    return frozenset(_AGGREGATES)


def load_scalar(name: str) -> bool:
    """Import the module of a scalar function. Return False if no listed module defines it."""
    return _load_module(_SCALARS.get(name))


def load_primitive(name: str) -> bool:
    """Import the module of a building block. Return False if no listed module defines it."""
    return _load_module(_PRIMITIVES.get(name))


def load_row_function(name: str) -> bool:
    """Import the module of a set-returning function. Return False if no listed module defines it."""
    return _load_module(_ROWS.get(name))


def load_aggregate(name: str) -> bool:
    """Import the module of an aggregate. Return False if no listed module defines it."""
    return _load_module(_AGGREGATES.get(name))


def load_types(types: tuple[Type, ...]) -> None:
    """Import the modules that define overloads for these types."""
    for type_ in types:
        module = TYPE_MODULES.get(type_.kind)
        if module is not None:
            _load_module(module)


def load_all() -> None:
    """Import all modules that define functions or aggregates."""
    for module in (*SCALARS, *PRIMITIVES, *ROW_FUNCTIONS, *AGGREGATES, *TYPE_MODULES.values()):
        _load_module(module)


def import_every_module() -> None:
    """Import every module of the package.

    A plan from a checkpoint may need a building block that no name above lists, before any compilation.
    """
    package = import_module("kpg.runtime.functions")
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)


def _load_module(module: str | None) -> bool:
    if module is None:
        return False
    import_module(f"kpg.runtime.functions.{module}")
    return True
