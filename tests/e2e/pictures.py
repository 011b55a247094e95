"""As many different real pictures as a test needs: crops of the demo's photographs."""

import functools
import io

from photographs import FILES, Photograph, folder
from PIL import Image

SIDE_PX = 224


@functools.cache
def picture(number: int) -> Photograph:
    """The same picture for the same number, different ones for different numbers."""
    names = sorted(FILES)
    with Image.open(folder() / FILES[names[number % len(names)]]) as source:
        whole = source.convert("RGB")
    turn = number // len(names)
    room_x, room_y = whole.width - SIDE_PX, whole.height - SIDE_PX
    left, top = (turn * 37) % max(1, room_x), (turn * 53) % max(1, room_y)
    crop = whole.crop((left, top, left + SIDE_PX, top + SIDE_PX))
    buffer = io.BytesIO()
    crop.save(buffer, "JPEG", quality=92)
    return Photograph(f"crop-{number}", buffer.getvalue(), SIDE_PX, SIDE_PX)
