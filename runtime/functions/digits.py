"""``to_char`` of numbers and ``to_number``, by Postgres' template patterns."""

import math
import re
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final

from kpg.runtime.records import dataclass
from kpg.runtime.values.numeric import EXACT

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
