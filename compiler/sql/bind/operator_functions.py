"""Postgres' operator functions such as ``int4pl(a, b)``, mapped to operators and other expressions.

Tables spell a signature ``name:type`` if both operands have the type, else ``name:left,right``. An omitted
type accepts any; a left ``-`` marks a prefix operator. Calls with VARIADIC are here too.
"""

import functools
from typing import Final

from sqlglot import exp

from kpg.compiler.sql.parse.reader import parse_tree
from kpg.compiler.sql.parse.syntax import transform_tree
from kpg.compiler.sql.parse.tokenizer import tokenize

OPERATORS: Final = {
    "!~": "bpcharregexne:bpchar,text nameregexne:name,text textregexne:text",
    "!~*": "bpcharicregexne:bpchar,text nameicregexne:name,text texticregexne:text",
    "!~~": "bpcharnlike:bpchar,text byteanlike:bytea namenlike:name,text textnlike:text",
    "!~~*": "bpcharicnlike:bpchar,text nameicnlike:name,text texticnlike:text",
    "#": "bitxor:bit int2xor:int2 int4xor:int4 int8xor:int8",
    "#-": "jsonb_delete_path:jsonb,",
    "%": "int2mod:int2 int4mod:int4 int8mod:int8 numeric_mod:numeric",
    "&": """
        bitand:bit inetand:inet int2and:int2 int4and:int4 int8and:int8 macaddr8_and:macaddr8
        macaddr_and:macaddr
    """,
    "&&": """
        arrayoverlap multirange_overlaps_multirange multirange_overlaps_range network_overlap:inet
        range_overlaps range_overlaps_multirange
    """,
    "&<": """
        multirange_overleft_multirange multirange_overleft_range range_overleft range_overleft_multirange
    """,
    "&>": """
        multirange_overright_multirange multirange_overright_range range_overright range_overright_multirange
    """,
    "*": """
        float48mul:float4,float8 float4mul:float4 float84mul:float8,float4 float8mul:float8 int24mul:int2,int4
        int28mul:int2,int8 int2mul:int2 int42mul:int4,int2 int48mul:int4,int8 int4mul:int4 int82mul:int8,int2
        int84mul:int8,int4 int8mul:int8 interval_mul:interval,float8 mul_d_interval:float8,interval
        multirange_intersect numeric_mul:numeric range_intersect
    """,
    "+": """
        date_pl_interval:date,interval date_pli:date,int4 datetime_pl:date,time datetimetz_pl:date,timetz
        float48pl:float4,float8 float4pl:float4 float4up:-,float4 float84pl:float8,float4 float8pl:float8
        float8up:-,float8 inetpl:inet,int8 int24pl:int2,int4 int28pl:int2,int8 int2pl:int2 int2up:-,int2
        int42pl:int4,int2 int48pl:int4,int8 int4pl:int4 int4up:-,int4 int82pl:int8,int2 int84pl:int8,int4
        int8pl:int8 int8pl_inet:int8,inet int8up:-,int8 integer_pl_date:int4,date interval_pl:interval
        interval_pl_date:interval,date interval_pl_time:interval,time interval_pl_timestamp:interval,timestamp
        interval_pl_timestamptz:interval,timestamptz interval_pl_timetz:interval,timetz multirange_union
        numeric_add:numeric numeric_pl_pg_lsn:numeric,pg_lsn numeric_uplus:-,numeric pg_lsn_pli:pg_lsn,numeric
        range_union time_pl_interval:time,interval timedate_pl:time,date
        timestamp_pl_interval:timestamp,interval timestamptz_pl_interval:timestamptz,interval
        timetz_pl_interval:timetz,interval timetzdate_pl:timetz,date
    """,
    "-": """
        date_mi:date date_mi_interval:date,interval date_mii:date,int4 float48mi:float4,float8 float4mi:float4
        float4um:-,float4 float84mi:float8,float4 float8mi:float8 float8um:-,float8 inetmi:inet
        inetmi_int8:inet,int8 int24mi:int2,int4 int28mi:int2,int8 int2mi:int2 int2um:-,int2 int42mi:int4,int2
        int48mi:int4,int8 int4mi:int4 int4um:-,int4 int82mi:int8,int2 int84mi:int8,int4 int8mi:int8
        int8um:-,int8 interval_mi:interval interval_um:-,interval multirange_minus numeric_sub:numeric
        numeric_uminus:-,numeric pg_catalog.jsonb_delete:jsonb,text pg_lsn_mi:pg_lsn pg_lsn_mii:pg_lsn,numeric
        range_minus time_mi_interval:time,interval time_mi_time:time timestamp_mi:timestamp
        timestamp_mi_interval:timestamp,interval timestamptz_mi:timestamptz
        timestamptz_mi_interval:timestamptz,interval timetz_mi_interval:timetz,interval
    """,
    "->": """
        json_array_element:json,int4 json_object_field:json,text jsonb_array_element:jsonb,int4
        jsonb_object_field:jsonb,text
    """,
    "->>": """
        json_array_element_text:json,int4 json_object_field_text:json,text jsonb_array_element_text:jsonb,int4
        jsonb_object_field_text:jsonb,text
    """,
    "-|-": """
        multirange_adjacent_multirange multirange_adjacent_range range_adjacent range_adjacent_multirange
    """,
    "/": """
        float48div:float4,float8 float4div:float4 float84div:float8,float4 float8div:float8 int24div:int2,int4
        int28div:int2,int8 int2div:int2 int42div:int4,int2 int48div:int4,int8 int4div:int4 int82div:int8,int2
        int84div:int8,int4 int8div:int8 interval_div:interval,float8 numeric_div:numeric
    """,
    "<": """
        array_lt bitlt:bit boollt:bool bpchar_pattern_lt:bpchar bpcharlt:bpchar bytealt:bytea charlt:char
        date_lt:date date_lt_timestamp:date,timestamp date_lt_timestamptz:date,timestamptz enum_lt
        float48lt:float4,float8 float4lt:float4 float84lt:float8,float4 float8lt:float8 int24lt:int2,int4
        int28lt:int2,int8 int2lt:int2 int42lt:int4,int2 int48lt:int4,int8 int4lt:int4 int82lt:int8,int2
        int84lt:int8,int4 int8lt:int8 interval_lt:interval jsonb_lt:jsonb macaddr8_lt:macaddr8
        macaddr_lt:macaddr multirange_lt namelt:name namelttext:name,text network_lt:inet numeric_lt:numeric
        oidlt:oid pg_lsn_lt:pg_lsn range_lt record_lt text_lt:text text_pattern_lt:text textltname:text,name
        time_lt:time timestamp_lt:timestamp timestamp_lt_date:timestamp,date
        timestamp_lt_timestamptz:timestamp,timestamptz timestamptz_lt:timestamptz
        timestamptz_lt_date:timestamptz,date timestamptz_lt_timestamp:timestamptz,timestamp timetz_lt:timetz
        uuid_lt:uuid varbitlt:varbit
    """,
    "<<": """
        bitshiftleft:bit,int4 int2shl:int2,int4 int4shl:int4 int8shl:int8,int4 multirange_before_multirange
        multirange_before_range network_sub:inet range_before range_before_multirange
    """,
    "<<=": "network_subeq:inet",
    "<=": """
        array_le bitle:bit boolle:bool bpchar_pattern_le:bpchar bpcharle:bpchar byteale:bytea charle:char
        date_le:date date_le_timestamp:date,timestamp date_le_timestamptz:date,timestamptz enum_le
        float48le:float4,float8 float4le:float4 float84le:float8,float4 float8le:float8 int24le:int2,int4
        int28le:int2,int8 int2le:int2 int42le:int4,int2 int48le:int4,int8 int4le:int4 int82le:int8,int2
        int84le:int8,int4 int8le:int8 interval_le:interval jsonb_le:jsonb macaddr8_le:macaddr8
        macaddr_le:macaddr multirange_le namele:name nameletext:name,text network_le:inet numeric_le:numeric
        oidle:oid pg_lsn_le:pg_lsn range_le record_le text_le:text text_pattern_le:text textlename:text,name
        time_le:time timestamp_le:timestamp timestamp_le_date:timestamp,date
        timestamp_le_timestamptz:timestamp,timestamptz timestamptz_le:timestamptz
        timestamptz_le_date:timestamptz,date timestamptz_le_timestamp:timestamptz,timestamp timetz_le:timetz
        uuid_le:uuid varbitle:varbit
    """,
    "<>": """
        array_ne bitne:bit boolne:bool bpcharne:bpchar byteane:bytea charne:char date_ne:date
        date_ne_timestamp:date,timestamp date_ne_timestamptz:date,timestamptz enum_ne float48ne:float4,float8
        float4ne:float4 float84ne:float8,float4 float8ne:float8 int24ne:int2,int4 int28ne:int2,int8
        int2ne:int2 int42ne:int4,int2 int48ne:int4,int8 int4ne:int4 int82ne:int8,int2 int84ne:int8,int4
        int8ne:int8 interval_ne:interval jsonb_ne:jsonb macaddr8_ne:macaddr8 macaddr_ne:macaddr multirange_ne
        namene:name namenetext:name,text network_ne:inet numeric_ne:numeric oidne:oid pg_lsn_ne:pg_lsn
        range_ne record_ne textne:text textnename:text,name time_ne:time timestamp_ne:timestamp
        timestamp_ne_date:timestamp,date timestamp_ne_timestamptz:timestamp,timestamptz
        timestamptz_ne:timestamptz timestamptz_ne_date:timestamptz,date
        timestamptz_ne_timestamp:timestamptz,timestamp timetz_ne:timetz uuid_ne:uuid varbitne:varbit
    """,
    "<@": """
        arraycontained elem_contained_by_multirange elem_contained_by_range jsonb_contained:jsonb
        multirange_contained_by_multirange multirange_contained_by_range range_contained_by
        range_contained_by_multirange
    """,
    "=": """
        array_eq biteq:bit booleq:bool bpchareq:bpchar byteaeq:bytea chareq:char date_eq:date
        date_eq_timestamp:date,timestamp date_eq_timestamptz:date,timestamptz enum_eq float48eq:float4,float8
        float4eq:float4 float84eq:float8,float4 float8eq:float8 int24eq:int2,int4 int28eq:int2,int8
        int2eq:int2 int42eq:int4,int2 int48eq:int4,int8 int4eq:int4 int82eq:int8,int2 int84eq:int8,int4
        int8eq:int8 interval_eq:interval jsonb_eq:jsonb macaddr8_eq:macaddr8 macaddr_eq:macaddr multirange_eq
        nameeq:name nameeqtext:name,text network_eq:inet numeric_eq:numeric oideq:oid pg_lsn_eq:pg_lsn
        range_eq record_eq texteq:text texteqname:text,name time_eq:time timestamp_eq:timestamp
        timestamp_eq_date:timestamp,date timestamp_eq_timestamptz:timestamp,timestamptz
        timestamptz_eq:timestamptz timestamptz_eq_date:timestamptz,date
        timestamptz_eq_timestamp:timestamptz,timestamp timetz_eq:timetz uuid_eq:uuid varbiteq:varbit
    """,
    ">": """
        array_gt bitgt:bit boolgt:bool bpchar_pattern_gt:bpchar bpchargt:bpchar byteagt:bytea chargt:char
        date_gt:date date_gt_timestamp:date,timestamp date_gt_timestamptz:date,timestamptz enum_gt
        float48gt:float4,float8 float4gt:float4 float84gt:float8,float4 float8gt:float8 int24gt:int2,int4
        int28gt:int2,int8 int2gt:int2 int42gt:int4,int2 int48gt:int4,int8 int4gt:int4 int82gt:int8,int2
        int84gt:int8,int4 int8gt:int8 interval_gt:interval jsonb_gt:jsonb macaddr8_gt:macaddr8
        macaddr_gt:macaddr multirange_gt namegt:name namegttext:name,text network_gt:inet numeric_gt:numeric
        oidgt:oid pg_lsn_gt:pg_lsn range_gt record_gt text_gt:text text_pattern_gt:text textgtname:text,name
        time_gt:time timestamp_gt:timestamp timestamp_gt_date:timestamp,date
        timestamp_gt_timestamptz:timestamp,timestamptz timestamptz_gt:timestamptz
        timestamptz_gt_date:timestamptz,date timestamptz_gt_timestamp:timestamptz,timestamp timetz_gt:timetz
        uuid_gt:uuid varbitgt:varbit
    """,
    ">=": """
        array_ge bitge:bit boolge:bool bpchar_pattern_ge:bpchar bpcharge:bpchar byteage:bytea charge:char
        date_ge:date date_ge_timestamp:date,timestamp date_ge_timestamptz:date,timestamptz enum_ge
        float48ge:float4,float8 float4ge:float4 float84ge:float8,float4 float8ge:float8 int24ge:int2,int4
        int28ge:int2,int8 int2ge:int2 int42ge:int4,int2 int48ge:int4,int8 int4ge:int4 int82ge:int8,int2
        int84ge:int8,int4 int8ge:int8 interval_ge:interval jsonb_ge:jsonb macaddr8_ge:macaddr8
        macaddr_ge:macaddr multirange_ge namege:name namegetext:name,text network_ge:inet numeric_ge:numeric
        oidge:oid pg_lsn_ge:pg_lsn range_ge record_ge text_ge:text text_pattern_ge:text textgename:text,name
        time_ge:time timestamp_ge:timestamp timestamp_ge_date:timestamp,date
        timestamp_ge_timestamptz:timestamp,timestamptz timestamptz_ge:timestamptz
        timestamptz_ge_date:timestamptz,date timestamptz_ge_timestamp:timestamptz,timestamp timetz_ge:timetz
        uuid_ge:uuid varbitge:varbit
    """,
    ">>": """
        bitshiftright:bit,int4 int2shr:int2,int4 int4shr:int4 int8shr:int8,int4 multirange_after_multirange
        multirange_after_range network_sup:inet range_after range_after_multirange
    """,
    ">>=": "network_supeq:inet",
    "?": "jsonb_exists:jsonb,text",
    "?&": "jsonb_exists_all:jsonb,",
    "?|": "jsonb_exists_any:jsonb,",
    "@": """
        float4abs:-,float4 float8abs:-,float8 int2abs:-,int2 int4abs:-,int4 int8abs:-,int8
        numeric_abs:-,numeric
    """,
    "@>": """
        arraycontains jsonb_contains:jsonb multirange_contains_elem multirange_contains_multirange
        multirange_contains_range range_contains range_contains_elem range_contains_multirange
    """,
    "@?": "jsonb_path_exists_opr:jsonb,jsonpath",
    "@@": "jsonb_path_match_opr:jsonb,jsonpath",
    "^": "dpow:float8 numeric_power:numeric",
    "|": "bitor:bit inetor:inet int2or:int2 int4or:int4 int8or:int8 macaddr8_or:macaddr8 macaddr_or:macaddr",
    "|/": "dsqrt:-,float8",
    "||": "anytextcat:,text bitcat:varbit byteacat:bytea textanycat:text, textcat:text",
    "||/": "dcbrt:-,float8",
    "~": """
        bitnot:-,bit bpcharregexeq:bpchar,text inetnot:-,inet int2not:-,int2 int4not:-,int4 int8not:-,int8
        macaddr8_not:-,macaddr8 macaddr_not:-,macaddr nameregexeq:name,text textregexeq:text
    """,
    "~*": "bpcharicregexeq:bpchar,text nameicregexeq:name,text texticregexeq:text",
    "~~": "bpcharlike:bpchar,text bytealike:bytea namelike:name,text textlike:text",
    "~~*": "bpchariclike:bpchar,text nameiclike:name,text texticlike:text",
}
"""Operator functions by operator, with their operand types."""
COMPARATORS: Final = """
    bitcmp:bit bpcharcmp:bpchar btarraycmp btboolcmp:bool btbpchar_pattern_cmp:bpchar btcharcmp:"char"
    btfloat48cmp:float4,float8 btfloat4cmp:float4 btfloat84cmp:float8,float4 btfloat8cmp:float8
    btint24cmp:int2,int4 btint28cmp:int2,int8 btint2cmp:int2 btint42cmp:int4,int2 btint48cmp:int4,int8
    btint4cmp:int4 btint82cmp:int8,int2 btint84cmp:int8,int4 btint8cmp:int8 btnamecmp:name
    btnametextcmp:name,text btoidcmp:oid btrecordcmp bttext_pattern_cmp:text bttextcmp:text
    bttextnamecmp:text,name byteacmp:bytea date_cmp:date enum_cmp interval_cmp:interval jsonb_cmp:jsonb
    macaddr8_cmp:macaddr8 macaddr_cmp:macaddr multirange_cmp network_cmp:inet numeric_cmp:numeric
    pg_lsn_cmp:pg_lsn range_cmp time_cmp:time timestamp_cmp:timestamp timestamptz_cmp:timestamptz
    timetz_cmp:timetz uuid_cmp:uuid varbitcmp:varbit
"""
"""Functions that return -1, 0 or 1."""
LARGER_SMALLER: Final = """
    array_larger array_smaller bpchar_larger:bpchar bpchar_smaller:bpchar date_larger:date date_smaller:date
    enum_larger enum_smaller float4larger:float4 float4smaller:float4 float8larger:float8 float8smaller:float8
    int2larger:int2 int2smaller:int2 int4larger:int4 int4smaller:int4 int8larger:int8 int8smaller:int8
    interval_larger:interval interval_smaller:interval network_larger:inet network_smaller:inet
    numeric_larger:numeric numeric_smaller:numeric oidlarger:oid oidsmaller:oid pg_lsn_larger:pg_lsn
    pg_lsn_smaller:pg_lsn text_larger:text text_smaller:text time_larger:time time_smaller:time
    timestamp_larger:timestamp timestamp_smaller:timestamp timestamptz_larger:timestamptz
    timestamptz_smaller:timestamptz timetz_larger:timetz timetz_smaller:timetz
"""
"""Functions that return the larger or the smaller of two values."""


