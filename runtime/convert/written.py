"""Columns of words as what is written of their values: each distinct one once."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.runtime.dictionary import Dictionary
from kpg.runtime.types import NULL, Type
from kpg.runtime.values.codec import codec_of, word_functions

Written = TypeVar("Written")


def written(
    words: NDArray[np.int64], type_: Type, dictionary: Dictionary, write: Callable[[Any], Written]
) -> list[Written | None]:
    """What ``write`` makes of each value, as codecs take it; None for NULL."""
    listed = words.tolist()
    known: dict[int, Written | None] = dict.fromkeys(listed)
    known.pop(NULL, None)
    if type_.is_interned:
        decode = codec_of(type_).decode
        codes = list(known)
        for code, string in zip(codes, dictionary.decode(np.array(codes, np.int64)), strict=True):
            assert string is not None
            known[code] = write(decode(string))
    else:
        _, from_word = word_functions(type_)
        for word in known:
            known[word] = write(from_word(word))
    known[NULL] = None
    return [known[word] for word in listed]
