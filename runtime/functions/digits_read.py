"""``to_number``: a text read by a template of numbers, place for place as Postgres reads it."""

from dataclasses import field
from decimal import Decimal
from typing import Final

from kpg.runtime.functions.digits import Template, template_of
from kpg.runtime.records import dataclass
from kpg.runtime.values.numeric import EXACT

DATA: Final = "0123456789.,+-"
"""What a pattern that stands for something else never skips."""
SKIPPED: Final = {"L": 1, "TH": 2}


@dataclass(slots=True)
class Reading:
    """How far a text has been read, and what was found in it."""

    text: str
    template: Template
    at: int = 0
    sign: str = ""
    digits: list[str] = field(default_factory=list)
    point: bool = False
    before: int = 0
    after: int = 0

    @property
    def next(self) -> str:
        """The character that comes; "" at the end."""
        return self.text[self.at : self.at + 1]


def number(text: str, template: str) -> Decimal:
    """The number that a text means by a template; ValueError if none."""
    parsed = template_of(template)
    if "RN" in parsed.signs or "EEEE" in parsed.signs:
        raise ValueError("this template is for output only")
    reading = Reading(text, parsed)
    for place, (sign, _) in enumerate(parsed.parts):
        if not reading.next:
            break
        _read(reading, sign, place)
    found = "".join(reading.digits)
    if not any(one.isdigit() for one in found):
        raise ValueError(f'invalid input syntax for type numeric: "{(reading.sign or " ") + found}"')
    value = Decimal(found)
    if parsed.shift:
        value = value.scaleb(-parsed.shift, EXACT)
    return -value if reading.sign == "-" else value


def _read(reading: Reading, sign: str, place: int) -> None:
    """What one pattern takes of the text."""
    match sign:
        case "0" | "9" | "." | "D":
            _digit(reading, sign, place)
            reading.at += 1
        case "," | "G":
            if reading.next == "," and (reading.digits or reading.template.fill):
                reading.at += 1
        case "MI" | "PL" | "SG":
            wanted = {"MI": "-", "PL": "+", "SG": "+-"}[sign]
            if reading.next in wanted:
                reading.sign = reading.next
                reading.at += 1
            else:
                _skip(reading, 1)
        case "L" | "TH":
            _skip(reading, SKIPPED[sign])
        case "":
            reading.at += len(reading.template.parts[place][1])


def _skip(reading: Reading, many: int) -> None:
    for _ in range(many):
        if reading.next and reading.next not in DATA:
            reading.at += 1


def _digit(reading: Reading, sign: str, place: int) -> None:
    """A digit or a point, with a sign before or behind it."""
    if reading.next == " ":
        reading.at += 1
    if not reading.sign and sign in "09" and not reading.before + reading.after:
        _leading(reading)
    taken = False
    if reading.next.isdigit():
        if reading.point and reading.after == reading.template.after:
            return
        reading.digits.append(reading.next)
        reading.before, reading.after = reading.before + (not reading.point), reading.after + reading.point
        taken = True
    elif reading.next == "." and reading.template.signs & {".", "D"} and not reading.point:
        reading.digits.append(".")
        reading.point = taken = True
    if reading.next and not reading.sign and reading.before + reading.after:
        _trailing(reading, taken)


def _leading(reading: Reading) -> None:
    """A sign before the first digit."""
    bracket = reading.next == "<" and "PR" in reading.template.signs
    if reading.next in ("+", "-") and _sign_first(reading.template) is not False:
        reading.sign = reading.next
        reading.at += 1
    elif bracket:
        reading.sign = "-"
        reading.at += 1


def _trailing(reading: Reading, taken: bool) -> None:
    """A sign that may stand behind the last digit, which the pattern there has not been asked for yet."""
    signs = reading.template.signs
    if "S" in signs:
        following = reading.text[reading.at + 1 : reading.at + 2]
        if taken and following in ("+", "-"):
            reading.sign = following
            reading.at += 1
    elif not taken and signs & {"MI", "PL", "SG"} and reading.next in ("+", "-"):
        reading.sign = reading.next


def _sign_first(template: Template) -> bool | None:
    """Whether S stands before the digits, if there is one."""
    for sign, _ in template.parts:
        if sign == "S":
            return True
        if sign in ("0", "9"):
            return False if "S" in template.signs else None
    return None