PLACEHOLDERS: Final = ("_1", "_2", "_3")
"""Placeholders of the arguments in templates."""
TEMPLATES: Final = {
    "booland_statefunc": "_1::bool AND _2::bool",
    "boolor_statefunc": "_1::bool OR _2::bool",
    "boolnot": "NOT _1::bool",
    "daterange_subdiff": "(_1::date - _2::date)::float8",
    "dcbrt": "cbrt(_1::float8)",
    "dexp": "exp(_1::float8)",
    "dlog1": "ln(_1::float8)",
    "dlog10": "log(_1::float8)",
    "dpow": "power(_1::float8, _2::float8)",
    "dround": "round(_1::float8)",
    "dsqrt": "sqrt(_1::float8)",
    "dtrunc": "trunc(_1::float8)",
    "float4abs": "abs(_1::float4)",
    "float4up": "_1::float4",
    "float8abs": "abs(_1::float8)",
    "float8up": "_1::float8",
    "int2abs": "abs(_1::int2)",
    "int2up": "_1::int2",
    "int4abs": "abs(_1::int4)",
    "int4inc": "_1::int4 + 1",
    "int4range_subdiff": "(_1::int4 - _2::int4)::float8",
    "int4up": "_1::int4",
    "int8abs": "abs(_1::int8)",
    "int8dec": "_1::int8 - 1",
    "int8inc": "_1::int8 + 1",
    "int8range_subdiff": "(_1::int8 - _2::int8)::float8",
    "int8up": "_1::int8",
    "json_array_element": "_1::json -> _2::int",
    "json_array_element_text": "_1::json ->> _2::int",
    "jsonb_array_element": "_1::jsonb -> _2::int",
    "jsonb_array_element_text": "_1::jsonb ->> _2::int",
    "json_object_field": "_1::json -> _2::text",
    "json_object_field_text": "_1::json ->> _2::text",
    "jsonb_object_field": "_1::jsonb -> _2::text",
    "jsonb_object_field_text": "_1::jsonb ->> _2::text",
    "like": "_1 LIKE _2",
    "notlike": "_1 NOT LIKE _2",
    "numeric_abs": "abs(_1::numeric)",
    "numeric_div_trunc": "div(_1::numeric, _2::numeric)",
    "numeric_exp": "exp(_1::numeric)",
    "numeric_inc": "_1::numeric + 1",
    "numeric_ln": "ln(_1::numeric)",
    "numeric_log": "log(_1::numeric, _2::numeric)",
    "numeric_power": "power(_1::numeric, _2::numeric)",
    "numeric_sqrt": "sqrt(_1::numeric)",
    "numeric_uplus": "_1::numeric",
    "numrange_subdiff": "(_1::numeric - _2::numeric)::float8",
    "textlen": "length(_1::text)",
    "tsrange_subdiff": "extract(epoch FROM _1::timestamp - _2::timestamp)::float8",
    "tstzrange_subdiff": "extract(epoch FROM _1::timestamptz - _2::timestamptz)::float8",
}
"""Expressions of functions that are not operators."""


