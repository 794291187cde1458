"""Row values in expressions."""

from kpg.runtime.functions.registry import Memoized, primitive

primitive("$row", Memoized(lambda call: lambda *fields: fields, takes_nulls=True))


primitive("$whole_row", Memoized(lambda call: _whole, takes_nulls=True))
primitive("$row_field", Memoized(lambda call: lambda value, place: value[place]))
primitive("$row_is_null", Memoized(lambda call: _is_null, takes_nulls=True))
primitive("$row_is_not_null", Memoized(lambda call: _is_not_null, takes_nulls=True))


def _whole(*fields: object) -> tuple[object, ...] | None:
    """A row of a relation; NULL where an outer join has no row, and so all is NULL."""
    return None if all(field is None for field in fields) else fields


def _is_null(value: tuple[object, ...] | None) -> bool:
    """Whether it is NULL, or all of its fields are."""
    return value is None or all(field is None for field in value)


def _is_not_null(value: tuple[object, ...] | None) -> bool:
    """Whether none of its fields is NULL."""
    return value is not None and all(field is not None for field in value)
