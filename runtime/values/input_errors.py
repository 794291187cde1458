"""Error messages for invalid input text of each type, with Postgres' wording and SQLSTATE."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kpg.runtime.records import dataclass
from kpg.runtime.types import RANGE_NAMES, Kind, Type
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.words import BLANKS, parse_whole

SYNTAX, RANGE, DATE_SYNTAX, DATE_RANGE = "22P02", "22003", "22007", "22008"
NAMES: Final = {
    Kind.SMALLINT: "smallint",
    Kind.DECIMAL: "numeric",
    Kind.DOUBLE: "double precision",
    Kind.TIMESTAMPTZ: "timestamp with time zone",
    Kind.TIMETZ: "time with time zone",
    Kind.INTERVAL_DAY: "interval",
    Kind.INTERVAL_MONTH: "interval",
    Kind.JSONB: "json",
}
"""How complaints call types, where not by the SQL name in small letters."""
MOMENTS: Final = (Kind.DATE, Kind.TIME, Kind.TIMETZ, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
FIGURES: Final = re.compile(r"[-+\s]*\d+[-/:.]\d[\d\s:./TZ+-]*(?:[a-z]{2})?\s*", re.IGNORECASE | re.ASCII)
"""What has the form of a date or a time, whatever its numbers."""
YEAR: Final = re.compile(r"\s*(\d{5,})-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12]\d|3[01])\b")
"""A date that is one, but of a year that is too far away."""
SPAN: Final = re.compile(r"\s*[-+]?\d{6,}\s*[a-z]+.*", re.IGNORECASE | re.DOTALL)
ZONE: Final = re.compile(r"[-+\d\s:.]+\s([A-Za-z]+/[A-Za-z_/]+)\s*$")


@dataclass(frozen=True, slots=True)
class Complaint:
    """A message, its SQLSTATE, and more of what is wrong."""

    message: str
    sqlstate: str
    detail: str | None = None


class BadPart(ValueError):
    """A part of a value, such as an element of an array, means none."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.message)
        self.complaint = complaint


def read(text: str, type_: Type) -> Any:
    """The value that a text means; BadPart with what is wrong if it means none."""
    try:
        return codec_of(type_).parse(text)
    except BadPart:
        raise
    except (ValueError, ArithmeticError) as error:
        raise BadPart(_complaint(text, type_, error)) from None


def complaint(text: str, type_: Type) -> Complaint:
    """What is wrong with a text as a value of a type of which it means none."""
    try:
        read(text, type_)
    except BadPart as error:
        return error.complaint
    if type_.is_text:
        return Complaint(f"value too long for type {spelled(type_)}", "22001")
    of_float = "" if type_.is_float else "value "
    return Complaint(f'{of_float}"{text}" is out of range for type {spelled(type_)}', RANGE)


def spelled(type_: Type) -> str:
    """The name that complaints have for a type."""
    if type_.is_text:
        name = "character" if type_.kind is Kind.CHAR else "character varying"
        return f"{name}({type_.precision})" if type_.precision else name
    if type_.kind in (Kind.RANGE, Kind.MULTIRANGE):
        return f"{RANGE_NAMES[type_.parts[0].kind]}{type_.kind.value}".lower()
    if type_.name:
        return type_.name
    return NAMES.get(type_.kind, type_.kind.value.lower())


def _complaint(text: str, type_: Type, error: Exception) -> Complaint:
    kind = type_.kind
    if kind is Kind.ENUM:
        return Complaint(f'invalid input value for enum {type_.name}: "{text}"', SYNTAX)
    if type_.is_numeric:
        return _of_number(text, type_)
    if kind in MOMENTS:
        return _of_moment(text, type_)
    if kind in (Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH):
        if SPAN.fullmatch(text) or isinstance(error, OverflowError):
            return Complaint(f'interval field value out of range: "{text}"', "22015")
        return Complaint(f'invalid input syntax for type interval: "{text}"', DATE_SYNTAX)
    if kind in (Kind.JSON, Kind.JSONB) and str(error).startswith("\\u0000"):
        detail = "\\u0000 cannot be converted to text."
        return Complaint("unsupported Unicode escape sequence", "22P05", detail)
    if kind is Kind.JSON or kind is Kind.JSONB:
        return Complaint("invalid input syntax for type json", SYNTAX, f'"{text}" is no JSON.')
    if kind in (Kind.BIT, Kind.VARBIT, Kind.BYTEA):
        return _of_bits(text, type_)
    return _of_compound(text, type_, error)


