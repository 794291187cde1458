"""Error messages for invalid input text of each type, with Postgres' wording and SQLSTATE."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kpg.runtime.records import dataclass
from kpg.runtime.types import RANGE_NAMES, Kind, Type
from kpg.runtime.values.codec import codec_of
from kpg.runtime.values.words import BLANKS, parse_integer

SYNTAX, RANGE, DATE_SYNTAX, DATE_RANGE = "22P02", "22003", "22007", "22008"
TYPE_NAMES: Final = {
    Kind.SMALLINT: "smallint",
    Kind.DECIMAL: "numeric",
    Kind.DOUBLE: "double precision",
    Kind.TIMESTAMPTZ: "timestamp with time zone",
    Kind.TIMETZ: "time with time zone",
    Kind.INTERVAL_DAY: "interval",
    Kind.INTERVAL_MONTH: "interval",
    Kind.JSONB: "json",
}
"""Type names in messages where they differ from the lower-case SQL name."""
MOMENTS: Final = (Kind.DATE, Kind.TIME, Kind.TIMETZ, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
MOMENT_LIKE: Final = re.compile(r"[-+\s]*\d+[-/:.]\d[\d\s:./TZ+-]*(?:[a-z]{2})?\s*", re.IGNORECASE | re.ASCII)
"""Text in the form of a date or a time with any numbers."""
DISTANT_DATE: Final = re.compile(r"\s*(\d{5,})-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12]\d|3[01])\b")
"""A valid date, except that the year is out of range."""
LARGE_INTERVAL: Final = re.compile(r"\s*[-+]?\d{6,}\s*[a-z]+.*", re.IGNORECASE | re.DOTALL)
ZONE: Final = re.compile(r"[-+\d\s:.]+\s([A-Za-z]+/[A-Za-z_/]+)\s*$")


@dataclass(frozen=True, slots=True)
class InputError:
    """The message, SQLSTATE and detail of an input error."""

    message: str
    sqlstate: str
    detail: str | None = None


class InvalidInput(ValueError):
    """Text is not valid input for a type, such as an element of an array."""

    def __init__(self, error: InputError) -> None:
        super().__init__(error.message)
        self.error = error


def parse_input(text: str, type_: Type) -> Any:
    """Parse a text as a value of a type.

    Raises:
        InvalidInput: The text is invalid. The exception has the message and SQLSTATE.
    """
    try:
        return codec_of(type_).parse(text)
    except InvalidInput:
        raise
    except (ValueError, ArithmeticError) as error:
        raise InvalidInput(_classify_error(text, type_, error)) from None


def input_error(text: str, type_: Type) -> InputError:
    """Return the error of a text that is not a valid value of a type."""
    try:
        parse_input(text, type_)
    except InvalidInput as error:
        return error.error
    if type_.is_text:
        return InputError(f"value too long for type {message_type_name(type_)}", "22001")
    of_float = "" if type_.is_float else "value "
    return InputError(f'{of_float}"{text}" is out of range for type {message_type_name(type_)}', RANGE)


def message_type_name(type_: Type) -> str:
    """Return the name of a type in messages."""
    if type_.is_text:
        name = "character" if type_.kind is Kind.CHAR else "character varying"
        return f"{name}({type_.precision})" if type_.precision else name
    if type_.kind in (Kind.RANGE, Kind.MULTIRANGE):
        return f"{RANGE_NAMES[type_.parts[0].kind]}{type_.kind.value}".lower()
    if type_.name:
        return type_.name
    return TYPE_NAMES.get(type_.kind, type_.kind.value.lower())


def _classify_error(text: str, type_: Type, error: Exception) -> InputError:
    kind = type_.kind
    if kind is Kind.ENUM:
        return InputError(f'invalid input value for enum {type_.name}: "{text}"', SYNTAX)
    if type_.is_numeric:
        return _number_error(text, type_)
    if kind in MOMENTS:
        return _moment_error(text, type_)
    if kind in (Kind.INTERVAL, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH):
        if LARGE_INTERVAL.fullmatch(text) or isinstance(error, OverflowError):
            return InputError(f'interval field value out of range: "{text}"', "22015")
        return InputError(f'invalid input syntax for type interval: "{text}"', DATE_SYNTAX)
    if kind in (Kind.JSON, Kind.JSONB) and str(error).startswith("\\u0000"):
        detail = "\\u0000 cannot be converted to text."
        return InputError("unsupported Unicode escape sequence", "22P05", detail)
    if kind is Kind.JSON or kind is Kind.JSONB:
        return InputError("invalid input syntax for type json", SYNTAX, f'"{text}" is no JSON.')
    if kind in (Kind.BIT, Kind.VARBIT, Kind.BYTEA):
        return _bits_error(text, type_)
    return _compound_error(text, type_, error)


def _compound_error(text: str, type_: Type, error: Exception) -> InputError:
    """Return the error of a composite value, or of any other type."""
    match type_.kind:
        case Kind.ARRAY:
            is_specific = str(error).startswith(("malformed", "upper bound", "array lower"))
            return InputError(str(error) if is_specific else f'malformed array literal: "{text}"', SYNTAX)
        case Kind.RECORD:
            return InputError(f'malformed record literal: "{text}"', SYNTAX)
        case Kind.RANGE | Kind.MULTIRANGE:
            if "bound must be" in str(error):
                return InputError(
                    "range lower bound must be less than or equal to range upper bound", "22000"
                )
            return InputError(f'malformed {type_.kind.value.lower()} literal: "{text}"', SYNTAX)
        case Kind.CIDR if is_valid_input(text, Type(Kind.INET)):
            return InputError(f'invalid cidr value: "{text}"', SYNTAX, "Value has bits set to right of mask.")
        case _:
            return InputError(f'invalid input syntax for type {message_type_name(type_)}: "{text}"', SYNTAX)


def is_valid_input(text: str, type_: Type) -> bool:
    """Check whether a text is a valid value of a type."""
    try:
        codec_of(type_).parse(text)
    except (ValueError, ArithmeticError):
        return False
    return True


def _number_error(text: str, type_: Type) -> InputError:
    syntax_error = InputError(f'invalid input syntax for type {message_type_name(type_)}: "{text}"', SYNTAX)
    if type_.is_integer:
        try:
            parse_integer(text)
        except ValueError:
            return syntax_error
        return InputError(f'value "{text}" is out of range for type {message_type_name(type_)}', RANGE)
    if "_" in text and type_.is_float:
        return syntax_error
    try:
        Decimal(text.strip(BLANKS))
    except (InvalidOperation, ValueError):
        return syntax_error
    if type_.is_float:
        return InputError(f'"{text}" is out of range for type {message_type_name(type_)}', RANGE)
    if not type_.precision:
        return InputError("value overflows numeric format", RANGE)
    return overflow_error(type_)


def overflow_error(type_: Type) -> InputError:
    """Return the error of a number with too many digits for a NUMERIC."""
    whole = type_.precision - type_.scale
    bound = f"10^{whole}" if whole else "1"
    what = f"A field with precision {type_.precision}, scale {type_.scale}"
    detail = f"{what} must round to an absolute value less than {bound}."
    return InputError("numeric field overflow", RANGE, detail)


def _moment_error(text: str, type_: Type) -> InputError:
    far, zone = DISTANT_DATE.match(text), ZONE.match(text)
    if far is not None and type_.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        name = "date" if type_.kind is Kind.DATE else "timestamp"
        return InputError(f'{name} out of range: "{text}"', DATE_RANGE)
    if zone is not None:
        return InputError(f'time zone "{zone[1].lower()}" not recognized', "22023")
    if MOMENT_LIKE.fullmatch(text):
        return InputError(f'date/time field value out of range: "{text}"', DATE_RANGE)
    name = TYPE_NAMES.get(type_.kind, type_.kind.value.lower())
    return InputError(f'invalid input syntax for type {name}: "{text}"', DATE_SYNTAX)


def _bits_error(text: str, type_: Type) -> InputError:
    if type_.kind is not Kind.BYTEA:
        base, digits = ("hexadecimal", text[1:]) if text[:1] in "xX" else ("binary", text.lstrip("bB"))
        allowed = "01" if base == "binary" else "0123456789abcdefABCDEF"
        odd = next((one for one in digits if one not in allowed), None)
        if odd is not None:
            return InputError(f'"{odd}" is not a valid {base} digit', SYNTAX)
        if type_.kind is Kind.BIT:
            length = f"bit string length {len(digits)} does not match type bit({type_.precision})"
            return InputError(length, "22026")
        return InputError(f"bit string too long for type bit varying({type_.precision})", "22001")
    if text.startswith("\\x"):
        odd = next((one for one in text[2:] if not (one in "0123456789abcdefABCDEF" or one.isspace())), None)
        if odd is not None:
            return InputError(f'invalid hexadecimal digit: "{odd}"', "22023")
        return InputError("invalid hexadecimal data: odd number of digits", "22023")
    return InputError("invalid input syntax for type bytea", SYNTAX)
