"""Values of SQL types: their words or dictionary strings, their text, and their Python objects.

A *value* here is the argument or result of functions that run once for each distinct argument: ``bool``,
``int`` (also for dates, times and unscaled decimals), ``float``, ``str``; the modules of other types name
theirs.
"""

from kpg.runtime.values.codec import Codec, codec_of, speller_of
from kpg.runtime.values.type_codecs import Encoder, encoder_of
from kpg.runtime.values.words import Mistyped, Unfit

__all__ = ["Codec", "Encoder", "Mistyped", "Unfit", "codec_of", "encoder_of", "speller_of"]
