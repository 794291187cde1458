"""What depends on a session's style: text of moments and their like, and moments of text."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kpg.runtime.functions import templates
from kpg.runtime.functions.registry import Memoized, primitive
from kpg.runtime.scalar import Call
from kpg.runtime.values import styles, zones
from kpg.runtime.values.styled import abbreviation


def _written(call: Call) -> Callable[..., str]:
    type_ = call.args[0].type
    return lambda value, style: styles.writer_of(type_, styles.style_of(style))(value)


def _read(call: Call) -> Callable[..., Any]:
    return lambda text, style: styles.reader_of(call.type, styles.style_of(style))(text)


def _by_template(word: int, template: str, zone: str) -> str | None:
    where = zones.zone(zone)
    local = zones.to_local(word, where)
    seconds = (local - word) // 1_000_000
    parts = replace(templates.of_stamp(local, abbreviation(word, where)), east=seconds)
    return templates.shown(parts, template) if template else None


def _east(word: int, zone: str) -> int:
    """How many seconds clocks of a zone are ahead of Greenwich."""
    return (zones.to_local(word, zones.zone(zone)) - word) // 1_000_000


primitive("$in_style", Memoized(_written))
primitive("$read_in_style", Memoized(_read))
primitive("$by_template", Memoized(lambda call: _by_template))
primitive("$east", Memoized(lambda call: _east))
