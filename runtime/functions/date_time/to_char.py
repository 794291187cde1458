"""``to_char`` and ``to_number`` of numbers by Postgres' template patterns.

The entries of ``to_char``, ``to_date``, ``to_timestamp`` and ``to_number`` for all types are registered here.
"""

import math
import re
from collections.abc import Callable
from dataclasses import field
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final

from kpg.runtime.functions.date_time import templates
from kpg.runtime.functions.date_time.fields import SECOND
from kpg.runtime.functions.date_time.operations import MOMENTS, SPANS, exact
from kpg.runtime.functions.registry import Memoized, Overload, Signature, scalar
from kpg.runtime.functions.type_rules import is_exact_or_numeric, is_unknown
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call
from kpg.runtime.types import DATE, DOUBLE, INTERVAL, NUMERIC, TEXT, TIMESTAMPTZ, Kind, Type
from kpg.runtime.values.intervals import Interval
from kpg.runtime.values.numeric import EXACT
from kpg.runtime.values.words import DAY, EARLIEST, LATEST, is_infinite

TOKEN: Final = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.)*)"?|\\(?P<escaped>.)'
    r"|(?P<sign>FM|EEEE|PR|MI|PL|SG|RN|SP|TH|[09.,BCDGLSV])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
NUMERALS: Final = (
    *((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL")),
    *((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")),
)


@dataclass(frozen=True, slots=True)
class Template:
    """A number's template: what it is made of, in order, and what that says of the whole."""

    parts: tuple[tuple[str, str], ...]
    """Signs in capitals with the text that they were written as; "" for text that stands for itself."""
    before: int
    """Places for digits before the point."""
    after: int
    shift: int
    """Digits behind ``V``."""
    fill: bool
    signs: frozenset[str]
    first_zero: int
    """The number of places before the first 0; as many as there are before the point if there is none."""


@lru_cache(maxsize=512)
def template_of(text: str) -> Template:
    """A template taken apart."""
    parts: list[tuple[str, str]] = []
    for found in TOKEN.finditer(text):
        if found["sign"]:
            parts.append((found["sign"].upper(), found["sign"]))
        elif found["quoted"] is not None:
            parts.append(("", re.sub(r"\\(.)", r"\1", found["quoted"])))
        else:
            parts.append(("", found["escaped"] or found["other"]))
    before = after = shift = 0
    first_zero = None
    place = "before"
    for sign, _ in parts:
        if sign in ("0", "9"):
            if place == "before":
                first_zero = before if sign == "0" and first_zero is None else first_zero
                before += 1
            elif place == "after":
                after += 1
            else:
                shift += 1
        elif sign in (".", "D"):
            place = "after"
        elif sign == "V":
            place = "shift"
    signs = frozenset(sign for sign, _ in parts if sign)
    zero = before if first_zero is None else first_zero
    return Template(tuple(parts), before, after, shift, "FM" not in signs, signs, zero)


def shown(value: Decimal, text: str) -> str:
    """A number by a template."""
    if not text:
        return ""
    template = template_of(text)
    if "RN" in template.signs:
        return _roman(value, template)
    if not value.is_finite():
        return _no_number(value, template)
    if "EEEE" in template.signs:
        return _scientific(value, template)
    scaled = value.scaleb(template.shift, EXACT)
    rounded = scaled.quantize(Decimal(1).scaleb(-template.after), ROUND_HALF_UP, EXACT)
    negative = rounded < 0
    if not rounded and value < 0:
        negative = False
    whole, _, fraction = f"{abs(rounded):f}".partition(".")
    places = template.before + template.shift
    behind = fraction if template.fill else _trimmed(template, fraction)
    if whole == "0" and template.before and template.first_zero >= template.before and behind:
        whole = ""
    if len(whole) > places:
        whole = "#" * places
        fraction = "#" * template.after
    return _laid_out(template, whole.rjust(places), fraction, negative)


def shown_float(value: float, text: str, most: int) -> str:
    """A float by a template: no more than so many of its digits are known."""
    template = template_of(text)
    if not math.isfinite(value):
        filled = "#" * template.before + "." + "#" * (template.after or "EEEE" in template.signs)
        filled += "#" * 4 if "EEEE" in template.signs else ""
        return ("-" if value < 0 else " ") + (
            filled if template.after or "EEEE" in template.signs else filled[:-1]
        )
    exact = Decimal(value)
    if "EEEE" in template.signs or "RN" in template.signs:
        return shown(exact, text)
    before = len(f"{abs(int(value))}")
    after = 0 if before >= most else min(template.after, most - before)
    if after == template.after:
        return shown(exact, text)
    if before > template.before:
        return ("-" if value < 0 else " ") + "#" * template.before + "."
    rounded = exact.quantize(Decimal(1).scaleb(-after), ROUND_HALF_UP, EXACT)
    laid = shown(rounded, text)
    return _cut(laid, template.after - after) if template.fill else laid


def _cut(text: str, many: int) -> str:
    """The text without its last digits, and without a point that ends it then."""
    places = [place for place, character in enumerate(text) if character.isdigit()][-many:]
    kept = "".join(character for place, character in enumerate(text) if place not in places)
    return re.sub(r"(?<=[0-9#])\.(?![0-9])", "", kept)


def _no_number(value: Decimal, template: Template) -> str:
    """NaN and the infinities, as far as there are places for their names."""
    name, sign = ("NaN", " ") if value.is_nan() else ("Infinity", "-" if value < 0 else " ")
    if "EEEE" in template.signs:
        return f"{sign}{'#' * template.before}.{'#' * (template.after + 4)}"
    if len(name) <= template.before:
        return (sign.strip() + name).rjust(template.before + 1)
    return sign + "#" * template.before + ("." + "#" * template.after if template.after else "")


def _laid_out(template: Template, whole: str, fraction: str, negative: bool) -> str:
    """The digits in their places, with signs and separators around."""
    out: list[str] = []
    ordinal = "" if negative or template.after or "#" in whole else whole.strip()
    place, started = 0, False
    pending = _leading_sign(template, negative)
    point = False
    if not template.fill:
        fraction = _trimmed(template, fraction)
    for sign, written in template.parts:
        if sign in ("0", "9"):
            if point:
                digit, fraction = fraction[:1], fraction[1:]
                out.append(digit)
                continue
            digit = whole[place] if place < len(whole) else " "
            zero = place >= template.first_zero
            place += 1
            if digit == " " and zero:
                digit = "0"
            if digit != " " and not started:
                started = True
                out.append(pending)
                pending = ""
            out.append(digit if digit != " " else " " if template.fill else "")
        elif sign in (".", "D"):
            point = True
            if not started:
                started = True
                out.append(pending)
                pending = ""
            out.append(".")
        elif sign == "TH":
            out.append(_ordinal(ordinal, written))
        elif sign in (",", "G"):
            out.append("," if started else " " if template.fill else "")
        else:
            out.append(_mark(sign, written, template, negative))
    text = "".join(out)
    return pending + text if pending else text


def _ordinal(digits: str, written: str) -> str:
    if not digits:
        return ""
    ending = "th" if digits[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
    return ending.upper() if written.isupper() else ending


def _trimmed(template: Template, fraction: str) -> str:
    """Without zeros at the end, but for those that the template has a 0 for."""
    places = []
    point = False
    for sign, _ in template.parts:
        if sign in (".", "D"):
            point = True
        elif point and sign in ("0", "9"):
            places.append(sign)
    keep = max((at + 1 for at, sign in enumerate(places) if sign == "0"), default=0)
    shown_ = fraction
    while len(shown_) > keep and shown_.endswith("0"):
        shown_ = shown_[:-1]
    return shown_


def _leading_sign(template: Template, negative: bool) -> str:
    """What stands before the first digit."""
    signs = template.signs
    if signs & {"MI", "PL", "SG"}:
        return "" if signs & {"MI", "SG"} else ("-" if negative else " " if template.fill else "")
    if "PR" in signs:
        return "<" if negative else " " if template.fill else ""
    if "S" in signs:
        leads = next(sign for sign, _ in template.parts if sign in ("S", "0", "9", ".", "D")) == "S"
        return ("-" if negative else "+") if leads else ""
    return "-" if negative else " " if template.fill else ""


def _mark(sign: str, written: str, template: Template, negative: bool) -> str:
    match sign:
        case "":
            return written
        case "S":
            leads = next(one for one, _ in template.parts if one in ("S", "0", "9", ".", "D")) == "S"
            return "" if leads else "-" if negative else "+"
        case "MI":
            return "-" if negative else " " if template.fill else ""
        case "PL":
            return "+" if not negative else " " if template.fill else ""
        case "SG":
            return "-" if negative else "+"
        case "PR":
            return ">" if negative else " " if template.fill else ""
        case "L":
            return " "
        case _:
            return ""


def _roman(value: Decimal, template: Template) -> str:
    number = int(value.to_integral_value(ROUND_HALF_UP))
    if not 1 <= number <= 3999:
        return "#" * 15
    text = ""
    for size, letters in NUMERALS:
        while number >= size:
            text += letters
            number -= size
    if any(written == "rn" for sign, written in template.parts if sign == "RN"):
        text = text.lower()
    return text.rjust(15) if template.fill else text


def _scientific(value: Decimal, template: Template) -> str:
    if not value:
        mantissa, exponent = Decimal(0), 0
    else:
        exponent = value.adjusted()
        mantissa = value.scaleb(-exponent, EXACT).quantize(Decimal(1).scaleb(-template.after), ROUND_HALF_UP)
        if abs(mantissa) >= 10:
            mantissa, exponent = mantissa / 10, exponent + 1
    text = f"{mantissa:.{template.after}f}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return text if value < 0 else f" {text}" if template.fill else text


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


def _with_template(types: tuple[Type, ...], accepted: Callable[[Type], Type | None]) -> Signature | None:
    if len(types) != 2 or not (types[1].is_text or is_unknown(types[1])):
        return None
    found = accepted(types[0])
    return None if found is None else Signature((found, TEXT), TEXT)


def _moment(types: tuple[Type, ...]) -> Signature | None:
    def accepted(type_: Type) -> Type | None:
        if type_.kind is Kind.DATE:
            return TIMESTAMPTZ
        return type_ if type_.kind in MOMENTS else None

    return _with_template(types, accepted)


def _span(types: tuple[Type, ...]) -> Signature | None:
    return _with_template(
        types, lambda type_: INTERVAL if type_.kind in SPANS or type_.kind is Kind.TIME else None
    )


def _exact(types: tuple[Type, ...]) -> Signature | None:
    return _with_template(types, lambda type_: NUMERIC if is_exact_or_numeric(type_) else None)


def _float(types: tuple[Type, ...]) -> Signature | None:
    return _with_template(types, lambda type_: type_ if type_.is_float else None)


def _since_epoch(seconds: float) -> int:
    """Return the timestamp ``seconds`` after 1970."""
    if math.isnan(seconds):
        raise ValueError("timestamp cannot be NaN")
    if math.isinf(seconds):
        return LATEST if seconds > 0 else EARLIEST
    return round(seconds * SECOND)


def _of_moment(call: Call) -> Callable[[int, str], str | None]:
    zone = "UTC" if call.args[0].type.kind is Kind.TIMESTAMPTZ else ""
    return lambda stamp, template: (
        templates.shown(templates.of_stamp(stamp, zone), template)
        if template and not is_infinite(stamp)
        else None
    )


def _of_span(value: Interval, template: str) -> str | None:
    return templates.shown(templates.of_interval(value), template) if template else None


def _of_float(call: Call) -> Callable[[float, str], str]:
    most = 6 if call.args[0].type.kind is Kind.REAL else 15
    return lambda value, template: shown_float(value, template, most)


scalar(
    "to_char",
    "a timestamp, interval or number, and a template",
    "The value as text by a template of Postgres' patterns.",
    {
        "to_char(TIMESTAMP '2002-04-20 17:31:12.66', 'HH12:MI:SS')": "'05:31:12'",
        "to_char(DATE '2002-04-20', 'FMDay, FMDD Mon YYYY')": "'Saturday, 20 Apr 2002'",
        "to_char(INTERVAL '15h 2m 12s', 'HH24:MI:SS')": "'15:02:12'",
        "to_char(-125.8, '999D99S')": "'125.80-'",
        "to_char(1485, '9,999')": "' 1,485'",
    },
    Overload(_moment, Memoized(_of_moment)),
    Overload(_span, Memoized(lambda call: _of_span)),
    Overload(_exact, Memoized(lambda call: shown)),
    Overload(_float, Memoized(_of_float)),
)
scalar(
    "to_date",
    "text and a template",
    "The date that a text means by a template.",
    {"to_date('05 Dec 2000', 'DD Mon YYYY')": "DATE '2000-12-05'"},
    Overload(
        exact(DATE, TEXT, TEXT), Memoized(lambda call: lambda text, form: templates.stamp(text, form) // DAY)
    ),
)
scalar(
    "to_timestamp",
    "text and a template, or seconds since 1970",
    "The moment that a text means by a template.",
    {
        "to_timestamp('05 Dec 2000', 'DD Mon YYYY')": "TIMESTAMPTZ '2000-12-05 00:00:00+00'",
        "to_timestamp(1284352323)": "TIMESTAMPTZ '2010-09-13 04:32:03+00'",
    },
    Overload(exact(TIMESTAMPTZ, TEXT, TEXT), Memoized(lambda call: templates.stamp)),
    Overload(exact(TIMESTAMPTZ, DOUBLE), Memoized(lambda call: _since_epoch)),
)
scalar(
    "to_number",
    "text and a template",
    "The number that a text means by a template.",
    {"to_number('12,454.8-', '99G999D9S')": "-12454.8"},
    Overload(exact(NUMERIC, TEXT, TEXT), Memoized(lambda call: number)),
)
