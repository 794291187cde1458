"""What ALTER TABLE and its like do: one action each."""

from typing import TYPE_CHECKING

from kpg.compiler.constraints import Constraint, Rule, Sequence
from kpg.runtime.records import dataclass
from kpg.runtime.types import ColumnDef, Type

if TYPE_CHECKING:
    from kpg.compiler.triggers import Bound


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN."""

    column: ColumnDef
    rule: Rule
    constraints: tuple[Constraint, ...]
    sequence: Sequence | None
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameTo:
    """RENAME TO."""

    name: str


@dataclass(frozen=True, slots=True)
class SetSchema:
    """SET SCHEMA."""

    schema: str


@dataclass(frozen=True, slots=True)
class AlterType:
    """ALTER COLUMN TYPE; ``using`` is the text of an expression, empty for a cast."""

    name: str
    type: Type
    using: str


@dataclass(frozen=True, slots=True)
class SetRule:
    """ALTER COLUMN SET DEFAULT and its like: ``part`` of a rule gets a text, which may be empty."""

    name: str
    part: str
    text: str
    sequence: Sequence | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterIdentity:
    """ALTER COLUMN of its identity: ``kind`` is empty if that stays; options are those of its sequence."""

    name: str
    kind: str
    options: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class SetNotNull:
    """ALTER COLUMN SET or DROP NOT NULL."""

    name: str
    required: bool


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """ADD CONSTRAINT; with ``index`` it takes over an index of that name."""

    constraint: Constraint
    checked: bool


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP CONSTRAINT."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class RenameConstraint:
    """RENAME CONSTRAINT."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Attach:
    """ATTACH PARTITION, with the bound of what is a partition from now on."""

    child: str
    bound: "Bound"


@dataclass(frozen=True, slots=True)
class Detach:
    """DETACH PARTITION."""

    child: str


@dataclass(frozen=True, slots=True)
class Secure:
    """ENABLE, DISABLE, FORCE or NO FORCE ROW LEVEL SECURITY; None is left as it is."""

    enabled: bool | None = None
    forced: bool | None = None


@dataclass(frozen=True, slots=True)
class SettleConstraint:
    """ALTER CONSTRAINT, or, if it ``validates``, VALIDATE CONSTRAINT."""

    name: str
    validates: bool
    deferrable: bool = False
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class Nothing:
    """What changes nothing that can be seen: owners, statistics, storage."""

    what: str


@dataclass(frozen=True, slots=True)
class SetInvoker:
    """SET or RESET (security_invoker) of a view."""

    invoker: bool


Action = (
    AddColumn
    | DropColumn
    | RenameColumn
    | RenameTo
    | SetSchema
    | AlterType
    | SetRule
    | AlterIdentity
    | SetNotNull
    | AddConstraint
    | DropConstraint
    | RenameConstraint
    | SettleConstraint
    | Attach
    | Detach
    | Secure
    | Nothing
    | SetInvoker
)
