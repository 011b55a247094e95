"""Keys: an `ObjectKey`, or text that becomes one.

Text that contains "sluice1@" is a key's full form; any other text is a plain name (tenant
default, model adhoc).
"""

from collections.abc import Callable
from functools import lru_cache

from ._core import ObjectKey

KeyLike = ObjectKey | str

_TEXTS_REMEMBERED = 4096


def key_parser() -> Callable[[str], ObjectKey]:
    """`ObjectKey.from_text` that remembers the texts it has parsed. Any thread.

    Raises InvalidArgument, naming what is wrong with the text; a refusal is not remembered.
    """
    return lru_cache(maxsize=_TEXTS_REMEMBERED)(ObjectKey.from_text)


__all__ = ["KeyLike", "ObjectKey", "key_parser"]
