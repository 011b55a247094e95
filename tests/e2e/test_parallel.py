"""An engine at tensor-parallel size 2 takes features from an encoder at size 1.

It answers as it does when it encodes by itself, with a vision tower that is not split
(`--mm-encoder-tp-mode data`): sums that are split otherwise round otherwise.
"""

import pytest
from deployment_fixture import Unshared, ask
from pictures import picture
from two_sizes import TwoSizes

pytestmark = pytest.mark.engine


def test_size_two_loads_what_size_one_encoded_and_answers_equally(sizes: TwoSizes) -> None:
    pictures = [picture(number) for number in (60, 61, 62)]
    for photo in pictures:
        encoded = ask(sizes.encoder, [photo], tokens=1)
        assert encoded.transfer[photo.uuid]["state"] in ("published", "writing"), encoded.error
    expected = [ask(sizes.two, [Unshared.of(photo)]) for photo in pictures]
    ask(sizes.two, [])  # its steps carry what was counted last
    before = sizes.two.metrics()
    for photo, alone in zip(pictures, expected, strict=True):
        seen = ask(sizes.two, [photo])
        assert not seen.error, seen.error
        assert seen.tokens == alone.tokens
    ask(sizes.two, [])
    after = sizes.two.metrics()
    loads, encodes = "sluice_ec_loads", "sluice_ec_local_encodes"
    assert after[loads] - before[loads] == 2 * len(pictures)  # each rank maps each feature
    assert after[encodes] == before[encodes]
