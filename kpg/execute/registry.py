"""Registry of statement handlers, and of the stages of tables that are not in the core.

A handler is the function that runs a statement class, within the transaction rules of its kind.

A handler takes the engine and the statement. It is registered as a function, or as a reference
``"module:function"`` that is imported when the first statement of its class runs. An extension registers the
statement classes that it adds.
"""

import enum
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from kpg.api.result import Result
from kpg.api.view import MaintainedView
from kpg.compiler.sql.parse import definitions as ddl
from kpg.compiler.sql.parse import statements as ast
from kpg.execute.changes.table_pipeline import Stage, register_stage
from kpg.runtime.errors import NotSupportedError
from kpg.runtime.gc_pause import LazyModule
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.execute import access_control
    from kpg.runtime import extensions
else:
    access_control = LazyModule("kpg.execute.access_control")
    extensions = LazyModule("kpg.runtime.extensions")

Outcome = Result | MaintainedView | None
Handler = Callable[[Engine, Any], Outcome]


class Kind(enum.Enum):
    """The transaction rules of a statement; see :func:`kpg.execute.statements.run`."""

    CONTROL = "opens or ends transactions and savepoints, or runs another statement"
    READ = "changes neither rows nor definitions; settings of the session may change"
    CHANGE = "changes rows"
    DEFINITION = "changes the catalog"


class Registration:
    """The kind and the handler of a statement class."""

    __slots__ = ("_handler", "kind")

    def __init__(self, kind: Kind, handler: Handler | str) -> None:
        self.kind = kind
        self._handler = handler

    @property
    def handler(self) -> Handler:
        """The function; a reference is imported on first use."""
        handler = self._handler
        if isinstance(handler, str):
            self._handler = handler = cast("Handler", _import(handler))
        return handler


def _import(reference: str) -> object:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def register(statement: type, kind: Kind, handler: Handler | str) -> None:
    """Register the handler of a statement class; the latest registration counts."""
    _registrations[statement] = Registration(kind, handler)


def registration(statement: object) -> Registration:
    """Return the registration of a statement's class or nearest base class; NotSupportedError if none."""
    for base in type(statement).__mro__:
        found = _registrations.get(base)
        if found is not None:
            return found
    if not extensions.is_bundled_loaded():
        extensions.load_bundled()
        return registration(statement)
    raise NotSupportedError(
        f"no handler is registered for statements of the class {type(statement).__name__}",
        hint="register one with kpg.execute.registry.register",
    )


_HANDLERS: Final[dict[Kind, dict[str, tuple[type, ...]]]] = {
    Kind.CONTROL: {
        "kpg.execute.queries.explain:run_explain": (ast.Explain, ast.ExplainView),
        "kpg.session.settings:execute_prepared": (ast.Execute,),
    },
    Kind.READ: {
        "kpg.execute.changes.copy:copy_to": (ast.CopyTo,),
        "kpg.execute.queries.cursors:close": (ast.Close,),
        "kpg.execute.queries.cursors:declare": (ast.Declare,),
        "kpg.execute.queries.cursors:fetch": (ast.Fetch,),
        "kpg.execute.queries.explain:describe": (ast.Describe,),
        "kpg.execute.queries.explain:show_tables": (ast.ShowTables,),
        "kpg.execute.queries.explain:verify_view": (ast.VerifyView,),
        "kpg.execute.table_locks:lock_tables": (ast.LockTable,),
        "kpg.provenance.explain_row:run_explain_row": (ast.ExplainRow,),
        "kpg.session.settings:run_maintenance": (ast.Utility,),
        "kpg.session.settings:deallocate": (ast.Deallocate,),
        "kpg.session.settings:listen": (ast.Listen,),
        "kpg.session.settings:notify": (ast.Notify,),
        "kpg.session.settings:prepare": (ast.Prepare,),
        "kpg.session.settings:set_constraints": (ast.SetConstraints,),
        "kpg.session.settings:set_transaction_modes": (ast.SetTransaction,),
        "kpg.session.settings:set_setting": (ast.Set,),
        "kpg.session.settings:show": (ast.Show,),
    },
    Kind.CHANGE: {
        "kpg.execute.changes.copy:copy_from": (ast.CopyFrom,),
        "kpg.execute.changes.modifying_queries:run_modifying": (ast.ModifyingWith,),
        "kpg.execute.changes.dml:run_change": (ast.Insert, ast.Update, ast.Delete, ast.Merge),
        "kpg.execute.changes.source_positions:set_position": (ast.SetPosition,),
    },
    Kind.DEFINITION: {
        "kpg.execute.definitions.alter_table:alter_relation": (ddl.Alter,),
        "kpg.execute.definitions.create_table:create_table": (ast.CreateTable,),
        "kpg.execute.definitions.create_table:create_table_as": (ast.CreateTableAs,),
        "kpg.execute.definitions.ddl:comment": (ddl.Comment,),
        "kpg.execute.definitions.ddl:drop_other": (ddl.DropOther,),
        "kpg.execute.definitions.ddl:truncate": (ddl.Truncate,),
        "kpg.execute.definitions.domains:alter_domain": (ddl.AlterDomain,),
        "kpg.execute.definitions.domains:alter_type": (ddl.AlterUserType,),
        "kpg.execute.definitions.domains:create_domain": (ddl.CreateDomain,),
        "kpg.execute.definitions.drop:drop": (ast.Drop,),
        "kpg.execute.definitions.ego_views:create_ego_view": (ddl.CreateEgoView,),
        "kpg.execute.definitions.extensions:create_extension": (ddl.CreateExtension,),
        "kpg.execute.definitions.extensions:drop_extension": (ddl.DropExtension,),
        "kpg.execute.definitions.indexes:create_index": (ddl.CreateIndex,),
        "kpg.execute.definitions.rename:rename_schema": (ddl.RenameSchema,),
        "kpg.execute.definitions.routines:run_aggregate": (ddl.CreateAggregate, ddl.DropAggregate),
        "kpg.execute.definitions.routines:run_routine": (
            ddl.CreateFunction,
            ddl.DropFunction,
            ddl.AlterFunction,
        ),
        "kpg.execute.definitions.schema_statements:create_schema": (ddl.CreateSchema,),
        "kpg.execute.definitions.sequences:alter_sequence": (ddl.AlterSequence,),
        "kpg.execute.definitions.sequences:create_sequence": (ddl.CreateSequence,),
        "kpg.execute.definitions.user_types:create_type": (ddl.CreateType,),
        "kpg.execute.definitions.views:create_view": (ast.CreateView,),
    },
}
"""Handlers that are imported on first use."""
_registrations: Final[dict[type, Registration]] = {
    statement: Registration(kind, handler)
    for kind, handlers in _HANDLERS.items()
    for handler, statements in handlers.items()
    for statement in statements
}

register_stage(
    lambda catalog, entry: bool(catalog.row_security),
    lambda: access_control.installed().row_policies(),
)
register_stage(
    lambda catalog, entry: entry.name.lower() in catalog.partitioned,
    lambda: cast("Stage", _import("kpg.execute.changes.partition_routing:PARTITIONS")),
)
