"""The access control that the core calls, as :class:`kpg.execute.access_control.AccessControl`."""

from kpg.execute.changes.table_pipeline import Stage
from kpg.postgres.definition_privileges import track_ownership
from kpg.postgres.roles import set_role
from kpg.postgres.row_security import (
    ROW_POLICIES,
    alter_row_security,
    check_no_dependent_views,
    policies_reading,
    rename_column_in_policies,
)

__all__ = [
    "alter_row_security",
    "check_no_dependent_views",
    "policies_reading",
    "rename_column_in_policies",
    "row_policies",
    "set_role",
    "track_ownership",
]


def row_policies() -> Stage:
    """Return the stage that checks written rows against policies."""
    return ROW_POLICIES
