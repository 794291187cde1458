"""The columns of Postgres' catalogs, in their order, and what is in those that nothing here fills.

A tool asks for columns that tell nothing of kpg (``relfrozenxid``); they are there, and empty.
"""

from typing import Final

SHAPES: Final = {
    "pg_class": (
        "oid:o relname relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o "
        "reltablespace:o relpages:i reltuples:i relallvisible:i reltoastrelid:o relhasindex:b relisshared:b "
        "relpersistence:c relkind:c relnatts:i relchecks:i relhasrules:b relhastriggers:b relhassubclass:b "
        "relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:c relispartition:b "
        "relrewrite:o relfrozenxid:o relminmxid:o relacl:t reloptions:t relpartbound"
    ),
    "pg_attribute": (
        "attrelid:o attname atttypid:o attlen:i attnum:i attcacheoff:i atttypmod:i attndims:i attbyval:b "
        "attalign:c attstorage:c attcompression:c attnotnull:b atthasdef:b atthasmissing:b attidentity:c "
        "attgenerated:c attisdropped:b attislocal:b attinhcount:i attstattarget:i attcollation:o attacl:t "
        "attoptions:t attfdwoptions:t attmissingval"
    ),
    "pg_attrdef": "oid:o adrelid:o adnum:i adbin",
    "pg_index": (
        "indexrelid:o indrelid:o indnatts:i indnkeyatts:i indisunique:b indnullsnotdistinct:b "
        "indisprimary:b indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b "
        "indisready:b indislive:b indisreplident:b indkey:v indcollation:w indclass:w indoption:v indexprs "
        "indpred"
    ),
    "pg_constraint": (
        "oid:o conname connamespace:o contype:c condeferrable:b condeferred:b convalidated:b conrelid:o "
        "contypid:o conindid:o conparentid:o confrelid:o confupdtype:c confdeltype:c confmatchtype:c "
        "conislocal:b coninhcount:i connoinherit:b conkey:a confkey:a conpfeqop:a conppeqop:a conffeqop:a "
        "confdelsetcols:a conexclop:a conbin"
    ),
    "pg_description": "objoid:o classoid:o objsubid:i description",
    "pg_proc": (
        "oid:o proname pronamespace:o proowner:o prolang:o procost:i prorows:i provariadic:o prosupport:p "
        "prokind:c prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile:c proparallel:c "
        "pronargs:i pronargdefaults:i prorettype:o proargtypes:w proallargtypes:n proargmodes:t "
        "proargnames:t proargdefaults protrftypes:a prosrc probin prosqlbody proconfig:t proacl:t"
    ),
    "pg_database": (
        "oid:o datname datdba:o encoding:i datlocprovider:c datistemplate:b datallowconn:b datconnlimit:i "
        "datfrozenxid:o datminmxid:o dattablespace:o datcollate datctype daticulocale daticurules "
        "datcollversion datacl:t"
    ),
    "pg_namespace": "oid:o nspname nspowner:o nspacl:t",
    "pg_type": (
        "oid:o typname typnamespace:o typowner:o typlen:i typbyval:b typtype:c typcategory:c "
        "typispreferred:b typisdefined:b typdelim:c typrelid:o typsubscript:p typelem:o typarray:o "
        "typinput:p typoutput:p typreceive:p typsend:p typmodin:p typmodout:p typanalyze:p typalign:c "
        "typstorage:c typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o typdefaultbin "
        "typdefault typacl:t"
    ),
    "pg_authid": (
        "oid:o rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b "
        "rolbypassrls:b rolconnlimit:i rolpassword rolvaliduntil"
    ),
    "pg_roles": (
        "rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b "
        "rolconnlimit:i rolpassword rolvaliduntil rolbypassrls:b rolconfig:t oid:o"
    ),
    "pg_user": (
        "usename usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil useconfig:t"
    ),
    "pg_am": "oid:o amname amhandler:p amtype:c",
    "pg_collation": (
        "oid:o collname collnamespace:o collowner:o collprovider:c collisdeterministic:b collencoding:i "
        "collcollate collctype colliculocale collicurules collversion"
    ),
    "pg_rewrite": "oid:o rulename ev_class:o ev_type:c ev_enabled:c is_instead:b ev_qual ev_action",
    "pg_auth_members": "oid:o roleid:o member:o grantor:o admin_option:b inherit_option:b set_option:b",
    "pg_tablespace": "oid:o spcname spcowner:o spcacl:t spcoptions:t",
    "pg_language": (
        "oid:o lanname lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o lanvalidator:o "
        "lanacl:t"
    ),
    "pg_operator": (
        "oid:o oprname oprnamespace:o oprowner:o oprkind:c oprcanmerge:b oprcanhash:b oprleft:o oprright:o "
        "oprresult:o oprcom:o oprnegate:o oprcode:p oprrest:p oprjoin:p"
    ),
    "pg_range": (
        "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical:p rngsubdiff:p"
    ),
    "pg_publication": (
        "oid:o pubname pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b "
        "pubviaroot:b"
    ),
    "pg_publication_rel": "oid:o prpubid:o prrelid:o prqual prattrs:a",
    "pg_publication_namespace": "oid:o pnpubid:o pnnspid:o",
    "pg_subscription": (
        "oid:o subdbid:o subskiplsn subname subowner:o subenabled:b subbinary:b substream subtwophasestate "
        "subdisableonerr:b subpasswordrequired:b subrunasowner:b subconninfo subslotname subsynccommit "
        "subpublications:t suborigin"
    ),
    "pg_statistic_ext": (
        "oid:o stxrelid:o stxname stxnamespace:o stxowner:o stxstattarget:i stxkeys:a stxkind:t stxexprs"
    ),
    "pg_foreign_table": "ftrelid:o ftserver:o ftoptions:t",
    "pg_foreign_server": "oid:o srvname srvowner:o srvfdw:o srvtype srvversion srvacl:t srvoptions:t",
    "pg_foreign_data_wrapper": ("oid:o fdwname fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:t fdwoptions:t"),
    "pg_partitioned_table": (
        "partrelid:o partstrat:c partnatts:i partdefid:o partattrs:v partclass:w partcollation:w partexprs"
    ),
    "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    "pg_trigger": (
        "oid:o tgrelid:o tgparentid:o tgname tgfoid:o tgtype:i tgenabled:c tgisinternal:b tgconstrrelid:o "
        "tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:i tgattr:v tgargs tgqual "
        "tgoldtable tgnewtable"
    ),
    "pg_policies": "schemaname tablename policyname permissive roles:t cmd qual with_check",
    "pg_policy": "oid:o polname polrelid:o polcmd:c polpermissive:b polroles:n polqual polwithcheck",
    "pg_shdescription": "objoid:o classoid:o description",
    "pg_seclabel": "objoid:o classoid:o objsubid:i provider label",
    "pg_opclass": (
        "oid:o opcmethod:o opcname opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b "
        "opckeytype:o"
    ),
    "pg_opfamily": "oid:o opfmethod:o opfname opfnamespace:o opfowner:o",
    "pg_cast": "oid:o castsource:o casttarget:o castfunc:o castcontext:c castmethod:c",
    "pg_conversion": (
        "oid:o conname connamespace:o conowner:o conforencoding:i contoencoding:i conproc:p condefault:b"
    ),
    "pg_event_trigger": "oid:o evtname evtevent evtowner:o evtfoid:o evtenabled:c evttags:t",
    "pg_aggregate": (
        "aggfnoid:p aggkind:c aggnumdirectargs:i aggtransfn:p aggfinalfn:p aggcombinefn:p aggserialfn:p "
        "aggdeserialfn:p aggmtransfn:p aggminvtransfn:p aggmfinalfn:p aggfinalextra:b aggmfinalextra:b "
        "aggfinalmodify:c aggmfinalmodify:c aggsortop:o aggtranstype:o aggtransspace:i aggmtranstype:o "
        "aggmtransspace:i agginitval aggminitval"
    ),
    "pg_prepared_statements": (
        "name statement prepare_time parameter_types:t result_types:t from_sql:b generic_plans:l "
        "custom_plans:l"
    ),
    "pg_cursors": "name statement is_holdable:b is_binary:b is_scrollable:b creation_time",
    "pg_stat_activity": (
        "datid:o datname pid:i leader_pid:i usesysid:o usename application_name client_addr client_hostname "
        "client_port:i backend_start xact_start query_start state_change wait_event_type wait_event state "
        "backend_xid:o backend_xmin:o query_id:l query backend_type"
    ),
    "pg_stat_user_tables": (
        "relid:o schemaname relname seq_scan:l last_seq_scan seq_tup_read:l idx_scan:l last_idx_scan "
        "idx_tup_fetch:l n_tup_ins:l n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_tup_newpage_upd:l "
        "n_live_tup:l n_dead_tup:l n_mod_since_analyze:l n_ins_since_vacuum:l last_vacuum last_autovacuum "
        "last_analyze last_autoanalyze vacuum_count:l autovacuum_count:l analyze_count:l "
        "autoanalyze_count:l"
    ),
    "pg_locks": (
        "locktype database:o relation:o page:i tuple:i virtualxid transactionid:o classid:o objid:o "
        "objsubid:i virtualtransaction pid:i mode granted:b fastpath:b waitstart"
    ),
    "pg_stats": (
        "schemaname tablename attname inherited:b null_frac:i avg_width:i n_distinct:i most_common_vals "
        "most_common_freqs histogram_bounds correlation:i most_common_elems most_common_elem_freqs "
        "elem_count_histogram"
    ),
    "pg_settings": (
        "name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals "
        "boot_val reset_val sourcefile sourceline:i pending_restart:b"
    ),
    "pg_sequence": (
        "seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b"
    ),
    "pg_enum": "oid:o enumtypid:o enumsortorder:i enumlabel",
    "pg_extension": (
        "oid:o extname extowner:o extnamespace:o extrelocatable:b extversion extconfig:a extcondition"
    ),
    "pg_depend": "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:c",
    "pg_default_acl": "oid:o defaclrole:o defaclnamespace:o defaclobjtype:c defaclacl:t",
    "pg_db_role_setting": "setdatabase:o setrole:o setconfig:t",
    "pg_stat_database": (
        "datid:o datname numbackends:i xact_commit:l xact_rollback:l blks_read:l blks_hit:l tup_returned:l "
        "tup_fetched:l tup_inserted:l tup_updated:l tup_deleted:l conflicts:l temp_files:l temp_bytes:l "
        "deadlocks:l checksum_failures:l checksum_last_failure blk_read_time:i blk_write_time:i "
        "session_time:i active_time:i idle_in_transaction_time:i sessions:l sessions_abandoned:l "
        "sessions_fatal:l sessions_killed:l stats_reset"
    ),
    "pg_available_extensions": "name default_version installed_version comment",
    "pg_indexes": "schemaname tablename indexname tablespace indexdef",
    "pg_tables": (
        "schemaname tablename tableowner tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b"
    ),
    "pg_views": "schemaname viewname viewowner definition",
    "pg_matviews": ("schemaname matviewname matviewowner tablespace hasindexes:b ispopulated:b definition"),
    "pg_sequences": (
        "schemaname sequencename sequenceowner data_type start_value:l min_value:l max_value:l "
        "increment_by:l cycle:b cache_size:l last_value:l"
    ),
    "pg_timezone_names": "name abbrev utc_offset is_dst:b",
    "pg_rules": "schemaname tablename rulename definition",
    "pg_group": "groname grosysid:o grolist:a",
    "pg_shadow": (
        "usename usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil useconfig:t"
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
    "pg_database": {"datallowconn": 1, "datconnlimit": -1, "datlocprovider": "c", "datctype": "C.UTF-8"},
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
        {
            "oid": 13500,
            "lanname": "plpgsql",
            "lanowner": 10,
            "lanispl": 1,
            "lanpltrusted": 1,
            "lanplcallfoid": 13400,
        },
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
