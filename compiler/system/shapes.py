"""The columns of Postgres' catalogs, in their order, and what is in those that nothing here fills.

A tool asks for columns that tell nothing of kpg (``relfrozenxid``); they are there, and empty.
"""

from typing import Final

SHAPES: Final = {
    "pg_class": (
        "oid:o relname:m relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o "
        "reltablespace:o relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b "
        "relpersistence:c relkind:c relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b "
        "relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:c relispartition:b "
        "relrewrite:o relfrozenxid:x relminmxid:x relacl:_aclitem reloptions:t relpartbound:e"
    ),
    "pg_attribute": (
        "attrelid:o attname:m atttypid:o attlen:s attnum:s attcacheoff:i atttypmod:i attndims:s attbyval:b "
        "attalign:c attstorage:c attcompression:c attnotnull:b atthasdef:b atthasmissing:b attidentity:c "
        "attgenerated:c attisdropped:b attislocal:b attinhcount:s attstattarget:s attcollation:o "
        "attacl:_aclitem attoptions:t attfdwoptions:t attmissingval:anyarray"
    ),
    "pg_attrdef": "oid:o adrelid:o adnum:s adbin:e",
    "pg_index": (
        "indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indnullsnotdistinct:b "
        "indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b "
        "indisready:b indislive:b indisreplident:b indkey:v indcollation:w indclass:w indoption:v "
        "indexprs:e indpred:e"
    ),
    "pg_constraint": (
        "oid:o conname:m connamespace:o contype:c condeferrable:b condeferred:b convalidated:b conrelid:o "
        "contypid:o conindid:o conparentid:o confrelid:o confupdtype:c confdeltype:c confmatchtype:c "
        "conislocal:b coninhcount:s connoinherit:b conkey:a confkey:a conpfeqop:n conppeqop:n conffeqop:n "
        "confdelsetcols:a conexclop:n conbin:e"
    ),
    "pg_description": "objoid:o classoid:o objsubid:i description",
    "pg_proc": (
        "oid:o proname:m pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport:p "
        "prokind:c prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile:c proparallel:c "
        "pronargs:s pronargdefaults:s prorettype:o proargtypes:w proallargtypes:n proargmodes:_char "
        "proargnames:t proargdefaults:e protrftypes:n prosrc probin prosqlbody:e proconfig:t "
        "proacl:_aclitem"
    ),
    "pg_database": (
        "oid:o datname:m datdba:o encoding:i datlocprovider:c datistemplate:b datallowconn:b datconnlimit:i "
        "datfrozenxid:x datminmxid:x dattablespace:o datcollate datctype daticulocale daticurules "
        "datcollversion datacl:_aclitem"
    ),
    "pg_namespace": "oid:o nspname:m nspowner:o nspacl:_aclitem",
    "pg_type": (
        "oid:o typname:m typnamespace:o typowner:o typlen:s typbyval:b typtype:c typcategory:c "
        "typispreferred:b typisdefined:b typdelim:c typrelid:o typsubscript:p typelem:o typarray:o "
        "typinput:p typoutput:p typreceive:p typsend:p typmodin:p typmodout:p typanalyze:p typalign:c "
        "typstorage:c typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o typdefaultbin:e "
        "typdefault typacl:_aclitem"
    ),
    "pg_authid": (
        "oid:o rolname:m rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b "
        "rolreplication:b rolbypassrls:b rolconnlimit:i rolpassword rolvaliduntil:z"
    ),
    "pg_roles": (
        "rolname:m rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b "
        "rolconnlimit:i rolpassword rolvaliduntil:z rolbypassrls:b rolconfig:t oid:o"
    ),
    "pg_user": (
        "usename:m usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil:z useconfig:t"
    ),
    "pg_am": "oid:o amname:m amhandler:p amtype:c",
    "pg_collation": (
        "oid:o collname:m collnamespace:o collowner:o collprovider:c collisdeterministic:b collencoding:i "
        "collcollate collctype colliculocale collicurules collversion"
    ),
    "pg_rewrite": "oid:o rulename:m ev_class:o ev_type:c ev_enabled:c is_instead:b ev_qual:e ev_action:e",
    "pg_auth_members": "oid:o roleid:o member:o grantor:o admin_option:b inherit_option:b set_option:b",
    "pg_tablespace": "oid:o spcname:m spcowner:o spcacl:_aclitem spcoptions:t",
    "pg_language": (
        "oid:o lanname:m lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o lanvalidator:o "
        "lanacl:_aclitem"
    ),
    "pg_operator": (
        "oid:o oprname:m oprnamespace:o oprowner:o oprkind:c oprcanmerge:b oprcanhash:b oprleft:o "
        "oprright:o oprresult:o oprcom:o oprnegate:o oprcode:p oprrest:p oprjoin:p"
    ),
    "pg_range": (
        "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical:p rngsubdiff:p"
    ),
    "pg_publication": (
        "oid:o pubname:m pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b "
        "pubviaroot:b"
    ),
    "pg_publication_rel": "oid:o prpubid:o prrelid:o prqual:e prattrs:v",
    "pg_publication_namespace": "oid:o pnpubid:o pnnspid:o",
    "pg_subscription": (
        "oid:o subdbid:o subskiplsn:pg_lsn subname:m subowner:o subenabled:b subbinary:b substream:c "
        "subtwophasestate:c subdisableonerr:b subpasswordrequired:b subrunasowner:b subconninfo "
        "subslotname:m subsynccommit subpublications:t suborigin"
    ),
    "pg_statistic_ext": (
        "oid:o stxrelid:o stxname:m stxnamespace:o stxowner:o stxstattarget:i stxkeys:v stxkind:_char "
        "stxexprs:e"
    ),
    "pg_foreign_table": "ftrelid:o ftserver:o ftoptions:t",
    "pg_foreign_server": (
        "oid:o srvname:m srvowner:o srvfdw:o srvtype srvversion srvacl:_aclitem srvoptions:t"
    ),
    "pg_foreign_data_wrapper": (
        "oid:o fdwname:m fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:_aclitem fdwoptions:t"
    ),
    "pg_partitioned_table": (
        "partrelid:o partstrat:c partnatts:s partdefid:o partattrs:v partclass:w partcollation:w partexprs:e"
    ),
    "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    "pg_trigger": (
        "oid:o tgrelid:o tgparentid:o tgname:m tgfoid:o tgtype:s tgenabled:c tgisinternal:b tgconstrrelid:o "
        "tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:s tgattr:v tgargs:bytea "
        "tgqual:e tgoldtable:m tgnewtable:m"
    ),
    "pg_policies": "schemaname:m tablename:m policyname:m permissive roles:_name cmd qual with_check",
    "pg_policy": "oid:o polname:m polrelid:o polcmd:c polpermissive:b polroles:n polqual:e polwithcheck:e",
    "pg_shdescription": "objoid:o classoid:o description",
    "pg_seclabel": "objoid:o classoid:o objsubid:i provider label",
    "pg_opclass": (
        "oid:o opcmethod:o opcname:m opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b "
        "opckeytype:o"
    ),
    "pg_opfamily": "oid:o opfmethod:o opfname:m opfnamespace:o opfowner:o",
    "pg_cast": "oid:o castsource:o casttarget:o castfunc:o castcontext:c castmethod:c",
    "pg_conversion": (
        "oid:o conname:m connamespace:o conowner:o conforencoding:i contoencoding:i conproc:p condefault:b"
    ),
    "pg_event_trigger": "oid:o evtname:m evtevent:m evtowner:o evtfoid:o evtenabled:c evttags:t",
    "pg_aggregate": (
        "aggfnoid:p aggkind:c aggnumdirectargs:s aggtransfn:p aggfinalfn:p aggcombinefn:p aggserialfn:p "
        "aggdeserialfn:p aggmtransfn:p aggminvtransfn:p aggmfinalfn:p aggfinalextra:b aggmfinalextra:b "
        "aggfinalmodify:c aggmfinalmodify:c aggsortop:o aggtranstype:o aggtransspace:i aggmtranstype:o "
        "aggmtransspace:i agginitval aggminitval"
    ),
    "pg_prepared_statements": (
        "name statement prepare_time:z parameter_types:_regtype result_types:_regtype from_sql:b "
        "generic_plans:l custom_plans:l"
    ),
    "pg_cursors": "name statement is_holdable:b is_binary:b is_scrollable:b creation_time:z",
    "pg_stat_activity": (
        "datid:o datname:m pid:i leader_pid:i usesysid:o usename:m application_name client_addr:inet "
        "client_hostname client_port:i backend_start:z xact_start:z query_start:z state_change:z "
        "wait_event_type wait_event state backend_xid:x backend_xmin:x query_id:l query backend_type"
    ),
    "pg_stat_all_tables": (
        "relid:o schemaname:m relname:m seq_scan:l last_seq_scan:z seq_tup_read:l idx_scan:l "
        "last_idx_scan:z idx_tup_fetch:l n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l "
        "n_tup_newpage_upd:l n_live_tup:l n_dead_tup:l n_mod_since_analyze:l n_ins_since_vacuum:l "
        "last_vacuum:z last_autovacuum:z last_analyze:z last_autoanalyze:z vacuum_count:l "
        "autovacuum_count:l analyze_count:l autoanalyze_count:l"
    ),
    "pg_stat_sys_tables": (
        "relid:o schemaname:m relname:m seq_scan:l last_seq_scan:z seq_tup_read:l idx_scan:l "
        "last_idx_scan:z idx_tup_fetch:l n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l "
        "n_tup_newpage_upd:l n_live_tup:l n_dead_tup:l n_mod_since_analyze:l n_ins_since_vacuum:l "
        "last_vacuum:z last_autovacuum:z last_analyze:z last_autoanalyze:z vacuum_count:l "
        "autovacuum_count:l analyze_count:l autoanalyze_count:l"
    ),
    "pg_stat_user_tables": (
        "relid:o schemaname:m relname:m seq_scan:l last_seq_scan:z seq_tup_read:l idx_scan:l "
        "last_idx_scan:z idx_tup_fetch:l n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l "
        "n_tup_newpage_upd:l n_live_tup:l n_dead_tup:l n_mod_since_analyze:l n_ins_since_vacuum:l "
        "last_vacuum:z last_autovacuum:z last_analyze:z last_autoanalyze:z vacuum_count:l "
        "autovacuum_count:l analyze_count:l autoanalyze_count:l"
    ),
    "pg_locks": (
        "locktype database:o relation:o page:i tuple:s virtualxid transactionid:x classid:o objid:o "
        "objsubid:s virtualtransaction pid:i mode granted:b fastpath:b waitstart:z"
    ),
    "pg_stats": (
        "schemaname:m tablename:m attname:m inherited:b null_frac:f avg_width:i n_distinct:f "
        "most_common_vals:anyarray most_common_freqs:_float4 histogram_bounds:anyarray correlation:f "
        "most_common_elems:anyarray most_common_elem_freqs:_float4 elem_count_histogram:_float4"
    ),
    "pg_settings": (
        "name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals:t "
        "boot_val reset_val sourcefile sourceline:i pending_restart:b"
    ),
    "pg_sequence": "seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b",
    "pg_enum": "oid:o enumtypid:o enumsortorder:f enumlabel:m",
    "pg_extension": (
        "oid:o extname:m extowner:o extnamespace:o extrelocatable:b extversion extconfig:n extcondition:t"
    ),
    "pg_depend": "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:c",
    "pg_default_acl": "oid:o defaclrole:o defaclnamespace:o defaclobjtype:c defaclacl:_aclitem",
    "pg_db_role_setting": "setdatabase:o setrole:o setconfig:t",
    "pg_stat_database": (
        "datid:o datname:m numbackends:i xact_commit:l xact_rollback:l blks_read:l blks_hit:l "
        "tup_returned:l tup_fetched:l tup_inserted:l tup_updated:l tup_deleted:l conflicts:l temp_files:l "
        "temp_bytes:l deadlocks:l checksum_failures:l checksum_last_failure:z blk_read_time:d "
        "blk_write_time:d session_time:d active_time:d idle_in_transaction_time:d sessions:l "
        "sessions_abandoned:l sessions_fatal:l sessions_killed:l stats_reset:z"
    ),
    "pg_available_extensions": "name:m default_version installed_version comment",
    "pg_indexes": "schemaname:m tablename:m indexname:m tablespace:m indexdef",
    "pg_tables": (
        "schemaname:m tablename:m tableowner:m tablespace:m hasindexes:b hasrules:b hastriggers:b "
        "rowsecurity:b"
    ),
    "pg_views": "schemaname:m viewname:m viewowner:m definition",
    "pg_matviews": (
        "schemaname:m matviewname:m matviewowner:m tablespace:m hasindexes:b ispopulated:b definition"
    ),
    "pg_sequences": (
        "schemaname:m sequencename:m sequenceowner:m data_type:regtype start_value:l min_value:l "
        "max_value:l increment_by:l cycle:b cache_size:l last_value:l"
    ),
    "pg_timezone_names": "name abbrev utc_offset:interval is_dst:b",
    "pg_rules": "schemaname:m tablename:m rulename:m definition",
    "pg_group": "groname:m grosysid:o grolist:n",
    "pg_shadow": (
        "usename:m usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil:z useconfig:t"
    ),
}
"""Names of columns; behind a colon what they hold: ``i`` numbers, ``l`` large ones, ``o`` those of objects,
``b`` booleans, ``a`` arrays of numbers, ``n`` of large ones, ``v`` and ``w`` such that are counted from 0,
``t`` arrays of texts; text otherwise."""

