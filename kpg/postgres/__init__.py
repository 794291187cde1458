"""Access control and SQLSTATE codes, as in Postgres: the extension that comes with kpg.

``roles`` and ``passwords`` identify users, ``grants`` and ``definition_privileges`` control what a role may
do, ``row_security`` which rows it may write. ``sqlstate`` maps errors to Postgres' codes and fields.
The core does not import it. It calls :func:`register` when it meets a statement that it cannot run itself, or
a role or policy.
"""

from typing import TYPE_CHECKING

from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.access_control import install
from kpg.execute.registry import Kind
from kpg.execute.registry import register as register_statement
from kpg.runtime.gc_pause import LazyModule

if TYPE_CHECKING:
    from kpg.postgres import access_control
else:
    access_control = LazyModule("kpg.postgres.access_control")


def register() -> None:
    """Register the handlers of statements about roles, privileges and policies, and the access control."""
    handlers: dict[str, tuple[Kind, tuple[type, ...]]] = {
        "kpg.postgres.grants:run_grant_statement": (
            Kind.DEFINITION,
            (ddl.Grant, ddl.AlterDefaults, ddl.AlterOwner, ddl.Reassign),
        ),
        "kpg.postgres.roles:run_role_statement": (
            Kind.DEFINITION,
            (ddl.CreateRole, ddl.AlterRole, ddl.DropRole, ddl.GrantRole),
        ),
        "kpg.postgres.roles:set_role": (Kind.READ, (ast.SetRole,)),
        "kpg.postgres.row_security:define_policy": (Kind.DEFINITION, (ddl.DefinePolicy,)),
    }
    for handler, (kind, statements) in handlers.items():
        for statement in statements:
            register_statement(statement, kind, handler)
    install(access_control)
