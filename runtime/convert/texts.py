"""Texts in Arrow arrays: blanks at the ends of CHAR, and what is too long."""

import pyarrow as pa

from kpg.runtime.types import Type


class UnfitAt(Exception):
    """The value at ``position`` of the array does not fit the column's type."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def padded(array: pa.Array, type_: Type) -> pa.Array:
    """CHAR as it is shown."""
    if not type_.is_padded:
        return array
    import pyarrow.compute as pc

    return pc.utf8_rpad(array, type_.precision)


def without_blanks(array: pa.Array) -> pa.Array:
    """The texts without blanks at their ends."""
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, without_blanks(array.dictionary))
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return pc.utf8_rtrim(array, " ") if pc.any(pc.ends_with(array, " ")).as_py() else array


def check_length(array: pa.Array, type_: Type) -> None:
    """Raise UnfitAt for the first string of more characters than the type allows."""
    if not type_.precision or not len(array):
        return
    import pyarrow.compute as pc  # takes as long to import as the rest of pyarrow, three times over

    encoded = pa.types.is_dictionary(array.type)
    values = array.dictionary if encoded else array
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if (pc.max(pc.binary_length(values)).as_py() or 0) <= type_.precision:
        return  # as many characters at most; to count those takes far longer
    lengths = pc.utf8_length(values)
    if (pc.max(lengths).as_py() or 0) <= type_.precision:
        return
    if encoded:
        check_length(array.cast(pa.large_string()), type_)  # the dictionary may hold more than the array
        return
    raise UnfitAt(int(pc.index(pc.greater(lengths, type_.precision), True).as_py()))
