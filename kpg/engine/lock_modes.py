"""The modes of locks, by the names that ``pg_locks`` has for them, and which of them exclude each other."""

from typing import Final

SHARED: Final = "ShareLock"
EXCLUSIVE: Final = "ExclusiveLock"
"""Those of advisory locks, and of tables, too."""
ROW_SHARE: Final = "RowShareLock"
ROW_EXCLUSIVE: Final = "RowExclusiveLock"
"""What a table is held in by who has locked, or changed, rows of it."""
ACCESS_SHARE: Final = "AccessShareLock"
CLOSED: Final = "AccessExclusiveLock"
"""The mode that keeps readers out."""
TABLE_MODES: Final = (
    ACCESS_SHARE,
    ROW_SHARE,
    ROW_EXCLUSIVE,
    "ShareUpdateExclusiveLock",
    SHARED,
    "ShareRowExclusiveLock",
    EXCLUSIVE,
    CLOSED,
)
"""From the weakest on."""
KEY_SHARE: Final = "FOR KEY SHARE"
SHARE: Final = "FOR SHARE"
NO_KEY_UPDATE: Final = "FOR NO KEY UPDATE"
UPDATE: Final = "FOR UPDATE"
"""The modes of rows, which are no modes of tables: SQL's words for them."""
ROW_MODES: Final = (KEY_SHARE, SHARE, NO_KEY_UPDATE, UPDATE)
CHANGED: Final = "changed"
"""Of rows that an open transaction has changed: NO KEY UPDATE if they keep their keys, else UPDATE."""
SHOWN: Final = {
    CHANGED: CLOSED,
    KEY_SHARE: ACCESS_SHARE,
    SHARE: ROW_SHARE,
    NO_KEY_UPDATE: EXCLUSIVE,
    UPDATE: CLOSED,
}
"""As which modes of rows are listed."""
CONFLICTS: Final[dict[str, frozenset[str]]] = {
    ACCESS_SHARE: frozenset(TABLE_MODES[7:]),
    ROW_SHARE: frozenset(TABLE_MODES[6:]),
    ROW_EXCLUSIVE: frozenset(TABLE_MODES[4:]),
    TABLE_MODES[3]: frozenset(TABLE_MODES[3:]),
    SHARED: frozenset((ROW_EXCLUSIVE, TABLE_MODES[3], *TABLE_MODES[5:])),
    TABLE_MODES[5]: frozenset(TABLE_MODES[2:]),
    EXCLUSIVE: frozenset(TABLE_MODES[1:]),
    CLOSED: frozenset(TABLE_MODES),
    KEY_SHARE: frozenset((CHANGED, *ROW_MODES[3:])),
    SHARE: frozenset((CHANGED, *ROW_MODES[2:])),
    NO_KEY_UPDATE: frozenset((CHANGED, *ROW_MODES[1:])),
    UPDATE: frozenset((CHANGED, *ROW_MODES)),
}
"""The modes in which nobody else may have what one has in a mode."""
STRONG: Final = frozenset(TABLE_MODES[3:])
"""The modes of tables that only LOCK TABLE and definitions take."""
