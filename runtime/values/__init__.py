"""What values of the types are: as words or strings of the dictionary, as text, and in Python.

A *value* here is what functions that run once for each distinct argument take and give: ``bool``, ``int``
(also for dates, times and unscaled decimals), ``float``, ``str``, and for the other types what their module
says.
"""

from kpg.runtime.values.codec import Codec, codec_of, speller_of
from kpg.runtime.values.type_codecs import Encoder, encoder_of
from kpg.runtime.values.words import Mistyped, Unfit

__all__ = ["Codec", "Encoder", "Mistyped", "Unfit", "codec_of", "encoder_of", "speller_of"]
