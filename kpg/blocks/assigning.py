"""Variables: declared, assigned, filled from rows."""

import re
from collections.abc import Sequence
from typing import Final

from kpg.blocks.evaluating import Evaluator, Given
from kpg.blocks.frame import Frame, Record, Value, Variable, row_word, row_words
from kpg.compiler.sql import variables
from kpg.compiler.sql.blocks.cursor import Cursor
from kpg.compiler.sql.blocks.headers import target
from kpg.compiler.sql.blocks.simple import arguments
from kpg.compiler.sql.blocks.tree import Declared
from kpg.engine.engine import Engine
from kpg.runtime.errors import DataError, NotSupportedError, ProgrammingError
from kpg.runtime.types import INTEGER, NULL, TEXT, Kind, Type, array

OF_COLUMN: Final = re.compile(r"(.+?)\s*%\s*type((?:\s*\[\s*\])*)$", re.IGNORECASE | re.DOTALL)
OF_ROW: Final = re.compile(r"(.+?)\s*%\s*rowtype$", re.IGNORECASE | re.DOTALL)


def declare(evaluator: Evaluator, frame: Frame, one: Declared) -> None:
    """Make one variable known, with its first value."""
    if one.kind == "alias":
        found = frame.find(one.default.lower())
        if found is None:
            raise ProgrammingError(f'variable "{one.default}" does not exist')
        frame.declare(one.name, found)
        return
    if one.kind == "cursor":
        frame.cursors[one.name] = one
        frame.declare(one.name, Variable(one.name, TEXT, evaluator.dictionary.code(one.name)))
        return
    variable = made(evaluator, frame, one.name, one.type)
    first = evaluator.value(frame, one.default) if one.default else None
    if isinstance(variable, Record):
        if first is not None:
            assign_row(evaluator, variable, first)
    else:
        variable.constant, variable.required = one.constant, one.required
        if first is not None:
            variable.value = evaluator.value(frame, one.default, variable.type)
        variable.check()
    frame.declare(one.name, variable)


def made(evaluator: Evaluator, frame: Frame, name: str, type_text: str) -> Variable | Record:
    """A variable of a type by its text."""
    if type_text.lower() == "record":
        return Record(name)
    if type_text.lower() == "refcursor":
        return Variable(name, TEXT)
    row = OF_ROW.match(type_text)
    if row is not None:
        entry = evaluator.engine.catalog.get(plain_name(row[1]))
        return Record(name, entry.schema.names, entry.schema.types)
    type_ = type_of(evaluator, frame, type_text)
    return variable_of(name, type_)


def variable_of(name: str, type_: Type, word: int = NULL) -> Variable | Record:
    """A variable of a type."""
    return (
        Record(name, type_.labels, type_.parts) if type_.kind is Kind.RECORD else Variable(name, type_, word)
    )


def plain_name(text: str) -> str:
    """A name of a relation without quotes."""
    return text.replace('"', "").replace(" ", "")


def type_of(evaluator: Evaluator, frame: Frame | None, text: str) -> Type:
    """A type by its text, ``%TYPE`` too."""
    catalog = evaluator.engine.catalog
    column = OF_COLUMN.match(text)
    if column is None:
        return variables.declared_type(text, catalog)[0]
    name = plain_name(column[1]).lower()
    found = None if frame is None else frame.resolve(tuple(name.split(".")))
    if found is not None:
        variable, fields = found
        type_ = variable.field(fields[0]).type if fields and isinstance(variable, Record) else variable.type
    else:
        relation, _, field = name.rpartition(".")
        entry = catalog.get(relation)
        known = [one.lower() for one in entry.schema.names]
        if field not in known:
            raise ProgrammingError(f'column "{field}" of "{relation}" does not exist')
        type_ = entry.schema.types[known.index(field)]
    return array(type_) if column[2] else type_


def assign(evaluator: Evaluator, frame: Frame, target: str, text: str) -> None:
    """An assignment."""
    place = variables.target_of(target)
    variable, fields = _resolved(frame, place.name, target)
    if place.subscripts:
        whole = _part(evaluator, variable, fields)
        if whole.type.kind is not Kind.ARRAY:
            raise ProgrammingError(f"{target} has no subscripts: it is {whole.type}")
        subscripts = [evaluator.value(frame, one, INTEGER) for one in place.subscripts]
        element = evaluator.value(frame, text, whole.type.parts[0])
        put(evaluator, variable, fields, evaluator.with_element(whole, element, subscripts))
    elif isinstance(variable, Record) and not fields:
        assign_row(evaluator, variable, evaluator.value(frame, text))
    else:
        wanted = _part(evaluator, variable, fields).type
        if wanted.kind is Kind.RECORD:
            put(evaluator, variable, fields, evaluator.value(frame, text))
        else:
            put(evaluator, variable, fields, evaluator.value(frame, text, wanted))


def _resolved(frame: Frame, name: variables.Name, shown: str) -> tuple[Variable | Record, variables.Name]:
    found = frame.resolve(name)
    if found is None:
        raise ProgrammingError(f'"{shown}" is not a known variable')
    if isinstance(found[0], Variable) and found[0].constant:
        raise ProgrammingError(f'variable "{found[0].name}" is declared CONSTANT')
    return found


