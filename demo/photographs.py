"""Real photographs, from those that scikit-image ships, as a client would send them: JPEG data
URLs.

An image's uuid is the digest of its bytes, so equal content has one name, whoever sends it.
"""

import base64
import functools
import hashlib
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

FILES = {
    "astronaut": "astronaut.png",
    "chelsea": "chelsea.png",
    "coffee": "coffee.png",
    "rocket": "rocket.jpg",
    "retina": "retina.jpg",
    "motorcycle": "motorcycle_left.png",
    "hubble": "hubble_deep_field.jpg",
}


@dataclass(frozen=True)
class Photograph:
    name: str
    jpeg: bytes
    width_px: int
    height_px: int

    @property
    def uuid(self) -> str:
        return hashlib.sha256(self.jpeg).hexdigest()

    @property
    def url(self) -> str:
        return "data:image/jpeg;base64," + base64.b64encode(self.jpeg).decode()


def folder() -> Path:
    """Where scikit-image keeps its pictures; raises FileNotFoundError when it is not installed."""
    spec = importlib.util.find_spec("skimage")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("scikit-image is not installed; `make setup` installs it")
    return Path(spec.origin).parent / "data"


@functools.cache
def photograph(name: str, width_px: int = 448) -> Photograph:
    """The photograph of this name, `width_px` wide, its proportions kept. Raises KeyError for an
    unknown name.
    """
    with Image.open(folder() / FILES[name]) as picture:
        height_px = round(width_px * picture.height / picture.width)
        scaled = picture.convert("RGB").resize((width_px, height_px))
    buffer = io.BytesIO()
    scaled.save(buffer, "JPEG", quality=92)
    return Photograph(name, buffer.getvalue(), width_px, height_px)
