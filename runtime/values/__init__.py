"""Values of SQL types: their words or dictionary strings, their text, and their Python objects.

A *value* here is an argument or result of memoized functions: ``bool``, ``int`` (also for dates, times
and unscaled decimals), ``float`` or ``str``. The modules of other types define their own values.
"""

from kpg.runtime.values.codec import Codec, codec_of, string_encoder_of
from kpg.runtime.values.type_codecs import Encoder, encoder_of
from kpg.runtime.values.words import UnrepresentableValue, WrongPythonType

__all__ = [
    "Codec",
    "Encoder",
    "UnrepresentableValue",
    "WrongPythonType",
    "codec_of",
    "encoder_of",
    "string_encoder_of",
]
