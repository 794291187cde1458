"""Rendering: a physical plan becomes operators, those that exist already being shared.

Two nodes that compute the same thing from the same inputs have the same *fingerprint*; the registry
maps fingerprints to the live operators, so that a new view builds only what nobody has built before it.
"""

from kpg.runtime.render.build import Rendered, disconnect, render
from kpg.runtime.render.context import with_inputs

__all__ = ["Rendered", "disconnect", "render", "with_inputs"]
