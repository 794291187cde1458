"""Magic sets: a program that computes only what goals ask for, goals being rows of a table.

``prepare`` chooses and is the way in; ``rewrite`` makes one program by ``walk`` (magic sets proper),
``linear`` and ``counting``, in the order of ``sips``; ``cycles`` keeps it stratified; ``domain`` is for
those who want to know when to give it up. ``outputs`` restricts a program to what its own outputs need.
"""

from kpg.compiler.rules.magic.rewrite import (
    Explanation,
    Policy,
    Prepared,
    Strategy,
    is_finite,
    origins,
    prepare,
    restricted,
    steps_of_levels,
)

__all__ = [
    "Explanation",
    "Policy",
    "Prepared",
    "Strategy",
    "is_finite",
    "origins",
    "prepare",
    "restricted",
    "steps_of_levels",
]
