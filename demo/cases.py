"""What the demo sends, and what exactly must have happened after each turn.

Before every turn the engines' own encoder caches are emptied, so that each turn reaches the arena.
The encoder is asked once for each image of the conversation so far, repeats included; then the
engine with a vision tower gets the images, the blind one gets references to them, and the colocated
engine gets the images and knows nothing of the rest.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """One user message of a conversation, and the counts that sending the conversation up to it
    must cause.

    `images`: those of this message; earlier ones are sent again with their own messages.
    `stored`: images whose feature is new to the arena; the encoder publishes each one once.
    `encodes_skipped`: items that the encoder did not encode because the arena had them.
    `loaded`: images whose feature each consumer maps, once each; the distinct images of the
    conversation.
    """

    text: str
    images: tuple[str, ...]
    stored: tuple[str, ...]
    encodes_skipped: int
    loaded: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    title: str
    turns: tuple[Turn, ...]


DESCRIBE = "Describe what you see. "

CASES = (
    Case(
        "one image",
        (
            Turn(
                DESCRIBE,
                images=("astronaut",),
                stored=("astronaut",),
                encodes_skipped=0,
                loaded=("astronaut",),
            ),
        ),
    ),
    Case(
        "two images",
        (
            Turn(
                DESCRIBE,
                images=("chelsea", "coffee"),
                stored=("chelsea", "coffee"),
                encodes_skipped=0,
                loaded=("chelsea", "coffee"),
            ),
        ),
    ),
    Case(
        "same image twice",
        (
            Turn(
                DESCRIBE,
                images=("rocket", "rocket"),
                stored=("rocket",),
                encodes_skipped=0,
                loaded=("rocket",),
            ),
        ),
    ),
    Case(
        "repeat of the first",
        (
            Turn(
                DESCRIBE,
                images=("astronaut",),
                stored=(),
                encodes_skipped=1,
                loaded=("astronaut",),
            ),
        ),
    ),
    Case(
        "other image, same text",
        (
            Turn(
                DESCRIBE,
                images=("retina",),
                stored=("retina",),
                encodes_skipped=0,
                loaded=("retina",),
            ),
        ),
    ),
    Case(
        "text only",
        (Turn("What is a sluice? ", images=(), stored=(), encodes_skipped=0, loaded=()),),
    ),
    Case(
        "conversation, two turns",
        (
            Turn(
                "What is this? ",
                images=("motorcycle",),
                stored=("motorcycle",),
                encodes_skipped=0,
                loaded=("motorcycle",),
            ),
            Turn(
                "And how does it compare with this one? ",
                images=("coffee",),
                stored=(),
                encodes_skipped=2,
                loaded=("motorcycle", "coffee"),
            ),
        ),
    ),
)

# Warms every engine up before the first case; never part of one.
WARM_UP = Turn(
    "Warm up. ", images=("hubble",), stored=("hubble",), encodes_skipped=0, loaded=("hubble",)
)
