"""Columns of catalogs of which kpg has nothing, for programs that look: pg_dump above all."""

from typing import Final

NOTHING: Final = {
    "pg_amop": (
        "oid:o amopfamily:o amoplefttype:o amoprighttype:o amopstrategy:i amoppurpose:c amopopr:o "
        "amopmethod:o amopsortfamily:o"
    ),
    "pg_amproc": "oid:o amprocfamily:o amproclefttype:o amprocrighttype:o amprocnum:i amproc:o",
    "pg_init_privs": "objoid:o classoid:o objsubid:i privtype:c initprivs:t",
    "pg_largeobject_metadata": "oid:o lomowner:o lomacl:t",
    "pg_parameter_acl": "oid:o parname paracl:t",
    "pg_seclabels": "objoid:o classoid:o objsubid:i objtype objnamespace:o objname provider label",
    "pg_shdepend": "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:c",
    "pg_shseclabel": "objoid:o classoid:o provider label",
    "pg_transform": "oid:o trftype:o trflang:o trffromsql:o trftosql:o",
    "pg_ts_config": "oid:o cfgname cfgnamespace:o cfgowner:o cfgparser:o",
    "pg_ts_config_map": "mapcfg:o maptokentype:i mapseqno:i mapdict:o",
    "pg_ts_dict": "oid:o dictname dictnamespace:o dictowner:o dicttemplate:o dictinitoption",
    "pg_ts_parser": (
        "oid:o prsname prsnamespace:o prsstart:o prstoken:o prsend:o prsheadline:o prslextype:o"
    ),
    "pg_ts_template": "oid:o tmplname tmplnamespace:o tmplinit:o tmpllexize:o",
    "pg_user_mappings": "umid:o srvid:o srvname umuser:o usename umoptions:t",
    "pg_user_mapping": "oid:o umuser:o umserver:o umoptions:t",
}
"""As in ``shapes.py``."""