GIVEN: Final[dict[str, dict[str, int | str]]] = {
    "pg_class": {"relispopulated": 1, "relreplident": "d", "relfilenode": 1},
    "pg_attribute": {
        "attislocal": 1,
        "attalign": "i",
        "attstorage": "p",
        "attcompression": "",
        "attstattarget": -1,
    },
    "pg_index": {"indimmediate": 1, "indislive": 1},
    "pg_constraint": {"conislocal": 1, "confmatchtype": " "},
    "pg_proc": {"prolang": 12, "procost": 1, "provolatile": "i", "proparallel": "s", "prosrc": ""},
    "pg_database": {
        "datallowconn": 1,
        "datconnlimit": -1,
        "datlocprovider": "c",
        "datctype": "C.UTF-8",
        "dattablespace": 1663,
    },
    "pg_settings": {"context": "user"},
    "pg_type": {"typowner": 10, "typisdefined": 1, "typdelim": ",", "typalign": "i", "typstorage": "p"},
}
"""What is in columns that tell the same of everything."""

ROWS: Final[dict[str, tuple[dict[str, int | str], ...]]] = {
    "pg_am": (
        {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"},
        {"oid": 403, "amname": "btree", "amhandler": "bthandler", "amtype": "i"},
        {"oid": 405, "amname": "hash", "amhandler": "hashhandler", "amtype": "i"},
        {"oid": 783, "amname": "gist", "amhandler": "gisthandler", "amtype": "i"},
        {"oid": 2742, "amname": "gin", "amhandler": "ginhandler", "amtype": "i"},
        {"oid": 4000, "amname": "spgist", "amhandler": "spghandler", "amtype": "i"},
        {"oid": 3580, "amname": "brin", "amhandler": "brinhandler", "amtype": "i"},
    ),
    "pg_collation": (
        {"oid": 100, "collname": "default", "collnamespace": 11, "collowner": 10, "collprovider": "d"},
        {"oid": 950, "collname": "C", "collnamespace": 11, "collowner": 10, "collprovider": "c"},
    ),
    "pg_language": (
        {"oid": 12, "lanname": "internal", "lanowner": 10},
        {"oid": 14, "lanname": "sql", "lanowner": 10, "lanpltrusted": 1},
    ),
    "pg_range": tuple(
        {
            "rngtypid": number,
            "rngsubtype": subtype,
            "rngmultitypid": multirange,
            "rngsubopc": operators,
            "rngcanonical": f"{name}_canonical" if discrete else "-",
            "rngsubdiff": f"{name}_subdiff",
        }
        for name, number, subtype, multirange, operators, discrete in (
            ("int4range", 3904, 23, 4451, 1978, True),
            ("numrange", 3906, 1700, 4532, 3125, False),
            ("tsrange", 3908, 1114, 4533, 3128, False),
            ("tstzrange", 3910, 1184, 4534, 3127, False),
            ("daterange", 3912, 1082, 4535, 3122, True),
            ("int8range", 3926, 20, 4536, 3124, True),
        )
    ),
    "pg_tablespace": (
        {"oid": 1663, "spcname": "pg_default", "spcowner": 10},
        {"oid": 1664, "spcname": "pg_global", "spcowner": 10},
    ),
    "pg_extension": (
        {"oid": 13501, "extname": "plpgsql", "extowner": 10, "extnamespace": 11, "extversion": "1.0"},
    ),
}
"""Relations with a few rows that are always the same."""
