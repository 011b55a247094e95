"""What the value of a setting may be.

Each check returns None, or what is wrong, to follow the setting's name.
"""

import math
from typing import Any


def text(value: Any) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def name(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "must be a non-empty string"


def flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def seconds(value: Any) -> str | None:
    if _number(value) and 0 < value <= 3600:
        return None
    return "must be a number of seconds above 0 and at most 3600"


def share(value: Any) -> str | None:
    return None if _number(value) and 0 < value <= 1 else "must be a number above 0 and at most 1"


def count(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65536:
        return None
    return "must be a whole number from 1 to 65536"


def on_failure(value: Any) -> str | None:
    return None if value in ("fallback", "fail") else 'must be "fallback" or "fail"'


def verify(value: Any) -> str | None:
    return None if value in ("once", "always") else 'must be "once" or "always"'