def expand_operator_function(node: exp.Anonymous) -> exp.Expr | None:
    """Return the expression of an operator function's call; None for any other call."""
    name, args = str(node.this).lower(), node.expressions
    template = _templates().get(name)
    if template is None or any(
        f"_{place}" in template for place in range(len(args) + 1, len(PLACEHOLDERS) + 1)
    ):
        return None
    if len(args) > len(PLACEHOLDERS) or any(place not in template for place in PLACEHOLDERS[: len(args)]):
        return None
    found = _parse_template(template).copy()
    given = dict(zip(PLACEHOLDERS, args, strict=False))

    def substitute(part: exp.Expr) -> exp.Expr:
        return exp.Paren(this=given[part.name].copy()) if _is_placeholder(part) else part

    return transform_tree(found, substitute)


def _is_placeholder(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name in PLACEHOLDERS and not node.table


@functools.cache
def _parse_template(template: str) -> exp.Expr:
    text = f"SELECT ({template})"
    found: exp.Expr = parse_tree(tokenize(text), text).expressions[0]
    return found


@functools.cache
def _templates() -> dict[str, str]:
    found = dict(TEMPLATES)
    for sign, entries in OPERATORS.items():
        for name, left, right in map(_parse_signature, entries.split()):
            found[name] = f"{sign} {right}" if left is None else f"{left} {sign} {right}"
    for name, left, right in map(_parse_signature, COMPARATORS.split()):
        found[name] = (
            f"CASE WHEN {left} < {right} THEN -1"
            f" WHEN {left} = {right} THEN 0 WHEN {left} > {right} THEN 1 END"
        )
    for name, left, right in map(_parse_signature, LARGER_SMALLER.split()):
        sign = ">" if name.endswith("larger") else "<"
        found[name] = f"CASE WHEN {left} {sign} {right} THEN {left} WHEN {left} IS NOT NULL THEN {right} END"
        found[name] = f"CASE WHEN {right} IS NOT NULL THEN {found[name]} END"
    return found


def _parse_signature(entry: str) -> tuple[str, str | None, str]:
    """Return a name and its operands as template text; the left one is None for a prefix operator."""
    name, _, types = entry.partition(":")
    left, comma, right = types.partition(",")
    right = right if comma else left
    if left == "-":
        return name, None, f"_1::{right}" if right else "_1"
    return name, f"_1::{left}" if left else "_1", f"_2::{right}" if right else "_2"


def expand_variadic(node: exp.Expr) -> exp.Expr | None:
    """Return a call with VARIADIC as an equivalent expression; None for any other call.

    An array with literal elements becomes separate arguments. CONCAT and its variants have array forms.
    """
    args = node.expressions
    if not args or not isinstance(args[-1], exp.Variadic):
        return None
    array: exp.Expr = args[-1].this
    if isinstance(array, exp.Array) and not any(isinstance(one, exp.Query) for one in array.expressions):
        made = node.copy()
        made.set("expressions", [*(one.copy() for one in args[:-1]), *_array_elements(array)])
        return made
    name = "concat" if isinstance(node, exp.Concat) else str(node.this).lower()
    plain = array.copy()
    match name, len(args):
        case "concat", 1:
            return exp.Anonymous(this="array_to_string", expressions=[plain, exp.Literal.string("")])
        case "concat_ws", 2:
            return exp.Anonymous(this="array_to_string", expressions=[plain, args[0].copy()])
        case "jsonb_build_array", 1:
            return exp.Anonymous(this="to_jsonb", expressions=[plain])
        case "jsonb_build_object", 1:
            return exp.Anonymous(this="jsonb_object", expressions=[plain])
        case "num_nulls" | "num_nonnulls", 1:
            whole = exp.Anonymous(this="cardinality", expressions=[plain])
            null = exp.Anonymous(this="array_remove", expressions=[plain.copy(), exp.Null()])
            rest = exp.Anonymous(this="cardinality", expressions=[null])
            return exp.Sub(this=whole, expression=rest) if name == "num_nulls" else rest
        case _:
            return None


def _array_elements(array: exp.Array) -> list[exp.Expr]:
    """Return the elements as subscripts of the array, which have its element type."""
    return [
        exp.Bracket(this=exp.Paren(this=array.copy()), expressions=[exp.Literal.number(place)])
        for place in range(1, len(array.expressions) + 1)
    ]
