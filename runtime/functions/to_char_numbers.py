"""``to_char`` and ``to_number`` of numbers by Postgres' template patterns.

``to_char``, ``to_date``, ``to_timestamp`` and ``to_number`` are registered here for all types.
"""

import math
import re
from collections.abc import Callable
from dataclasses import field
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final

from kpg.runtime.functions.date_time import to_char_moments
from kpg.runtime.functions.date_time.fields import SECOND
from kpg.runtime.functions.date_time.operations import MOMENTS, SPANS, exact_kinds
from kpg.runtime.functions.registry import MemoizedFunction, Overload, Signature, register_scalar
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
ROMAN_NUMERALS: Final = (
    *((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL")),
    *((10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")),
)


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template of a number: its patterns in order, and facts about the whole."""

    parts: tuple[tuple[str, str], ...]
    """Patterns in upper case with their source text, or "" with literal text."""
    integer_digits: int
    """Number of digit patterns before the point."""
    fraction_digits: int
    shift: int
    """Number of digit patterns behind ``V``."""
    fill: bool
    patterns: frozenset[str]
    first_zero: int
    """Number of digit patterns before the first 0, or ``integer_digits`` if there is no 0."""


@lru_cache(maxsize=512)
def parse_template(text: str) -> Template:
    """Parse a template."""
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
    section = "before"
    for sign, _ in parts:
        if sign in ("0", "9"):
            if section == "before":
                first_zero = before if sign == "0" and first_zero is None else first_zero
                before += 1
            elif section == "after":
                after += 1
            else:
                shift += 1
        elif sign in (".", "D"):
            section = "after"
        elif sign == "V":
            section = "shift"
    patterns = frozenset(sign for sign, _ in parts if sign)
    zero = before if first_zero is None else first_zero
    return Template(tuple(parts), before, after, shift, "FM" not in patterns, patterns, zero)


def format_number(value: Decimal, text: str) -> str:
    """Format a number by a template."""
    if not text:
        return ""
    template = parse_template(text)
    if "RN" in template.patterns:
        return _format_roman(value, template)
    if not value.is_finite():
        return _format_non_finite(value, template)
    if "EEEE" in template.patterns:
        return _format_scientific(value, template)
    shifted = value.scaleb(template.shift, EXACT)
    rounded = shifted.quantize(Decimal(1).scaleb(-template.fraction_digits), ROUND_HALF_UP, EXACT)
    negative = rounded < 0
    if not rounded and value < 0:
        negative = False
    whole, _, fraction = f"{abs(rounded):f}".partition(".")
    places = template.integer_digits + template.shift
    kept_fraction = fraction if template.fill else _trim_fraction(template, fraction)
    if (
        whole == "0"
        and template.integer_digits
        and template.first_zero >= template.integer_digits
        and kept_fraction
    ):
        whole = ""
    if len(whole) > places:
        whole = "#" * places
        fraction = "#" * template.fraction_digits
    return _layout(template, whole.rjust(places), fraction, negative)


def format_float(value: float, text: str, max_digits: int) -> str:
    """Format a float by a template, with at most ``max_digits`` significant digits."""
    template = parse_template(text)
    if not math.isfinite(value):
        filled = (
            "#" * template.integer_digits
            + "."
            + "#" * (template.fraction_digits or "EEEE" in template.patterns)
        )
        filled += "#" * 4 if "EEEE" in template.patterns else ""
        return ("-" if value < 0 else " ") + (
            filled if template.fraction_digits or "EEEE" in template.patterns else filled[:-1]
        )
    exact = Decimal(value)
    if "EEEE" in template.patterns or "RN" in template.patterns:
        return format_number(exact, text)
    before = len(f"{abs(int(value))}")
    after = 0 if before >= max_digits else min(template.fraction_digits, max_digits - before)
    if after == template.fraction_digits:
        return format_number(exact, text)
    if before > template.integer_digits:
        return ("-" if value < 0 else " ") + "#" * template.integer_digits + "."
    rounded = exact.quantize(Decimal(1).scaleb(-after), ROUND_HALF_UP, EXACT)
    formatted_text = format_number(rounded, text)
    return _drop_digits(formatted_text, template.fraction_digits - after) if template.fill else formatted_text


def _drop_digits(text: str, count: int) -> str:
    """Remove the last digits, and a point at the end."""
    places = [place for place, character in enumerate(text) if character.isdigit()][-count:]
    rest = "".join(character for place, character in enumerate(text) if place not in places)
    return re.sub(r"(?<=[0-9#])\.(?![0-9])", "", rest)


def _format_non_finite(value: Decimal, template: Template) -> str:
    """Format NaN and the infinities, if their names fit the digit patterns."""
    name, sign = ("NaN", " ") if value.is_nan() else ("Infinity", "-" if value < 0 else " ")
    if "EEEE" in template.patterns:
        return f"{sign}{'#' * template.integer_digits}.{'#' * (template.fraction_digits + 4)}"
    if len(name) <= template.integer_digits:
        return (sign.strip() + name).rjust(template.integer_digits + 1)
    return (
        sign
        + "#" * template.integer_digits
        + ("." + "#" * template.fraction_digits if template.fraction_digits else "")
    )


def _layout(template: Template, whole: str, fraction: str, negative: bool) -> str:
    """Put the digits into their positions, with signs and separators."""
    out: list[str] = []
    ordinal = "" if negative or template.fraction_digits or "#" in whole else whole.strip()
    place, has_started = 0, False
    pending = _leading_sign(template, negative)
    is_fraction = False
    if not template.fill:
        fraction = _trim_fraction(template, fraction)
    for sign, written in template.parts:
        if sign in ("0", "9"):
            if is_fraction:
                digit, fraction = fraction[:1], fraction[1:]
                out.append(digit)
                continue
            digit = whole[place] if place < len(whole) else " "
            zero = place >= template.first_zero
            place += 1
            if digit == " " and zero:
                digit = "0"
            if digit != " " and not has_started:
                has_started = True
                out.append(pending)
                pending = ""
            out.append(digit if digit != " " else " " if template.fill else "")
        elif sign in (".", "D"):
            is_fraction = True
            if not has_started:
                has_started = True
                out.append(pending)
                pending = ""
            out.append(".")
        elif sign == "TH":
            out.append(_ordinal_suffix(ordinal, written))
        elif sign in (",", "G"):
            out.append("," if has_started else " " if template.fill else "")
        else:
            out.append(_format_sign(sign, written, template, negative))
    text = "".join(out)
    return pending + text if pending else text


def _ordinal_suffix(digits: str, pattern: str) -> str:
    if not digits:
        return ""
    ending = "th" if digits[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
    return ending.upper() if pattern.isupper() else ending


def _trim_fraction(template: Template, fraction: str) -> str:
    """Remove zeros at the end, except where the template has a 0."""
    places = []
    point = False
    for sign, _ in template.parts:
        if sign in (".", "D"):
            point = True
        elif point and sign in ("0", "9"):
            places.append(sign)
    keep = max((at + 1 for at, sign in enumerate(places) if sign == "0"), default=0)
    result = fraction
    while len(result) > keep and result.endswith("0"):
        result = result[:-1]
    return result


def _leading_sign(template: Template, negative: bool) -> str:
    """Return the sign before the first digit."""
    signs = template.patterns
    if signs & {"MI", "PL", "SG"}:
        return "" if signs & {"MI", "SG"} else ("-" if negative else " " if template.fill else "")
    if "PR" in signs:
        return "<" if negative else " " if template.fill else ""
    if "S" in signs:
        leads = next(sign for sign, _ in template.parts if sign in ("S", "0", "9", ".", "D")) == "S"
        return ("-" if negative else "+") if leads else ""
    return "-" if negative else " " if template.fill else ""


def _format_sign(sign: str, text: str, template: Template, negative: bool) -> str:
    match sign:
        case "":
            return text
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


def _format_roman(value: Decimal, template: Template) -> str:
    number = int(value.to_integral_value(ROUND_HALF_UP))
    if not 1 <= number <= 3999:
        return "#" * 15
    text = ""
    for size, letters in ROMAN_NUMERALS:
        while number >= size:
            text += letters
            number -= size
    if any(written == "rn" for sign, written in template.parts if sign == "RN"):
        text = text.lower()
    return text.rjust(15) if template.fill else text


def _format_scientific(value: Decimal, template: Template) -> str:
    if not value:
        mantissa, exponent = Decimal(0), 0
    else:
        exponent = value.adjusted()
        mantissa = value.scaleb(-exponent, EXACT).quantize(
            Decimal(1).scaleb(-template.fraction_digits), ROUND_HALF_UP
        )
        if abs(mantissa) >= 10:
            mantissa, exponent = mantissa / 10, exponent + 1
    text = f"{mantissa:.{template.fraction_digits}f}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return text if value < 0 else f" {text}" if template.fill else text


NUMBER_CHARACTERS: Final = "0123456789.,+-"
"""Characters that a pattern for other text never skips."""
SKIPPED_CHARACTERS: Final = {"L": 1, "TH": 2}


@dataclass(slots=True)
class NumberReader:
    """Position in the text of a number, and the parts read."""

    text: str
    template: Template
    position: int = 0
    sign: str = ""
    digits: list[str] = field(default_factory=list)
    has_point: bool = False
    integer_digits: int = 0
    fraction_digits: int = 0

    @property
    def next(self) -> str:
        """Next character, or "" at the end."""
        return self.text[self.position : self.position + 1]


def parse_number(text: str, template: str) -> Decimal:
    """Parse a number by a template.

    Raises:
        ValueError: The text does not match the template.
    """
    parsed = parse_template(template)
    if "RN" in parsed.patterns or "EEEE" in parsed.patterns:
        raise ValueError("this template is for output only")
    reading = NumberReader(text, parsed)
    for place, (sign, _) in enumerate(parsed.parts):
        if not reading.next:
            break
        _read_pattern(reading, sign, place)
    digits = "".join(reading.digits)
    if not any(one.isdigit() for one in digits):
        raise ValueError(f'invalid input syntax for type numeric: "{(reading.sign or " ") + digits}"')
    value = Decimal(digits)
    if parsed.shift:
        value = value.scaleb(-parsed.shift, EXACT)
    return -value if reading.sign == "-" else value


def _read_pattern(reading: NumberReader, sign: str, place: int) -> None:
    """Read the text of one pattern."""
    match sign:
        case "0" | "9" | "." | "D":
            _read_digit(reading, sign, place)
            reading.position += 1
        case "," | "G":
            if reading.next == "," and (reading.digits or reading.template.fill):
                reading.position += 1
        case "MI" | "PL" | "SG":
            signs = {"MI": "-", "PL": "+", "SG": "+-"}[sign]
            if reading.next in signs:
                reading.sign = reading.next
                reading.position += 1
            else:
                _skip(reading, 1)
        case "L" | "TH":
            _skip(reading, SKIPPED_CHARACTERS[sign])
        case "":
            reading.position += len(reading.template.parts[place][1])


def _skip(reading: NumberReader, count: int) -> None:
    for _ in range(count):
        if reading.next and reading.next not in NUMBER_CHARACTERS:
            reading.position += 1


def _read_digit(reading: NumberReader, sign: str, place: int) -> None:
    """Read a digit or a point, with a sign before or behind it."""
    if reading.next == " ":
        reading.position += 1
    if not reading.sign and sign in "09" and not reading.integer_digits + reading.fraction_digits:
        _read_leading_sign(reading)
    was_read = False
    if reading.next.isdigit():
        if reading.has_point and reading.fraction_digits == reading.template.fraction_digits:
            return
        reading.digits.append(reading.next)
        reading.integer_digits, reading.fraction_digits = (
            reading.integer_digits + (not reading.has_point),
            reading.fraction_digits + reading.has_point,
        )
        was_read = True
    elif reading.next == "." and reading.template.patterns & {".", "D"} and not reading.has_point:
        reading.digits.append(".")
        reading.has_point = was_read = True
    if reading.next and not reading.sign and reading.integer_digits + reading.fraction_digits:
        _read_trailing_sign(reading, was_read)


def _read_leading_sign(reading: NumberReader) -> None:
    """Read a sign before the first digit."""
    bracket = reading.next == "<" and "PR" in reading.template.patterns
    if reading.next in ("+", "-") and _is_sign_first(reading.template) is not False:
        reading.sign = reading.next
        reading.position += 1
    elif bracket:
        reading.sign = "-"
        reading.position += 1


def _read_trailing_sign(reading: NumberReader, was_read: bool) -> None:
    """Read a sign behind the last digit, whose pattern comes later."""
    signs = reading.template.patterns
    if "S" in signs:
        following = reading.text[reading.position + 1 : reading.position + 2]
        if was_read and following in ("+", "-"):
            reading.sign = following
            reading.position += 1
    elif not was_read and signs & {"MI", "PL", "SG"} and reading.next in ("+", "-"):
        reading.sign = reading.next


def _is_sign_first(template: Template) -> bool | None:
    """Check whether S is before the digits; None without S."""
    for sign, _ in template.parts:
        if sign == "S":
            return True
        if sign in ("0", "9"):
            return False if "S" in template.patterns else None
    return None


def _template_rule(types: tuple[Type, ...], cast_type: Callable[[Type], Type | None]) -> Signature | None:
    if len(types) != 2 or not (types[1].is_text or is_unknown(types[1])):
        return None
    type_ = cast_type(types[0])
    return None if type_ is None else Signature((type_, TEXT), TEXT)


def _moment_rule(types: tuple[Type, ...]) -> Signature | None:
    def cast_type(type_: Type) -> Type | None:
        if type_.kind is Kind.DATE:
            return TIMESTAMPTZ
        return type_ if type_.kind in MOMENTS else None

    return _template_rule(types, cast_type)


def _interval_rule(types: tuple[Type, ...]) -> Signature | None:
    return _template_rule(
        types, lambda type_: INTERVAL if type_.kind in SPANS or type_.kind is Kind.TIME else None
    )


def _exact_rule(types: tuple[Type, ...]) -> Signature | None:
    return _template_rule(types, lambda type_: NUMERIC if is_exact_or_numeric(type_) else None)


def _float_rule(types: tuple[Type, ...]) -> Signature | None:
    return _template_rule(types, lambda type_: type_ if type_.is_float else None)


def _since_epoch(seconds: float) -> int:
    """Return the timestamp ``seconds`` after 1970."""
    if math.isnan(seconds):
        raise ValueError("timestamp cannot be NaN")
    if math.isinf(seconds):
        return LATEST if seconds > 0 else EARLIEST
    return round(seconds * SECOND)


def _format_moment(call: Call) -> Callable[[int, str], str | None]:
    zone = "UTC" if call.args[0].type.kind is Kind.TIMESTAMPTZ else ""
    return lambda stamp, template: (
        to_char_moments.format_parts(to_char_moments.moment_parts(stamp, zone), template)
        if template and not is_infinite(stamp)
        else None
    )


def _format_interval(value: Interval, template: str) -> str | None:
    return to_char_moments.format_parts(to_char_moments.interval_parts(value), template) if template else None


def _float_formatter(call: Call) -> Callable[[float, str], str]:
    max_digits = 6 if call.args[0].type.kind is Kind.REAL else 15
    return lambda value, template: format_float(value, template, max_digits)


register_scalar(
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
    Overload(_moment_rule, MemoizedFunction(_format_moment)),
    Overload(_interval_rule, MemoizedFunction(lambda call: _format_interval)),
    Overload(_exact_rule, MemoizedFunction(lambda call: format_number)),
    Overload(_float_rule, MemoizedFunction(_float_formatter)),
)
register_scalar(
    "to_date",
    "text and a template",
    "The date that a text means by a template.",
    {"to_date('05 Dec 2000', 'DD Mon YYYY')": "DATE '2000-12-05'"},
    Overload(
        exact_kinds(DATE, TEXT, TEXT),
        MemoizedFunction(lambda call: lambda text, form: to_char_moments.parse_timestamp(text, form) // DAY),
    ),
)
register_scalar(
    "to_timestamp",
    "text and a template, or seconds since 1970",
    "The moment that a text means by a template.",
    {
        "to_timestamp('05 Dec 2000', 'DD Mon YYYY')": "TIMESTAMPTZ '2000-12-05 00:00:00+00'",
        "to_timestamp(1284352323)": "TIMESTAMPTZ '2010-09-13 04:32:03+00'",
    },
    Overload(
        exact_kinds(TIMESTAMPTZ, TEXT, TEXT), MemoizedFunction(lambda call: to_char_moments.parse_timestamp)
    ),
    Overload(exact_kinds(TIMESTAMPTZ, DOUBLE), MemoizedFunction(lambda call: _since_epoch)),
)
register_scalar(
    "to_number",
    "text and a template",
    "The number that a text means by a template.",
    {"to_number('12,454.8-', '99G999D9S')": "-12454.8"},
    Overload(exact_kinds(NUMERIC, TEXT, TEXT), MemoizedFunction(lambda call: parse_number)),
)
