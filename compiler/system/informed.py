"""The columns of the relations of ``information_schema``, in their order."""

from typing import Final

INFORMED: Final = {
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
"""As in ``shapes.py``, but what has no letter is a name; all that is not filled is NULL."""
