# SPDX-License-Identifier: Apache-2.0
"""Where a body stops being JSON, in the words of Go's decoder, which clients of the API server see."""

import re

_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_HEX = re.compile(rb"[0-9a-fA-F]{0,4}")
_DIGITS = re.compile(rb"[0-9]*")
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}
_DEEPEST = 10_000
_EARLY_END = "unexpected end of JSON input"


class _WrongError(Exception):
    """The byte at a position does not belong there."""

    def __init__(self, position: int, context: str) -> None:
        super().__init__(context)
        self.position = position


def syntax_error(body: bytes) -> str | None:
    """What Go's JSON decoder says of a body; None if it is well-formed JSON."""
    # A number at the end is complete, a literal is not: Go finds out by one more blank.
    padded = body + b" "
    try:
        end = _document(padded)
    except _WrongError as error:
        if error.position >= len(padded):
            return _EARLY_END
        return f"invalid character {_character(padded[error.position])} {error}"
    return _EARLY_END if end > len(padded) else None


def _character(code: int) -> str:
    if code == ord("'"):
        return r"'\''"
    if code == ord('"'):
        return "'\"'"
    escapes = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 92: "\\"}
    if code in escapes:
        return f"'\\{escapes[code]}'"
    character = chr(code)
    if character.isprintable():
        return f"'{character}'"
    return f"'\\x{code:02x}'" if code < 0x80 else f"'\\u{code:04x}'"


def _document(body: bytes) -> int:
    """Read one value and what follows. Returns its end, or more than the body's length if there is none."""
    open_brackets: list[int] = []
    position = _value_start(body, 0)
    while True:
        position, opened = _begin(body, position, open_brackets)
        if opened:
            continue
        # A value is complete: close what it ends, up to the start of the next one.
        while True:
            position = _skip(body, position)
            if not open_brackets:
                if position < len(body):
                    raise _WrongError(position, "after top-level value")
                return position
            following = _after(body, position, open_brackets)
            if following is not None:
                position = following
                break
            position += 1


def _begin(body: bytes, position: int, open_brackets: list[int]) -> tuple[int, bool]:
    """Read a scalar, or the start of an object or array up to its first value. Second: a value is to come."""
    first = body[position]
    if first in b"{[":
        open_brackets.append(first)
        if len(open_brackets) > _DEEPEST:
            raise _WrongError(position, "exceeded max depth")
        inside = _skip(body, position + 1)
        if _at(body, inside) == first + 2:  # `}` and `]` come two after their openings
            open_brackets.pop()
            return inside + 1, False
        if first == ord("{"):
            inside = _key(body, inside)
        return _value_start(body, inside), True
    if first == ord('"'):
        return _string(body, position + 1), False
    literal = _LITERALS.get(body[position : position + 1])
    return (_number(body, position) if literal is None else _literal(body, position, literal)), False


def _after(body: bytes, position: int, open_brackets: list[int]) -> int | None:
    """What follows a value inside brackets: the start of the next value, or None where a bracket closes."""
    found = _at(body, position)
    in_object = open_brackets[-1] == ord("{")
    if found == ord("}" if in_object else "]"):
        open_brackets.pop()
        return None
    if found != ord(","):
        raise _WrongError(position, "after object key:value pair" if in_object else "after array element")
    following = _skip(body, position + 1)
    return _value_start(body, _key(body, following) if in_object else following)


def _key(body: bytes, position: int) -> int:
    """Read a key and its colon."""
    if _at(body, position) != ord('"'):
        raise _WrongError(position, "looking for beginning of object key string")
    end = _skip(body, _string(body, position + 1))
    if _at(body, end) != ord(":"):
        raise _WrongError(end, "after object key")
    return end + 1


def _value_start(body: bytes, position: int) -> int:
    position = _skip(body, position)
    found = _at(body, position)
    if found is None or found not in b'{["-0123456789tfn':
        raise _WrongError(position, "looking for beginning of value")
    return position


def _string(body: bytes, position: int) -> int:
    end = _matched(_TEXT, body, position)
    found = _at(body, end)
    if found == ord('"'):
        return end + 1
    if found != ord("\\"):
        # The blank behind the body is part of a string that does not end.
        raise _WrongError(end, "in string literal")
    if _at(body, end + 1) == ord("u"):
        raise _WrongError(_matched(_HEX, body, end + 2), r"in \u hexadecimal character escape")
    raise _WrongError(end + 1, "in string escape code")


def _number(body: bytes, position: int) -> int:
    if body[position] == ord("-"):
        position += 1
    if _at(body, position) == ord("0"):
        position += 1
    else:
        position = _digits(body, position, "in numeric literal")
    if _at(body, position) == ord("."):
        position = _digits(body, position + 1, "after decimal point in numeric literal")
    if body[position : position + 1] in (b"e", b"E"):
        position += 2 if body[position + 1 : position + 2] in (b"+", b"-") else 1
        position = _digits(body, position, "in exponent of numeric literal")
    return position


def _digits(body: bytes, position: int, context: str) -> int:
    end = _matched(_DIGITS, body, position)
    if end == position:
        raise _WrongError(position, context)
    return end


def _literal(body: bytes, position: int, literal: bytes) -> int:
    for index, expected in enumerate(literal):
        if _at(body, position + index) != expected:
            raise _WrongError(position + index, f"in literal {literal.decode()} (expecting '{chr(expected)}')")
    return position + len(literal)


def _skip(body: bytes, position: int) -> int:
    return _matched(_SPACE, body, position)


def _matched(pattern: re.Pattern[bytes], body: bytes, position: int) -> int:
    found = pattern.match(body, position)
    assert found is not None  # every pattern matches nothing too
    return found.end()


def _at(body: bytes, position: int) -> int | None:
    return body[position] if position < len(body) else None
