"""Columns of catalogs of which kpg has nothing, for programs that look: pg_dump above all."""

from typing import Final

NOTHING: Final = {
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
"""As in ``shapes.py``."""