def _of_compound(text: str, type_: Type, error: Exception) -> Complaint:
    """Of a value that is made of others, or of any other type."""
    match type_.kind:
        case Kind.ARRAY:
            known = str(error).startswith(("malformed", "upper bound", "array lower"))
            return Complaint(str(error) if known else f'malformed array literal: "{text}"', SYNTAX)
        case Kind.RECORD:
            return Complaint(f'malformed record literal: "{text}"', SYNTAX)
        case Kind.RANGE | Kind.MULTIRANGE:
            if "bound must be" in str(error):
                return Complaint("range lower bound must be less than or equal to range upper bound", "22000")
            return Complaint(f'malformed {type_.kind.value.lower()} literal: "{text}"', SYNTAX)
        case Kind.CIDR if means(text, Type(Kind.INET)):
            return Complaint(f'invalid cidr value: "{text}"', SYNTAX, "Value has bits set to right of mask.")
        case _:
            return Complaint(f'invalid input syntax for type {spelled(type_)}: "{text}"', SYNTAX)


def means(text: str, type_: Type) -> bool:
    """Whether a text means a value of a type."""
    try:
        codec_of(type_).parse(text)
    except (ValueError, ArithmeticError):
        return False
    return True


def _of_number(text: str, type_: Type) -> Complaint:
    wrong = Complaint(f'invalid input syntax for type {spelled(type_)}: "{text}"', SYNTAX)
    if type_.is_integer:
        try:
            parse_whole(text)
        except ValueError:
            return wrong
        return Complaint(f'value "{text}" is out of range for type {spelled(type_)}', RANGE)
    if "_" in text and type_.is_float:
        return wrong
    try:
        Decimal(text.strip(BLANKS))
    except (InvalidOperation, ValueError):
        return wrong
    if type_.is_float:
        return Complaint(f'"{text}" is out of range for type {spelled(type_)}', RANGE)
    if not type_.precision:
        return Complaint("value overflows numeric format", RANGE)
    return overflow(type_)


def overflow(type_: Type) -> Complaint:
    """Of a number that has too many digits for a NUMERIC."""
    whole = type_.precision - type_.scale
    most = f"10^{whole}" if whole else "1"
    what = f"A field with precision {type_.precision}, scale {type_.scale}"
    detail = f"{what} must round to an absolute value less than {most}."
    return Complaint("numeric field overflow", RANGE, detail)


def _of_moment(text: str, type_: Type) -> Complaint:
    far, zone = YEAR.match(text), ZONE.match(text)
    if far is not None and type_.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        name = "date" if type_.kind is Kind.DATE else "timestamp"
        return Complaint(f'{name} out of range: "{text}"', DATE_RANGE)
    if zone is not None:
        return Complaint(f'time zone "{zone[1].lower()}" not recognized', "22023")
    if FIGURES.fullmatch(text):
        return Complaint(f'date/time field value out of range: "{text}"', DATE_RANGE)
    name = NAMES.get(type_.kind, type_.kind.value.lower())
    return Complaint(f'invalid input syntax for type {name}: "{text}"', DATE_SYNTAX)


def _of_bits(text: str, type_: Type) -> Complaint:
    if type_.kind is not Kind.BYTEA:
        base, digits = ("hexadecimal", text[1:]) if text[:1] in "xX" else ("binary", text.lstrip("bB"))
        allowed = "01" if base == "binary" else "0123456789abcdefABCDEF"
        odd = next((one for one in digits if one not in allowed), None)
        if odd is not None:
            return Complaint(f'"{odd}" is not a valid {base} digit', SYNTAX)
        if type_.kind is Kind.BIT:
            length = f"bit string length {len(digits)} does not match type bit({type_.precision})"
            return Complaint(length, "22026")
        return Complaint(f"bit string too long for type bit varying({type_.precision})", "22001")
    if text.startswith("\\x"):
        odd = next((one for one in text[2:] if not (one in "0123456789abcdefABCDEF" or one.isspace())), None)
        if odd is not None:
            return Complaint(f'invalid hexadecimal digit: "{odd}"', "22023")
        return Complaint("invalid hexadecimal data: odd number of digits", "22023")
    return Complaint("invalid input syntax for type bytea", SYNTAX)
