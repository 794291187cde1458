"""Around a definition: whether who asks may make it, and whose it is then."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from kpg.compiler.catalog.privileges import FIRST
from kpg.compiler.sql.parse.definitions import CreateSchema

if TYPE_CHECKING:
    from kpg.engine.engine import Engine
    from kpg.security.permitted import Defining

NOTHING: Final[AbstractContextManager[None]] = nullcontext()


def owning(engine: "Engine", statement: "Defining") -> AbstractContextManager[None]:
    """PrivilegeError unless the statement may be run in the block; what that makes gets an owner.

    As long as there is nobody but the role that every database has, there is nothing to do.
    """
    rights = engine.catalog.rights
    alone = engine.catalog.asker.user == FIRST and not (rights.owners or rights.lists or rights.defaults)
    if alone and not (isinstance(statement, CreateSchema) and statement.owner):
        return NOTHING
    from kpg.security.permitted import settling

    return settling(engine, statement)
