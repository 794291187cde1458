"""Constraints, of a column or of a table, as they are written."""

from dataclasses import replace
from typing import Final

from kpg.compiler.constraints import Check, Constraint, ForeignKey, Unique
from kpg.compiler.sql.ddl import storage
from kpg.compiler.sql.ddl.reader import Reader
from kpg.runtime.unsupported_features import unsupported_syntax

ACTIONS: Final = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")


def column_constraint(reader: Reader, column: str, named: str) -> Constraint:
    """A constraint of one column."""
    if reader.take("PRIMARY", "KEY"):
        found: Constraint = _with_options(reader, Unique(named, (column,), primary=True))
    elif reader.take("UNIQUE"):
        found = _with_options(reader, Unique(named, (column,), nulls_distinct=_nulls_distinct(reader)))
    elif reader.take("REFERENCES"):
        found = _references(reader, named, (column,))
    elif reader.at("DEFERRABLE") or reader.at("INITIALLY"):
        reader.unexpected("a constraint before DEFERRABLE")
    else:
        reader.unexpected()
    return found


def table_constraint(reader: Reader, name: str = "") -> Constraint:
    """A constraint of a table."""
    if reader.take("CONSTRAINT"):
        name = reader.name()
    if reader.take("CHECK"):
        check = Check(name, reader.enclosed())
        reader.take("NO", "INHERIT")
        _deferral(reader, "CHECK")
        return check
    if reader.take("FOREIGN", "KEY"):
        columns = reader.names()
        reader.need("REFERENCES")
        return _references(reader, name, columns)
    if reader.at("EXCLUDE"):
        raise unsupported_syntax("EXCLUDE", reader.here())
    if reader.take("PRIMARY", "KEY"):
        found = Unique(name, _columns(reader), primary=True)
    elif reader.take("UNIQUE"):
        distinct = _nulls_distinct(reader)
        found = Unique(name, _columns(reader), nulls_distinct=distinct)
    else:
        reader.unexpected("a constraint")
    return _with_options(reader, found)


def _columns(reader: Reader) -> tuple[str, ...]:
    place = reader.place
    names = reader.names() if not reader.at("USING") else reader.refuse("a constraint USING INDEX")
    if len({name.lower() for name in names}) < len(names):
        reader.skip(place - reader.place)
        reader.wrong("a column is named twice in a key")
    return names


def _nulls_distinct(reader: Reader) -> bool:
    if reader.take("NULLS", "NOT", "DISTINCT"):
        return False
    reader.take("NULLS", "DISTINCT")
    return True


def _with_options(reader: Reader, key: Unique) -> Unique:
    """UNIQUE or PRIMARY KEY with its INCLUDE, behind which storage parameters and deferral may stand."""
    if reader.take("INCLUDE"):
        key = replace(key, included=reader.names())
    if reader.take("WITH"):
        storage.parameters(reader, storage.INDEX)
    if reader.take("USING", "INDEX", "TABLESPACE"):
        storage.tablespace(reader)
    _, deferred = _deferral(reader, "")
    if deferred:
        reader.skip(-1)
        reader.refuse("a key that is INITIALLY DEFERRED", "keys are checked at the end of each statement")
    return key


def _deferral(reader: Reader, refused: str) -> tuple[bool, bool]:
    """DEFERRABLE and INITIALLY, in any order; whether it can be, and is, deferred."""
    deferrable = deferred = False
    while True:
        if reader.take("NOT", "DEFERRABLE"):
            continue
        if reader.take("DEFERRABLE"):
            deferrable = True
        elif reader.take("INITIALLY", "DEFERRED"):
            deferrable = deferred = True
        elif not reader.take("INITIALLY", "IMMEDIATE"):
            break
    if refused and deferrable:
        reader.skip(-1)
        reader.wrong(f"{refused} constraints cannot be deferrable")
    return deferrable, deferred


def _references(reader: Reader, name: str, columns: tuple[str, ...]) -> ForeignKey:
    target = reader.relation()
    targets = reader.names() if reader.at("(") else ()
    if targets and len(targets) != len(columns):
        reader.wrong(f"a foreign key of {len(columns)} columns refers to {len(targets)}")
    found = ForeignKey(name, columns, target, targets)
    while True:
        if reader.take("MATCH"):
            kind = reader.choice("SIMPLE", "FULL", "PARTIAL")
            if kind == "PARTIAL":
                reader.skip(-1)
                reader.refuse("MATCH PARTIAL")
            found = replace(found, match=kind)
        elif reader.take("ON", "DELETE"):
            action = reader.choice(*ACTIONS)
            chosen = reader.names() if action.startswith("SET") and reader.at("(") else ()
            found = replace(found, on_delete=action, set_columns=chosen)
        elif reader.take("ON", "UPDATE"):
            found = replace(found, on_update=reader.choice(*ACTIONS))
        else:
            break
    deferrable, deferred = _deferral(reader, "")
    return replace(found, deferrable=deferrable, deferred=deferred)
