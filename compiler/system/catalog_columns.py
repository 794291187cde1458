"""Columns of the system catalogs, in Postgres' order, with values for those that kpg does not track.

Tools such as pg_dump read columns, for example ``relfrozenxid``, and whole catalogs that have no
counterpart in kpg. :func:`complete_catalog` and :func:`complete_information` complete a relation
with them.

Columns are written ``name:kind``. The kind is a key of ``oids.COLUMN_TYPES``; text without one.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.system.oids import COLUMN_TYPES, NAME
from kpg.compiler.system.relations import Row, SystemRelation, Value
from kpg.runtime.types import Type, float_to_word
from kpg.runtime.values import codec_of

INFORMATION_COLUMNS: Final = {
    "administrable_role_authorizations": "grantee role_name is_grantable:h",
    "applicable_roles": "grantee role_name is_grantable:h",
    "attributes": (
        "udt_catalog udt_schema udt_name attribute_name ordinal_position:i attribute_default:h "
        "is_nullable:h data_type:h character_maximum_length:i character_octet_length:i "
        "character_set_catalog character_set_schema character_set_name collation_catalog collation_schema "
        "collation_name numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i "
        "interval_type:h interval_precision:i attribute_udt_catalog attribute_udt_schema attribute_udt_name "
        "scope_catalog scope_schema scope_name maximum_cardinality:i dtd_identifier "
        "is_derived_reference_attribute:h"
    ),
    "character_sets": (
        "character_set_catalog character_set_schema character_set_name character_repertoire form_of_use "
        "default_collate_catalog default_collate_schema default_collate_name"
    ),
    "check_constraint_routine_usage": (
        "constraint_catalog constraint_schema constraint_name specific_catalog specific_schema specific_name"
    ),
    "check_constraints": "constraint_catalog constraint_schema constraint_name check_clause:h",
    "collation_character_set_applicability": (
        "collation_catalog collation_schema collation_name character_set_catalog character_set_schema "
        "character_set_name"
    ),
    "collations": "collation_catalog collation_schema collation_name pad_attribute:h",
    "column_column_usage": "table_catalog table_schema table_name column_name dependent_column",
    "column_domain_usage": (
        "domain_catalog domain_schema domain_name table_catalog table_schema table_name column_name"
    ),
    "column_options": "table_catalog table_schema table_name column_name option_name option_value:h",
    "column_privileges": (
        "grantor grantee table_catalog table_schema table_name column_name privilege_type:h is_grantable:h"
    ),
    "column_udt_usage": "udt_catalog udt_schema udt_name table_catalog table_schema table_name column_name",
    "columns": (
        "table_catalog table_schema table_name column_name ordinal_position:i column_default:h "
        "is_nullable:h data_type:h character_maximum_length:i character_octet_length:i numeric_precision:i "
        "numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:h "
        "interval_precision:i character_set_catalog character_set_schema character_set_name "
        "collation_catalog collation_schema collation_name domain_catalog domain_schema domain_name "
        "udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality:i "
        "dtd_identifier is_self_referencing:h is_identity:h identity_generation:h identity_start:h "
        "identity_increment:h identity_maximum:h identity_minimum:h identity_cycle:h is_generated:h "
        "generation_expression:h is_updatable:h"
    ),
    "constraint_column_usage": (
        "table_catalog table_schema table_name column_name constraint_catalog constraint_schema "
        "constraint_name"
    ),
    "constraint_table_usage": (
        "table_catalog table_schema table_name constraint_catalog constraint_schema constraint_name"
    ),
    "data_type_privileges": "object_catalog object_schema object_name object_type:h dtd_identifier",
    "domain_constraints": (
        "constraint_catalog constraint_schema constraint_name domain_catalog domain_schema domain_name "
        "is_deferrable:h initially_deferred:h"
    ),
    "domain_udt_usage": "udt_catalog udt_schema udt_name domain_catalog domain_schema domain_name",
    "domains": (
        "domain_catalog domain_schema domain_name data_type:h character_maximum_length:i "
        "character_octet_length:i character_set_catalog character_set_schema character_set_name "
        "collation_catalog collation_schema collation_name numeric_precision:i numeric_precision_radix:i "
        "numeric_scale:i datetime_precision:i interval_type:h interval_precision:i domain_default:h "
        "udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality:i "
        "dtd_identifier"
    ),
    "element_types": (
        "object_catalog object_schema object_name object_type:h collection_type_identifier data_type:h "
        "character_maximum_length:i character_octet_length:i character_set_catalog character_set_schema "
        "character_set_name collation_catalog collation_schema collation_name numeric_precision:i "
        "numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:h "
        "interval_precision:i domain_default:h udt_catalog udt_schema udt_name scope_catalog scope_schema "
        "scope_name maximum_cardinality:i dtd_identifier"
    ),
    "enabled_roles": "role_name",
    "foreign_data_wrapper_options": (
        "foreign_data_wrapper_catalog foreign_data_wrapper_name option_name option_value:h"
    ),
    "foreign_data_wrappers": (
        "foreign_data_wrapper_catalog foreign_data_wrapper_name authorization_identifier library_name:h "
        "foreign_data_wrapper_language:h"
    ),
    "foreign_server_options": "foreign_server_catalog foreign_server_name option_name option_value:h",
    "foreign_servers": (
        "foreign_server_catalog foreign_server_name foreign_data_wrapper_catalog foreign_data_wrapper_name "
        "foreign_server_type:h foreign_server_version:h authorization_identifier"
    ),
    "foreign_table_options": (
        "foreign_table_catalog foreign_table_schema foreign_table_name option_name option_value:h"
    ),
    "foreign_tables": (
        "foreign_table_catalog foreign_table_schema foreign_table_name foreign_server_catalog "
        "foreign_server_name"
    ),
    "information_schema_catalog_name": "catalog_name",
    "key_column_usage": (
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name "
        "column_name ordinal_position:i position_in_unique_constraint:i"
    ),
    "parameters": (
        "specific_catalog specific_schema specific_name ordinal_position:i parameter_mode:h is_result:h "
        "as_locator:h parameter_name data_type:h character_maximum_length:i character_octet_length:i "
        "character_set_catalog character_set_schema character_set_name collation_catalog collation_schema "
        "collation_name numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i "
        "interval_type:h interval_precision:i udt_catalog udt_schema udt_name scope_catalog scope_schema "
        "scope_name maximum_cardinality:i dtd_identifier parameter_default:h"
    ),
    "referential_constraints": (
        "constraint_catalog constraint_schema constraint_name unique_constraint_catalog "
        "unique_constraint_schema unique_constraint_name match_option:h update_rule:h delete_rule:h"
    ),
    "role_column_grants": (
        "grantor grantee table_catalog table_schema table_name column_name privilege_type:h is_grantable:h"
    ),
    "role_routine_grants": (
        "grantor grantee specific_catalog specific_schema specific_name routine_catalog routine_schema "
        "routine_name privilege_type:h is_grantable:h"
    ),
    "role_table_grants": (
        "grantor grantee table_catalog table_schema table_name privilege_type:h is_grantable:h "
        "with_hierarchy:h"
    ),
    "role_udt_grants": "grantor grantee udt_catalog udt_schema udt_name privilege_type:h is_grantable:h",
    "role_usage_grants": (
        "grantor grantee object_catalog object_schema object_name object_type:h privilege_type:h "
        "is_grantable:h"
    ),
    "routine_column_usage": (
        "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name "
        "table_catalog table_schema table_name column_name"
    ),
    "routine_privileges": (
        "grantor grantee specific_catalog specific_schema specific_name routine_catalog routine_schema "
        "routine_name privilege_type:h is_grantable:h"
    ),
    "routine_routine_usage": (
        "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name"
    ),
    "routine_sequence_usage": (
        "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name "
        "sequence_catalog sequence_schema sequence_name"
    ),
    "routine_table_usage": (
        "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name "
        "table_catalog table_schema table_name"
    ),
    "routines": (
        "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name "
        "routine_type:h module_catalog module_schema module_name udt_catalog udt_schema udt_name "
        "data_type:h character_maximum_length:i character_octet_length:i character_set_catalog "
        "character_set_schema character_set_name collation_catalog collation_schema collation_name "
        "numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:h "
        "interval_precision:i type_udt_catalog type_udt_schema type_udt_name scope_catalog scope_schema "
        "scope_name maximum_cardinality:i dtd_identifier routine_body:h routine_definition:h "
        "external_name:h external_language:h parameter_style:h is_deterministic:h sql_data_access:h "
        "is_null_call:h sql_path:h schema_level_routine:h max_dynamic_result_sets:i is_user_defined_cast:h "
        "is_implicitly_invocable:h security_type:h to_sql_specific_catalog to_sql_specific_schema "
        "to_sql_specific_name as_locator:h created:z last_altered:z new_savepoint_level:h "
        "is_udt_dependent:h result_cast_from_data_type:h result_cast_as_locator:h "
        "result_cast_char_max_length:i result_cast_char_octet_length:i result_cast_char_set_catalog "
        "result_cast_char_set_schema result_cast_char_set_name result_cast_collation_catalog "
        "result_cast_collation_schema result_cast_collation_name result_cast_numeric_precision:i "
        "result_cast_numeric_precision_radix:i result_cast_numeric_scale:i result_cast_datetime_precision:i "
        "result_cast_interval_type:h result_cast_interval_precision:i result_cast_type_udt_catalog "
        "result_cast_type_udt_schema result_cast_type_udt_name result_cast_scope_catalog "
        "result_cast_scope_schema result_cast_scope_name result_cast_maximum_cardinality:i "
        "result_cast_dtd_identifier"
    ),
    "schemata": (
        "catalog_name schema_name schema_owner default_character_set_catalog default_character_set_schema "
        "default_character_set_name sql_path:h"
    ),
    "sequences": (
        "sequence_catalog sequence_schema sequence_name data_type:h numeric_precision:i "
        "numeric_precision_radix:i numeric_scale:i start_value:h minimum_value:h maximum_value:h "
        "increment:h cycle_option:h"
    ),
    "sql_features": (
        "feature_id:h feature_name:h sub_feature_id:h sub_feature_name:h is_supported:h is_verified_by:h "
        "comments:h"
    ),
    "sql_implementation_info": (
        "implementation_info_id:h implementation_info_name:h integer_value:i character_value:h comments:h"
    ),
    "sql_parts": "feature_id:h feature_name:h is_supported:h is_verified_by:h comments:h",
    "sql_sizing": "sizing_id:i sizing_name:h supported_value:i comments:h",
    "table_constraints": (
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name "
        "constraint_type:h is_deferrable:h initially_deferred:h enforced:h nulls_distinct:h"
    ),
    "table_privileges": (
        "grantor grantee table_catalog table_schema table_name privilege_type:h is_grantable:h "
        "with_hierarchy:h"
    ),
    "tables": (
        "table_catalog table_schema table_name table_type:h self_referencing_column_name "
        "reference_generation:h user_defined_type_catalog user_defined_type_schema user_defined_type_name "
        "is_insertable_into:h is_typed:h commit_action:h"
    ),
    "transforms": (
        "udt_catalog udt_schema udt_name specific_catalog specific_schema specific_name group_name "
        "transform_type:h"
    ),
    "triggered_update_columns": (
        "trigger_catalog trigger_schema trigger_name event_object_catalog event_object_schema "
        "event_object_table event_object_column"
    ),
    "triggers": (
        "trigger_catalog trigger_schema trigger_name event_manipulation:h event_object_catalog "
        "event_object_schema event_object_table action_order:i action_condition:h action_statement:h "
        "action_orientation:h action_timing:h action_reference_old_table action_reference_new_table "
        "action_reference_old_row action_reference_new_row created:z"
    ),
    "udt_privileges": "grantor grantee udt_catalog udt_schema udt_name privilege_type:h is_grantable:h",
    "usage_privileges": (
        "grantor grantee object_catalog object_schema object_name object_type:h privilege_type:h "
        "is_grantable:h"
    ),
    "user_defined_types": (
        "user_defined_type_catalog user_defined_type_schema user_defined_type_name "
        "user_defined_type_category:h is_instantiable:h is_final:h ordering_form:h ordering_category:h "
        "ordering_routine_catalog ordering_routine_schema ordering_routine_name reference_type:h "
        "data_type:h character_maximum_length:i character_octet_length:i character_set_catalog "
        "character_set_schema character_set_name collation_catalog collation_schema collation_name "
        "numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:h "
        "interval_precision:i source_dtd_identifier ref_dtd_identifier"
    ),
    "user_mapping_options": (
        "authorization_identifier foreign_server_catalog foreign_server_name option_name option_value:h"
    ),
    "user_mappings": "authorization_identifier foreign_server_catalog foreign_server_name",
    "view_column_usage": (
        "view_catalog view_schema view_name table_catalog table_schema table_name column_name"
    ),
    "view_routine_usage": (
        "table_catalog table_schema table_name specific_catalog specific_schema specific_name"
    ),
    "view_table_usage": "view_catalog view_schema view_name table_catalog table_schema table_name",
    "views": (
        "table_catalog table_schema table_name view_definition:h check_option:h is_updatable:h "
        "is_insertable_into:h is_trigger_updatable:h is_trigger_deletable:h is_trigger_insertable_into:h"
    ),
}
"""Columns of ``information_schema``. A column without a kind has type ``name``."""


UNTRACKED_CATALOGS: Final = {
    "pg_amop": (
        "oid:o amopfamily:o amoplefttype:o amoprighttype:o amopstrategy:s amoppurpose:c amopopr:o "
        "amopmethod:o amopsortfamily:o"
    ),
    "pg_amproc": "oid:o amprocfamily:o amproclefttype:o amprocrighttype:o amprocnum:s amproc:p",
    "pg_available_extension_versions": (
        "name:m version installed:b superuser:b trusted:b relocatable:b schema:m requires:_name comment"
    ),
    "pg_backend_memory_contexts": (
        "name ident parent level:i total_bytes:l total_nblocks:l free_bytes:l free_chunks:l used_bytes:l"
    ),
    "pg_config": "name setting",
    "pg_file_settings": "sourcefile sourceline:i seqno:i name setting applied:b error",
    "pg_hba_file_rules": (
        "rule_number:i file_name line_number:i type database:t user_name:t address netmask auth_method "
        "options:t error"
    ),
    "pg_ident_file_mappings": "map_number:i file_name line_number:i map_name sys_name pg_username error",
    "pg_init_privs": "objoid:o classoid:o objsubid:i privtype:c initprivs:_aclitem",
    "pg_largeobject": "loid:o pageno:i data:bytea",
    "pg_largeobject_metadata": "oid:o lomowner:o lomacl:_aclitem",
    "pg_parameter_acl": "oid:o parname paracl:_aclitem",
    "pg_prepared_xacts": "transaction:x gid prepared:z owner:m database:m",
    "pg_publication_tables": "pubname:m schemaname:m tablename:m attnames:_name rowfilter",
    "pg_replication_origin": "roident:o roname",
    "pg_replication_origin_status": "local_id:o external_id remote_lsn:pg_lsn local_lsn:pg_lsn",
    "pg_replication_slots": (
        "slot_name:m plugin:m slot_type datoid:o database:m temporary:b active:b active_pid:i xmin:x "
        "catalog_xmin:x restart_lsn:pg_lsn confirmed_flush_lsn:pg_lsn wal_status safe_wal_size:l "
        "two_phase:b conflicting:b"
    ),
    "pg_seclabels": "objoid:o classoid:o objsubid:i objtype objnamespace:o objname provider label",
    "pg_shdepend": "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:c",
    "pg_shmem_allocations": "name off:l size:l allocated_size:l",
    "pg_shseclabel": "objoid:o classoid:o provider label",
    "pg_stat_all_indexes": (
        "relid:o indexrelid:o schemaname:m relname:m indexrelname:m idx_scan:l last_idx_scan:z "
        "idx_tup_read:l idx_tup_fetch:l"
    ),
    "pg_stat_archiver": (
        "archived_count:l last_archived_wal last_archived_time:z failed_count:l last_failed_wal "
        "last_failed_time:z stats_reset:z"
    ),
    "pg_stat_bgwriter": (
        "checkpoints_timed:l checkpoints_req:l checkpoint_write_time:d checkpoint_sync_time:d "
        "buffers_checkpoint:l buffers_clean:l maxwritten_clean:l buffers_backend:l buffers_backend_fsync:l "
        "buffers_alloc:l stats_reset:z"
    ),
    "pg_stat_database_conflicts": (
        "datid:o datname:m confl_tablespace:l confl_lock:l confl_snapshot:l confl_bufferpin:l "
        "confl_deadlock:l confl_active_logicalslot:l"
    ),
    "pg_stat_gssapi": "pid:i gss_authenticated:b principal encrypted:b credentials_delegated:b",
    "pg_stat_io": (
        "backend_type object context reads:l read_time:d writes:l write_time:d writebacks:l "
        "writeback_time:d extends:l extend_time:d op_bytes:l hits:l evictions:l reuses:l fsyncs:l "
        "fsync_time:d stats_reset:z"
    ),
    "pg_stat_progress_analyze": (
        "pid:i datid:o datname:m relid:o phase sample_blks_total:l sample_blks_scanned:l ext_stats_total:l "
        "ext_stats_computed:l child_tables_total:l child_tables_done:l current_child_table_relid:o"
    ),
    "pg_stat_progress_basebackup": (
        "pid:i phase backup_total:l backup_streamed:l tablespaces_total:l tablespaces_streamed:l"
    ),
    "pg_stat_progress_cluster": (
        "pid:i datid:o datname:m relid:o command phase cluster_index_relid:o heap_tuples_scanned:l "
        "heap_tuples_written:l heap_blks_total:l heap_blks_scanned:l index_rebuild_count:l"
    ),
    "pg_stat_progress_copy": (
        "pid:i datid:o datname:m relid:o command type bytes_processed:l bytes_total:l tuples_processed:l "
        "tuples_excluded:l"
    ),
    "pg_stat_progress_create_index": (
        "pid:i datid:o datname:m relid:o index_relid:o command phase lockers_total:l lockers_done:l "
        "current_locker_pid:l blocks_total:l blocks_done:l tuples_total:l tuples_done:l partitions_total:l "
        "partitions_done:l"
    ),
    "pg_stat_progress_vacuum": (
        "pid:i datid:o datname:m relid:o phase heap_blks_total:l heap_blks_scanned:l heap_blks_vacuumed:l "
        "index_vacuum_count:l max_dead_tuples:l num_dead_tuples:l"
    ),
    "pg_stat_recovery_prefetch": (
        "stats_reset:z prefetch:l hit:l skip_init:l skip_new:l skip_fpw:l skip_rep:l wal_distance:i "
        "block_distance:i io_depth:i"
    ),
    "pg_stat_replication": (
        "pid:i usesysid:o usename:m application_name client_addr:inet client_hostname client_port:i "
        "backend_start:z backend_xmin:x state sent_lsn:pg_lsn write_lsn:pg_lsn flush_lsn:pg_lsn "
        "replay_lsn:pg_lsn write_lag:interval flush_lag:interval replay_lag:interval sync_priority:i "
        "sync_state reply_time:z"
    ),
    "pg_stat_replication_slots": (
        "slot_name spill_txns:l spill_count:l spill_bytes:l stream_txns:l stream_count:l stream_bytes:l "
        "total_txns:l total_bytes:l stats_reset:z"
    ),
    "pg_stat_slru": (
        "name blks_zeroed:l blks_hit:l blks_read:l blks_written:l blks_exists:l flushes:l truncates:l "
        "stats_reset:z"
    ),
    "pg_stat_ssl": "pid:i ssl:b version cipher bits:i client_dn client_serial:numeric issuer_dn",
    "pg_stat_subscription": (
        "subid:o subname:m pid:i leader_pid:i relid:o received_lsn:pg_lsn last_msg_send_time:z "
        "last_msg_receipt_time:z latest_end_lsn:pg_lsn latest_end_time:z"
    ),
    "pg_stat_subscription_stats": "subid:o subname:m apply_error_count:l sync_error_count:l stats_reset:z",
    "pg_stat_sys_indexes": (
        "relid:o indexrelid:o schemaname:m relname:m indexrelname:m idx_scan:l last_idx_scan:z "
        "idx_tup_read:l idx_tup_fetch:l"
    ),
    "pg_stat_user_functions": "funcid:o schemaname:m funcname:m calls:l total_time:d self_time:d",
    "pg_stat_user_indexes": (
        "relid:o indexrelid:o schemaname:m relname:m indexrelname:m idx_scan:l last_idx_scan:z "
        "idx_tup_read:l idx_tup_fetch:l"
    ),
    "pg_stat_wal": (
        "wal_records:l wal_fpi:l wal_bytes:numeric wal_buffers_full:l wal_write:l wal_sync:l "
        "wal_write_time:d wal_sync_time:d stats_reset:z"
    ),
    "pg_stat_wal_receiver": (
        "pid:i status receive_start_lsn:pg_lsn receive_start_tli:i written_lsn:pg_lsn flushed_lsn:pg_lsn "
        "received_tli:i last_msg_send_time:z last_msg_receipt_time:z latest_end_lsn:pg_lsn "
        "latest_end_time:z slot_name sender_host sender_port:i conninfo"
    ),
    "pg_stat_xact_all_tables": (
        "relid:o schemaname:m relname:m seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l n_tup_ins:l "
        "n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_tup_newpage_upd:l"
    ),
    "pg_stat_xact_sys_tables": (
        "relid:o schemaname:m relname:m seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l n_tup_ins:l "
        "n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_tup_newpage_upd:l"
    ),
    "pg_stat_xact_user_functions": "funcid:o schemaname:m funcname:m calls:l total_time:d self_time:d",
    "pg_stat_xact_user_tables": (
        "relid:o schemaname:m relname:m seq_scan:l seq_tup_read:l idx_scan:l idx_tup_fetch:l n_tup_ins:l "
        "n_tup_upd:l n_tup_del:l n_tup_hot_upd:l n_tup_newpage_upd:l"
    ),
    "pg_statio_all_indexes": (
        "relid:o indexrelid:o schemaname:m relname:m indexrelname:m idx_blks_read:l idx_blks_hit:l"
    ),
    "pg_statio_all_sequences": "relid:o schemaname:m relname:m blks_read:l blks_hit:l",
    "pg_statio_all_tables": (
        "relid:o schemaname:m relname:m heap_blks_read:l heap_blks_hit:l idx_blks_read:l idx_blks_hit:l "
        "toast_blks_read:l toast_blks_hit:l tidx_blks_read:l tidx_blks_hit:l"
    ),
    "pg_statio_sys_indexes": (
        "relid:o indexrelid:o schemaname:m relname:m indexrelname:m idx_blks_read:l idx_blks_hit:l"
    ),
    "pg_statio_sys_sequences": "relid:o schemaname:m relname:m blks_read:l blks_hit:l",
    "pg_statio_sys_tables": (
        "relid:o schemaname:m relname:m heap_blks_read:l heap_blks_hit:l idx_blks_read:l idx_blks_hit:l "
        "toast_blks_read:l toast_blks_hit:l tidx_blks_read:l tidx_blks_hit:l"
    ),
    "pg_statio_user_indexes": (
        "relid:o indexrelid:o schemaname:m relname:m indexrelname:m idx_blks_read:l idx_blks_hit:l"
    ),
    "pg_statio_user_sequences": "relid:o schemaname:m relname:m blks_read:l blks_hit:l",
    "pg_statio_user_tables": (
        "relid:o schemaname:m relname:m heap_blks_read:l heap_blks_hit:l idx_blks_read:l idx_blks_hit:l "
        "toast_blks_read:l toast_blks_hit:l tidx_blks_read:l tidx_blks_hit:l"
    ),
    "pg_statistic": (
        "starelid:o staattnum:s stainherit:b stanullfrac:f stawidth:i stadistinct:f stakind1:s stakind2:s "
        "stakind3:s stakind4:s stakind5:s staop1:o staop2:o staop3:o staop4:o staop5:o stacoll1:o "
        "stacoll2:o stacoll3:o stacoll4:o stacoll5:o stanumbers1:_float4 stanumbers2:_float4 "
        "stanumbers3:_float4 stanumbers4:_float4 stanumbers5:_float4 stavalues1:anyarray "
        "stavalues2:anyarray stavalues3:anyarray stavalues4:anyarray stavalues5:anyarray"
    ),
    "pg_statistic_ext_data": (
        "stxoid:o stxdinherit:b stxdndistinct:pg_ndistinct stxddependencies:pg_dependencies "
        "stxdmcv:pg_mcv_list stxdexpr:_pg_statistic"
    ),
    "pg_stats_ext": (
        "schemaname:m tablename:m statistics_schemaname:m statistics_name:m statistics_owner:m "
        "attnames:_name exprs:t kinds:_char inherited:b n_distinct:pg_ndistinct "
        "dependencies:pg_dependencies most_common_vals:t most_common_val_nulls:_bool "
        "most_common_freqs:_float8 most_common_base_freqs:_float8"
    ),
    "pg_stats_ext_exprs": (
        "schemaname:m tablename:m statistics_schemaname:m statistics_name:m statistics_owner:m expr "
        "inherited:b null_frac:f avg_width:i n_distinct:f most_common_vals:anyarray "
        "most_common_freqs:_float4 histogram_bounds:anyarray correlation:f most_common_elems:anyarray "
        "most_common_elem_freqs:_float4 elem_count_histogram:_float4"
    ),
    "pg_subscription_rel": "srsubid:o srrelid:o srsubstate:c srsublsn:pg_lsn",
    "pg_timezone_abbrevs": "abbrev utc_offset:interval is_dst:b",
    "pg_transform": "oid:o trftype:o trflang:o trffromsql:p trftosql:p",
    "pg_ts_config": "oid:o cfgname:m cfgnamespace:o cfgowner:o cfgparser:o",
    "pg_ts_config_map": "mapcfg:o maptokentype:i mapseqno:i mapdict:o",
    "pg_ts_dict": "oid:o dictname:m dictnamespace:o dictowner:o dicttemplate:o dictinitoption",
    "pg_ts_parser": (
        "oid:o prsname:m prsnamespace:o prsstart:p prstoken:p prsend:p prsheadline:p prslextype:p"
    ),
    "pg_ts_template": "oid:o tmplname:m tmplnamespace:o tmplinit:p tmpllexize:p",
    "pg_user_mapping": "oid:o umuser:o umserver:o umoptions:t",
    "pg_user_mappings": "umid:o srvid:o srvname:m umuser:o usename:m umoptions:t",
}
"""Columns of catalogs that kpg does not track."""


CATALOG_COLUMNS: Final = {
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
"""Columns of catalogs that kpg tracks, in whole or in part."""

CONSTANT_VALUES: Final[dict[str, dict[str, int | str]]] = {
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
"""Values of columns that are equal in all rows."""

CONSTANT_ROWS: Final[dict[str, tuple[dict[str, int | str], ...]]] = {
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
}
"""Rows of catalogs that do not change."""


EMPTY_VALUES: Final[dict[str, Value]] = {
    **dict.fromkeys(("b", "d", "f", "i", "l", "o", "s", "x"), 0),
    "c": "",
    "p": "-",
}
"""Default values of columns by kind; NULL for other kinds."""
INFORMATION_TYPES: Final = COLUMN_TYPES | {"": NAME, "t": COLUMN_TYPES[""]}


@cache
def complete_catalog(name: str, tracked: SystemRelation | None) -> SystemRelation | None:
    """Return a catalog with all of Postgres' columns, those of ``tracked`` filled.

    Return None if there is no such catalog. The result is cached by both arguments.
    """
    text = CATALOG_COLUMNS.get(name) or UNTRACKED_CATALOGS.get(name)
    if text is None:
        return tracked
    parts = [word.partition(":") for word in text.split()]
    columns = tuple((column, COLUMN_TYPES[kind]) for column, _, kind in parts)
    given = CONSTANT_VALUES.get(name, {})
    empty = tuple(given.get(column, EMPTY_VALUES.get(kind)) for column, _, kind in parts)
    if tracked is None:
        fixed = tuple(
            tuple(row.get(column, value) for (column, _), value in zip(columns, empty, strict=True))
            for row in CONSTANT_ROWS.get(name, ())
        )
        return SystemRelation(columns, lambda _: iter(fixed))
    return SystemRelation(columns, _fill_columns(columns, empty, tracked), tracked.is_cacheable)


@cache
def complete_information(name: str, tracked: SystemRelation | None) -> SystemRelation | None:
    """Return a relation of ``information_schema`` as :func:`complete_catalog` does for catalogs."""
    text = INFORMATION_COLUMNS.get(name)
    if text is None:
        return None
    parts = [word.partition(":") for word in text.split()]
    columns = tuple((column, INFORMATION_TYPES[kind]) for column, _, kind in parts)
    if tracked is None:
        return SystemRelation(columns, lambda _: iter(()))
    return SystemRelation(
        columns, _fill_columns(columns, (None,) * len(columns), tracked), tracked.is_cacheable
    )


def _fill_columns(
    columns: tuple[tuple[str, Type], ...], empty: tuple[Value, ...], tracked: SystemRelation
) -> Callable[[Catalog], Iterator[Row]]:
    """Return a function that yields the rows of ``tracked`` with all columns."""
    known = [name for name, _ in tracked.columns]
    places = [known.index(name) if name in known else -1 for name, _ in columns]
    kinds = [type_ for _, type_ in columns]

    def rows(catalog: Catalog) -> Iterator[Row]:
        for row in tracked.rows(catalog):
            yield tuple(
                empty[i] if place < 0 else _literal_value(row[place], kinds[i])
                for i, place in enumerate(places)
            )

    return rows


def _literal_value(value: Value, type_: Type) -> Value:
    """Return a value for a literal of the type. Text such as ``1 2`` or ``{1,2}`` becomes an array."""
    if type_.is_float and value is not None:
        return float_to_word(float(value))
    if not type_.parts or not isinstance(value, str):
        return value
    codec = codec_of(type_)
    text = value if value.startswith("{") or type_.name else "{" + ",".join(value.split()) + "}"
    return codec.encode(codec.parse(text))
