"""RAISE, and what is known of an error that was caught."""

from kpg.blocks.conditions import CONDITIONS
from kpg.blocks.evaluating import Evaluator
from kpg.blocks.frame import Frame
from kpg.compiler.sql.blocks import tree as ast
from kpg.listeners.notices import Notice, say
from kpg.runtime.errors import Error, IntegrityError, ProgrammingError, RaisedError
from kpg.runtime.types import TEXT


def raise_(evaluator: Evaluator, frame: Frame, statement: ast.Raise, caught: Error | None) -> None:
    """What RAISE does: an error, or a notice."""
    if statement.form is None and not statement.state and not statement.options:
        if caught is None:
            raise ProgrammingError("RAISE without parameters cannot be used outside an exception handler")
        raise caught
    options = {
        name: evaluator.text(evaluator.value(frame, text, TEXT)) or "" for name, text in statement.options
    }
    state = (
        state_named(options.get("ERRCODE", "") or statement.state)
        if (options.get("ERRCODE") or statement.state)
        else "P0001"
    )
    if statement.form is not None:
        message = formatted(evaluator, frame, statement.form, statement.arguments)
    else:
        message = options.get("MESSAGE") or statement.state or state
    if statement.level != "EXCEPTION":
        detail, hint = options.get("DETAIL"), options.get("HINT")
        say(evaluator.engine, Notice(statement.level, message, state, detail, hint))
        return
    raise RaisedError(
        message, state=state, detail=options.get("DETAIL", ""), hint=options.get("HINT") or None
    )


def state_named(name: str) -> str:
    """The SQLSTATE of a condition's name, or one itself."""
    if name.lower() in CONDITIONS:
        return CONDITIONS[name.lower()]
    if len(name) == 5 and name.isalnum() and name.upper() == name:
        return name
    raise ProgrammingError(f'unrecognized exception condition "{name}"')


def formatted(evaluator: Evaluator, frame: Frame, form: str, arguments: tuple[str, ...]) -> str:
    """The message, with an argument for each %."""
    parts = form.split("%")
    found = [parts[0]]
    left = list(arguments)
    place = 1
    while place < len(parts):
        if not parts[place] and place + 1 < len(parts):
            found += ["%", parts[place + 1]]
            place += 2
            continue
        if not left:
            raise ProgrammingError("too few parameters specified for RAISE")
        text = evaluator.text(evaluator.value(frame, left.pop(0)))
        found += ["<NULL>" if text is None else text, parts[place]]
        place += 1
    if left:
        raise ProgrammingError("too many parameters specified for RAISE")
    return "".join(found)


def told(error: Error, item: str) -> str:
    """What GET STACKED DIAGNOSTICS gives of an error."""
    from kpg.listeners.states import state_of
    from kpg.listeners.told import detail, told

    match item:
        case "RETURNED_SQLSTATE":
            return state_of(error)
        case "MESSAGE_TEXT":
            return told(error)
        case "PG_EXCEPTION_DETAIL":
            return detail(error) or ""
        case "PG_EXCEPTION_HINT":
            return error.hint or ""
        case "CONSTRAINT_NAME" | "TABLE_NAME" | "COLUMN_NAME" | "SCHEMA_NAME":
            from kpg.constraints.violations import fields_of

            fields = fields_of(error) if isinstance(error, IntegrityError) else {}
            return fields.get({"CON": "n", "TAB": "t", "SCH": "s", "COL": "c"}[item[:3]], "")
        case _:
            return ""
