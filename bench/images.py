"""Images that nobody has seen before, and the same ones again in every run: noise, enlarged to a
photograph's coarseness, as the JPEG data URL that a client sends.
"""

import base64
import io
import random

TILE_PX = 64


def image(number: int, side_px: int) -> str:
    """The square image of this number; images of different numbers differ everywhere."""
    from PIL import Image

    pixels = random.Random(number).randbytes(TILE_PX * TILE_PX * 3)
    tile = Image.frombytes("RGB", (TILE_PX, TILE_PX), pixels)
    buffer = io.BytesIO()
    tile.resize((side_px, side_px), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


class NewImages:
    """One after another, each different from all before. One thread at a time."""

    def __init__(self, side_px: int) -> None:
        self._side_px = side_px
        self._number = 0

    def next(self) -> str:
        self._number += 1
        return image(self._number, self._side_px)