def _part(evaluator: Evaluator, variable: Variable | Record, fields: variables.Name) -> Value:
    if isinstance(variable, Record):
        if not fields:
            return variable.whole(evaluator.dictionary)
        value = variable.field(fields[0])
        fields = fields[1:]
    else:
        value = variable.value
    for field in fields:
        place = _field(value.type, field)
        value = Value(value.type.parts[place], row_words(value, evaluator.dictionary)[place])
    return value


def _field(type_: Type, field: str) -> int:
    labels = [label.lower() for label in type_.labels]
    if type_.kind is not Kind.RECORD or field not in labels:
        raise ProgrammingError(f'"{field}" is no field of {type_}')
    return labels.index(field)


def put(evaluator: Evaluator, variable: Variable | Record, fields: variables.Name, value: Value) -> None:
    """A value into a variable or a field of it."""
    if isinstance(variable, Record):
        if not fields:
            assign_row(evaluator, variable, value)
            return
        place = variable.place(fields[0])
        if len(fields) > 1:
            old = Value(variable.types[place], variable.words[place])
            value = _with_field(evaluator, old, fields[1:], value)
        variable.words[place] = evaluator.cast(value, variable.types[place]).word
        variable.missing = False
        return
    if fields:
        value = _with_field(evaluator, variable.value, fields, value)
    variable.value = evaluator.cast(value, variable.type)
    variable.check()


def _with_field(evaluator: Evaluator, whole: Value, fields: variables.Name, value: Value) -> Value:
    place = _field(whole.type, fields[0])
    words = row_words(whole, evaluator.dictionary)
    part = whole.type.parts[place]
    if len(fields) > 1:
        value = _with_field(evaluator, Value(part, words[place]), fields[1:], value)
    words[place] = evaluator.cast(value, part).word
    return Value(whole.type, row_word(whole.type, words, evaluator.dictionary))


def assign_row(evaluator: Evaluator, variable: Record, value: Value) -> None:
    """A row into a record."""
    if value.type.kind is not Kind.RECORD:
        if value.word != NULL:
            raise ProgrammingError(f'record "{variable.name}" cannot be assigned {value.type}')
        variable.words = [NULL] * len(variable.types)
        return
    fill_record(
        evaluator, variable, value.type.labels, value.type.parts, row_words(value, evaluator.dictionary)
    )


def fill_record(
    evaluator: Evaluator, variable: Record, names: Sequence[str], types: Sequence[Type], words: Sequence[int]
) -> None:
    """The values of a row into a record; one of a declared type has its columns."""
    variable.missing = False
    if not variable.declared:
        variable.assign(names, types, words)
        return
    given = [Value(type_, word) for type_, word in zip(types, words, strict=True)]
    given += [Value(TEXT, NULL)] * (len(variable.types) - len(given))
    variable.words = [
        NULL if one.word == NULL else evaluator.cast(one, wanted).word
        for one, wanted in zip(given, variable.types, strict=False)
    ]


def fill(evaluator: Evaluator, frame: Frame, targets: Sequence[str], given: Given, place: int | None) -> None:
    """A row of a query into variables; NULLs if there is none."""
    values = [Value(type_, NULL) for type_ in given.types] if place is None else given.row(place)
    found = [_resolved(frame, variables.target_of(one).name, one) for one in targets]
    if len(found) == 1 and isinstance(found[0][0], Record) and not found[0][1]:
        record = found[0][0]
        single = len(values) == 1 and values[0].type.kind is Kind.RECORD and record.declared
        if single and len(record.types) != 1:
            assign_row(evaluator, record, values[0])
            return
        fill_record(evaluator, record, given.names, given.types, [one.word for one in values])
        return
    for one in targets:
        if variables.target_of(one).subscripts:
            raise NotSupportedError("INTO an element of an array is not supported", hint="use a variable")
    for position, (variable, fields) in enumerate(found):
        if position < len(values):
            put(evaluator, variable, fields, values[position])
        else:
            part = _part(evaluator, variable, fields)
            put(evaluator, variable, fields, Value(part.type, NULL))


def out_targets(engine: Engine, text: str, outs: Sequence[str]) -> list[str]:
    """The variables in a CALL that its OUT parameters are assigned to."""
    cursor = Cursor(text)
    cursor.need("CALL")
    name = target(cursor)
    given = arguments(cursor)
    schema, _, plain = name.lower().rpartition(".")
    found = []
    for routine in engine.catalog.find_routines(plain, schema):
        places = {one.name.lower(): place for place, one in enumerate(routine.parameters)}
        named = {key.lower(): value for key, value in given if key}
        if len(routine.parameters) < len(given) or any(out.lower() not in places for out in outs):
            continue
        for out in outs:
            place = places[out.lower()]
            found.append(named.get(out.lower()) or (given[place][1] if place < len(given) else ""))
        return found
    return found


def number(value: Value, what: str) -> int:
    """A number that a statement needs."""
    if value.word == NULL:
        raise DataError(f"{what} must not be null")
    return value.word
