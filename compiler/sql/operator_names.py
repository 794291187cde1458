"""Functions of Postgres that are its operators, by these: ``name:type`` of both, ``name:left,right``.

A type is left out where any is taken, and a left one is ``-`` where there is only a right one.
"""

from typing import Final

OPERATORS: Final = {
    "!~": "bpcharregexne:bpchar,text nameregexne:name,text textregexne:text",
    "!~*": "bpcharicregexne:bpchar,text nameicregexne:name,text texticregexne:text",
    "!~~": "bpcharnlike:bpchar,text byteanlike:bytea namenlike:name,text textnlike:text",
    "!~~*": "bpcharicnlike:bpchar,text nameicnlike:name,text texticnlike:text",
    "#": """
        bitxor:bit box_intersect:box int2xor:int2 int4xor:int4 int8xor:int8 line_interpt:line
        lseg_interpt:lseg path_npoints:-,path poly_npoints:-,polygon
    """,
    "##": """
        close_ls:line,lseg close_lseg:lseg close_pb:point,box close_pl:point,line close_ps:point,lseg
        close_sb:lseg,box
    """,
    "#-": "jsonb_delete_path:jsonb,",
    "%": "int2mod:int2 int4mod:int4 int8mod:int8 numeric_mod:numeric",
    "&": """
        bitand:bit inetand:inet int2and:int2 int4and:int4 int8and:int8 macaddr8_and:macaddr8
        macaddr_and:macaddr
    """,
    "&&": """
        arrayoverlap box_overlap:box circle_overlap:circle multirange_overlaps_multirange
        multirange_overlaps_range network_overlap:inet poly_overlap:polygon range_overlaps
        range_overlaps_multirange
    """,
    "&<": """
        box_overleft:box circle_overleft:circle multirange_overleft_multirange multirange_overleft_range
        poly_overleft:polygon range_overleft range_overleft_multirange
    """,
    "&<|": "box_overbelow:box circle_overbelow:circle poly_overbelow:polygon",
    "&>": """
        box_overright:box circle_overright:circle multirange_overright_multirange multirange_overright_range
        poly_overright:polygon range_overright range_overright_multirange
    """,
    "*": """
        box_mul:box,point cash_mul_flt4:money,float4 cash_mul_flt8:money,float8 cash_mul_int2:money,int2
        cash_mul_int4:money,int4 cash_mul_int8:money,int8 circle_mul_pt:circle,point
        float48mul:float4,float8 float4mul:float4 float84mul:float8,float4 float8mul:float8
        flt4_mul_cash:float4,money flt8_mul_cash:float8,money int24mul:int2,int4 int28mul:int2,int8
        int2_mul_cash:int2,money int2mul:int2 int42mul:int4,int2 int48mul:int4,int8 int4_mul_cash:int4,money
        int4mul:int4 int82mul:int8,int2 int84mul:int8,int4 int8_mul_cash:int8,money int8mul:int8
        interval_mul:interval,float8 mul_d_interval:float8,interval multirange_intersect numeric_mul:numeric
        path_mul_pt:path,point point_mul:point range_intersect
    """,
    "+": """
        box_add:box,point cash_pl:money circle_add_pt:circle,point date_pl_interval:date,interval
        date_pli:date,int4 datetime_pl:date,time datetimetz_pl:date,timetz float48pl:float4,float8
        float4pl:float4 float4up:-,float4 float84pl:float8,float4 float8pl:float8 float8up:-,float8
        inetpl:inet,int8 int24pl:int2,int4 int28pl:int2,int8 int2pl:int2 int2up:-,int2 int42pl:int4,int2
        int48pl:int4,int8 int4pl:int4 int4up:-,int4 int82pl:int8,int2 int84pl:int8,int4 int8pl:int8
        int8pl_inet:int8,inet int8up:-,int8 integer_pl_date:int4,date interval_pl:interval
        interval_pl_date:interval,date interval_pl_time:interval,time
        interval_pl_timestamp:interval,timestamp interval_pl_timestamptz:interval,timestamptz
        interval_pl_timetz:interval,timetz multirange_union numeric_add:numeric
        numeric_pl_pg_lsn:numeric,pg_lsn numeric_uplus:-,numeric path_add:path path_add_pt:path,point
        pg_lsn_pli:pg_lsn,numeric point_add:point range_union time_pl_interval:time,interval
        timedate_pl:time,date timestamp_pl_interval:timestamp,interval
        timestamptz_pl_interval:timestamptz,interval timetz_pl_interval:timetz,interval
        timetzdate_pl:timetz,date
    """,
    "-": """
        box_sub:box,point cash_mi:money circle_sub_pt:circle,point date_mi:date
        date_mi_interval:date,interval date_mii:date,int4 float48mi:float4,float8 float4mi:float4
        float4um:-,float4 float84mi:float8,float4 float8mi:float8 float8um:-,float8 inetmi:inet
        inetmi_int8:inet,int8 int24mi:int2,int4 int28mi:int2,int8 int2mi:int2 int2um:-,int2
        int42mi:int4,int2 int48mi:int4,int8 int4mi:int4 int4um:-,int4 int82mi:int8,int2 int84mi:int8,int4
        int8mi:int8 int8um:-,int8 interval_mi:interval interval_um:-,interval multirange_minus
        numeric_sub:numeric numeric_uminus:-,numeric path_sub_pt:path,point
        pg_catalog.jsonb_delete:jsonb,text pg_lsn_mi:pg_lsn pg_lsn_mii:pg_lsn,numeric point_sub:point
        range_minus time_mi_interval:time,interval time_mi_time:time timestamp_mi:timestamp
        timestamp_mi_interval:timestamp,interval timestamptz_mi:timestamptz
        timestamptz_mi_interval:timestamptz,interval timetz_mi_interval:timetz,interval
    """,
    "->": """
        json_array_element:json,int4 json_object_field:json,text jsonb_array_element:jsonb,int4
        jsonb_object_field:jsonb,text
    """,
    "->>": """
        json_array_element_text:json,int4 json_object_field_text:json,text
        jsonb_array_element_text:jsonb,int4 jsonb_object_field_text:jsonb,text
    """,
    "-|-": """
        multirange_adjacent_multirange multirange_adjacent_range range_adjacent range_adjacent_multirange
    """,
    "/": """
        box_div:box,point cash_div_cash:money cash_div_flt4:money,float4 cash_div_flt8:money,float8
        cash_div_int2:money,int2 cash_div_int4:money,int4 cash_div_int8:money,int8
        circle_div_pt:circle,point float48div:float4,float8 float4div:float4 float84div:float8,float4
        float8div:float8 int24div:int2,int4 int28div:int2,int8 int2div:int2 int42div:int4,int2
        int48div:int4,int8 int4div:int4 int82div:int8,int2 int84div:int8,int4 int8div:int8
        interval_div:interval,float8 numeric_div:numeric path_div_pt:path,point point_div:point
    """,
    "<": """
        array_lt bitlt:bit boollt:bool box_lt:box bpchar_pattern_lt:bpchar bpcharlt:bpchar bytealt:bytea
        cash_lt:money charlt:char circle_lt:circle date_lt:date date_lt_timestamp:date,timestamp
        date_lt_timestamptz:date,timestamptz enum_lt float48lt:float4,float8 float4lt:float4
        float84lt:float8,float4 float8lt:float8 int24lt:int2,int4 int28lt:int2,int8 int2lt:int2
        int42lt:int4,int2 int48lt:int4,int8 int4lt:int4 int82lt:int8,int2 int84lt:int8,int4 int8lt:int8
        interval_lt:interval jsonb_lt:jsonb lseg_lt:lseg macaddr8_lt:macaddr8 macaddr_lt:macaddr
        multirange_lt namelt:name namelttext:name,text network_lt:inet numeric_lt:numeric oidlt:oid
        path_n_lt:path pg_lsn_lt:pg_lsn range_lt record_lt text_lt:text text_pattern_lt:text
        textltname:text,name time_lt:time timestamp_lt:timestamp timestamp_lt_date:timestamp,date
        timestamp_lt_timestamptz:timestamp,timestamptz timestamptz_lt:timestamptz
        timestamptz_lt_date:timestamptz,date timestamptz_lt_timestamp:timestamptz,timestamp timetz_lt:timetz
        uuid_lt:uuid varbitlt:varbit
    """,
    "<->": """
        box_distance:box circle_distance:circle dist_bp:box,point dist_bs:box,lseg dist_cpoint:circle,point
        dist_cpoly:circle,polygon dist_lp:line,point dist_ls:line,lseg dist_pathp:path,point
        dist_pb:point,box dist_pc:point,circle dist_pl:point,line dist_polyc:polygon,circle
        dist_polyp:polygon,point dist_ppath:point,path dist_ppoly:point,polygon dist_ps:point,lseg
        dist_sb:lseg,box dist_sl:lseg,line dist_sp:lseg,point line_distance:line lseg_distance:lseg
        path_distance:path point_distance:point poly_distance:polygon
    """,
    "<<": """
        bitshiftleft:bit,int4 box_left:box circle_left:circle int2shl:int2,int4 int4shl:int4
        int8shl:int8,int4 multirange_before_multirange multirange_before_range network_sub:inet
        point_left:point poly_left:polygon range_before range_before_multirange
    """,
    "<<=": "network_subeq:inet",
    "<<|": "box_below:box circle_below:circle point_below:point poly_below:polygon",
    "<=": """
        array_le bitle:bit boolle:bool box_le:box bpchar_pattern_le:bpchar bpcharle:bpchar byteale:bytea
        cash_le:money charle:char circle_le:circle date_le:date date_le_timestamp:date,timestamp
        date_le_timestamptz:date,timestamptz enum_le float48le:float4,float8 float4le:float4
        float84le:float8,float4 float8le:float8 int24le:int2,int4 int28le:int2,int8 int2le:int2
        int42le:int4,int2 int48le:int4,int8 int4le:int4 int82le:int8,int2 int84le:int8,int4 int8le:int8
        interval_le:interval jsonb_le:jsonb lseg_le:lseg macaddr8_le:macaddr8 macaddr_le:macaddr
        multirange_le namele:name nameletext:name,text network_le:inet numeric_le:numeric oidle:oid
        path_n_le:path pg_lsn_le:pg_lsn range_le record_le text_le:text text_pattern_le:text
        textlename:text,name time_le:time timestamp_le:timestamp timestamp_le_date:timestamp,date
        timestamp_le_timestamptz:timestamp,timestamptz timestamptz_le:timestamptz
        timestamptz_le_date:timestamptz,date timestamptz_le_timestamp:timestamptz,timestamp timetz_le:timetz
        uuid_le:uuid varbitle:varbit
    """,
    "<>": """
        array_ne bitne:bit boolne:bool bpcharne:bpchar byteane:bytea cash_ne:money charne:char
        circle_ne:circle date_ne:date date_ne_timestamp:date,timestamp date_ne_timestamptz:date,timestamptz
        enum_ne float48ne:float4,float8 float4ne:float4 float84ne:float8,float4 float8ne:float8
        int24ne:int2,int4 int28ne:int2,int8 int2ne:int2 int42ne:int4,int2 int48ne:int4,int8 int4ne:int4
        int82ne:int8,int2 int84ne:int8,int4 int8ne:int8 interval_ne:interval jsonb_ne:jsonb lseg_ne:lseg
        macaddr8_ne:macaddr8 macaddr_ne:macaddr multirange_ne namene:name namenetext:name,text
        network_ne:inet numeric_ne:numeric oidne:oid pg_lsn_ne:pg_lsn point_ne:point range_ne record_ne
        textne:text textnename:text,name time_ne:time timestamp_ne:timestamp
        timestamp_ne_date:timestamp,date timestamp_ne_timestamptz:timestamp,timestamptz
        timestamptz_ne:timestamptz timestamptz_ne_date:timestamptz,date
        timestamptz_ne_timestamp:timestamptz,timestamp timetz_ne:timetz uuid_ne:uuid varbitne:varbit
    """,
    "<@": """
        arraycontained box_contained:box circle_contained:circle elem_contained_by_multirange
        elem_contained_by_range jsonb_contained:jsonb multirange_contained_by_multirange
        multirange_contained_by_range on_pb:point,box on_pl:point,line on_ppath:point,path on_ps:point,lseg
        on_sb:lseg,box on_sl:lseg,line poly_contained:polygon pt_contained_circle:point,circle
        pt_contained_poly:point,polygon range_contained_by range_contained_by_multirange
    """,
    "<^": "box_below_eq:box",
    "=": """
        array_eq biteq:bit booleq:bool box_eq:box bpchareq:bpchar byteaeq:bytea cash_eq:money chareq:char
        circle_eq:circle date_eq:date date_eq_timestamp:date,timestamp date_eq_timestamptz:date,timestamptz
        enum_eq float48eq:float4,float8 float4eq:float4 float84eq:float8,float4 float8eq:float8
        int24eq:int2,int4 int28eq:int2,int8 int2eq:int2 int42eq:int4,int2 int48eq:int4,int8 int4eq:int4
        int82eq:int8,int2 int84eq:int8,int4 int8eq:int8 interval_eq:interval jsonb_eq:jsonb line_eq:line
        lseg_eq:lseg macaddr8_eq:macaddr8 macaddr_eq:macaddr multirange_eq nameeq:name nameeqtext:name,text
        network_eq:inet numeric_eq:numeric oideq:oid path_n_eq:path pg_lsn_eq:pg_lsn range_eq record_eq
        texteq:text texteqname:text,name time_eq:time timestamp_eq:timestamp
        timestamp_eq_date:timestamp,date timestamp_eq_timestamptz:timestamp,timestamptz
        timestamptz_eq:timestamptz timestamptz_eq_date:timestamptz,date
        timestamptz_eq_timestamp:timestamptz,timestamp timetz_eq:timetz uuid_eq:uuid varbiteq:varbit
    """,
    ">": """
        array_gt bitgt:bit boolgt:bool box_gt:box bpchar_pattern_gt:bpchar bpchargt:bpchar byteagt:bytea
        cash_gt:money chargt:char circle_gt:circle date_gt:date date_gt_timestamp:date,timestamp
        date_gt_timestamptz:date,timestamptz enum_gt float48gt:float4,float8 float4gt:float4
        float84gt:float8,float4 float8gt:float8 int24gt:int2,int4 int28gt:int2,int8 int2gt:int2
        int42gt:int4,int2 int48gt:int4,int8 int4gt:int4 int82gt:int8,int2 int84gt:int8,int4 int8gt:int8
        interval_gt:interval jsonb_gt:jsonb lseg_gt:lseg macaddr8_gt:macaddr8 macaddr_gt:macaddr
        multirange_gt namegt:name namegttext:name,text network_gt:inet numeric_gt:numeric oidgt:oid
        path_n_gt:path pg_lsn_gt:pg_lsn range_gt record_gt text_gt:text text_pattern_gt:text
        textgtname:text,name time_gt:time timestamp_gt:timestamp timestamp_gt_date:timestamp,date
        timestamp_gt_timestamptz:timestamp,timestamptz timestamptz_gt:timestamptz
        timestamptz_gt_date:timestamptz,date timestamptz_gt_timestamp:timestamptz,timestamp timetz_gt:timetz
        uuid_gt:uuid varbitgt:varbit
    """,
    ">=": """
        array_ge bitge:bit boolge:bool box_ge:box bpchar_pattern_ge:bpchar bpcharge:bpchar byteage:bytea
        cash_ge:money charge:char circle_ge:circle date_ge:date date_ge_timestamp:date,timestamp
        date_ge_timestamptz:date,timestamptz enum_ge float48ge:float4,float8 float4ge:float4
        float84ge:float8,float4 float8ge:float8 int24ge:int2,int4 int28ge:int2,int8 int2ge:int2
        int42ge:int4,int2 int48ge:int4,int8 int4ge:int4 int82ge:int8,int2 int84ge:int8,int4 int8ge:int8
        interval_ge:interval jsonb_ge:jsonb lseg_ge:lseg macaddr8_ge:macaddr8 macaddr_ge:macaddr
        multirange_ge namege:name namegetext:name,text network_ge:inet numeric_ge:numeric oidge:oid
        path_n_ge:path pg_lsn_ge:pg_lsn range_ge record_ge text_ge:text text_pattern_ge:text
        textgename:text,name time_ge:time timestamp_ge:timestamp timestamp_ge_date:timestamp,date
        timestamp_ge_timestamptz:timestamp,timestamptz timestamptz_ge:timestamptz
        timestamptz_ge_date:timestamptz,date timestamptz_ge_timestamp:timestamptz,timestamp timetz_ge:timetz
        uuid_ge:uuid varbitge:varbit
    """,
    ">>": """
        bitshiftright:bit,int4 box_right:box circle_right:circle int2shr:int2,int4 int4shr:int4
        int8shr:int8,int4 multirange_after_multirange multirange_after_range network_sup:inet
        point_right:point poly_right:polygon range_after range_after_multirange
    """,
    ">>=": "network_supeq:inet",
    ">^": "box_above_eq:box point_above:point",
    "?": "jsonb_exists:jsonb,text",
    "?#": """
        inter_lb:line,box inter_sb:lseg,box inter_sl:lseg,line line_intersect:line lseg_intersect:lseg
        path_inter:path
    """,
    "?&": "jsonb_exists_all:jsonb,",
    "?-": "line_horizontal:-,line lseg_horizontal:-,lseg point_horiz:point",
    "?-|": "line_perp:line lseg_perp:lseg",
    "?|": "jsonb_exists_any:jsonb, line_vertical:-,line lseg_vertical:-,lseg point_vert:point",
    "?||": "line_parallel:line lseg_parallel:lseg",
    "@": """
        float4abs:-,float4 float8abs:-,float8 int2abs:-,int2 int4abs:-,int4 int8abs:-,int8
        numeric_abs:-,numeric
    """,
    "@-@": "lseg_length:-,lseg",
    "@>": """
        arraycontains box_contain:box box_contain_pt:box,point circle_contain:circle
        circle_contain_pt:circle,point jsonb_contains:jsonb multirange_contains_elem
        multirange_contains_multirange multirange_contains_range path_contain_pt:path,point
        poly_contain:polygon poly_contain_pt:polygon,point range_contains range_contains_elem
        range_contains_multirange
    """,
    "@?": "jsonb_path_exists_opr:jsonb,jsonpath",
    "@@": """
        box_center:-,box circle_center:-,circle jsonb_path_match_opr:jsonb,jsonpath lseg_center:-,lseg
        poly_center:-,polygon ts_match_tt:text
    """,
    "^": "dpow:float8 numeric_power:numeric",
    "|": """
        bitor:bit inetor:inet int2or:int2 int4or:int4 int8or:int8 macaddr8_or:macaddr8 macaddr_or:macaddr
    """,
    "|&>": "box_overabove:box circle_overabove:circle poly_overabove:polygon",
    "|/": "dsqrt:-,float8",
    "|>>": "box_above:box circle_above:circle poly_above:polygon",
    "||": "anytextcat:,text bitcat:varbit byteacat:bytea textanycat:text, textcat:text",
    "||/": "dcbrt:-,float8",
    "~": """
        bitnot:-,bit bpcharregexeq:bpchar,text inetnot:-,inet int2not:-,int2 int4not:-,int4 int8not:-,int8
        macaddr8_not:-,macaddr8 macaddr_not:-,macaddr nameregexeq:name,text textregexeq:text
    """,
    "~*": "bpcharicregexeq:bpchar,text nameicregexeq:name,text texticregexeq:text",
    "~=": "box_same:box circle_same:circle point_eq:point poly_same:polygon",
    "~~": "bpcharlike:bpchar,text bytealike:bytea namelike:name,text textlike:text",
    "~~*": "bpchariclike:bpchar,text nameiclike:name,text texticlike:text",
}
COMPARED: Final = """
    bitcmp:bit bpcharcmp:bpchar btarraycmp btboolcmp:bool btbpchar_pattern_cmp:bpchar btcharcmp:"char"
    btfloat48cmp:float4,float8 btfloat4cmp:float4 btfloat84cmp:float8,float4 btfloat8cmp:float8
    btint24cmp:int2,int4 btint28cmp:int2,int8 btint2cmp:int2 btint42cmp:int4,int2 btint48cmp:int4,int8
    btint4cmp:int4 btint82cmp:int8,int2 btint84cmp:int8,int4 btint8cmp:int8 btnamecmp:name
    btnametextcmp:name,text btoidcmp:oid btrecordcmp bttext_pattern_cmp:text bttextcmp:text
    bttextnamecmp:text,name byteacmp:bytea cash_cmp:money date_cmp:date enum_cmp interval_cmp:interval
    jsonb_cmp:jsonb macaddr8_cmp:macaddr8 macaddr_cmp:macaddr multirange_cmp network_cmp:inet
    numeric_cmp:numeric pg_lsn_cmp:pg_lsn range_cmp time_cmp:time timestamp_cmp:timestamp
    timestamptz_cmp:timestamptz timetz_cmp:timetz uuid_cmp:uuid varbitcmp:varbit
"""
"""Those that give -1, 0 or 1."""
LARGER: Final = """
    array_larger array_smaller bpchar_larger:bpchar bpchar_smaller:bpchar cashlarger:money
    cashsmaller:money date_larger:date date_smaller:date enum_larger enum_smaller float4larger:float4
    float4smaller:float4 float8larger:float8 float8smaller:float8 int2larger:int2 int2smaller:int2
    int4larger:int4 int4smaller:int4 int8larger:int8 int8smaller:int8 interval_larger:interval
    interval_smaller:interval network_larger:inet network_smaller:inet numeric_larger:numeric
    numeric_smaller:numeric oidlarger:oid oidsmaller:oid pg_lsn_larger:pg_lsn pg_lsn_smaller:pg_lsn
    text_larger:text text_smaller:text time_larger:time time_smaller:time timestamp_larger:timestamp
    timestamp_smaller:timestamp timestamptz_larger:timestamptz timestamptz_smaller:timestamptz
    timetz_larger:timetz timetz_smaller:timetz
"""
"""Those that give the larger or the smaller of two values."""
