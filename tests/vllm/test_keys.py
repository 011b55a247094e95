"""Keys: two engines share features exactly when they would make the same ones."""

import json
import shutil

import pytest
from peer import settings_of
from sluice.vllm import fingerprints
from sluice.vllm.key_template import KeyTemplate
from sluice.vllm.settings import ConfigurationError
from world import engine_config


def prefix(model, role="ec_producer", extra=None, **engine) -> str:
    config = engine_config(model, "/unused", role, extra, **engine)
    return KeyTemplate(config, settings_of(config)).prefix


@pytest.fixture
def copy_of(model, tmp_path):
    """Copies the model to a folder of another name."""

    def copy(name: str):
        return shutil.copytree(model, tmp_path / name)

    return copy


def test_encoder_and_consumer_without_a_tower_share(model) -> None:
    encoder = prefix(model, "ec_producer")
    no_tower = prefix(model, "ec_consumer", limit_mm_per_prompt={"image": 0, "video": 0})
    assert encoder == no_tower


def test_parallelism_is_not_in_the_key(model) -> None:
    assert prefix(model, ranks=2) == prefix(model, ranks=1)


def test_flags_of_serving_are_not_in_the_key(model) -> None:
    assert prefix(model) == prefix(model, max_model_len=512, max_num_seqs=1, seed=3)


@pytest.mark.parametrize(
    "difference",
    [
        {"extra": {"tenant": "other"}},
        {"extra": {"key_prefix": "staging"}},
        {"extra": {"revision": "r2"}},
        {"extra": {"model": "org/other"}},
        {"extra": {"encoder": "e2"}},
        {"mm_processor_kwargs": {"max_pixels": 256 * 256}},
        {"media_io_kwargs": {"image": {"rgba_background_color": [0, 0, 0]}}},
    ],
    ids=str,
)
def test_what_changes_the_feature_changes_the_key(model, difference) -> None:
    assert prefix(model) != prefix(model, **difference)


def test_changed_weights_change_the_revision(copy_of) -> None:
    folder = copy_of("weights")
    before = fingerprints.revision(str(folder), None)
    file = next(folder.glob("*.safetensors"))
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        byte = stream.read(1)[0]
        stream.seek(-1, 1)
        stream.write(bytes([byte ^ 1]))
    # One byte lies in a sampled page only by chance; all of a training step's changes do not miss.
    content = bytearray(file.read_bytes())
    content[len(content) // 3 :] = bytes(b ^ 1 for b in content[len(content) // 3 :])
    file.write_bytes(content)
    assert fingerprints.revision(str(folder), None) != before


def test_same_weights_in_another_folder_have_the_same_revision(model, copy_of) -> None:
    one, two = fingerprints.revision(str(model), None), copy_of("elsewhere")
    assert fingerprints.revision(str(two), None) == one


def test_changed_processor_changes_the_encoder(copy_of) -> None:
    folder = copy_of("processor")
    before = prefix(folder, extra={"revision": "same"})
    file = folder / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "image_mean": [0.1, 0.1, 0.1]}))
    assert prefix(folder, extra={"revision": "same"}) != before


def test_changed_vision_tower_changes_the_encoder(copy_of) -> None:
    folder = copy_of("vision")
    before = prefix(folder, extra={"revision": "same"})
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config["vision_config"]["window_size"] = 224
    file.write_text(json.dumps(config))
    assert prefix(folder, extra={"revision": "same"}) != before


def test_snapshot_of_a_hub_model_is_named_by_its_owner_and_commit() -> None:
    path = "/cache/hub/models--org--name/snapshots/" + "0123456789" * 4
    assert fingerprints.model_name(path) == "org/name"
    assert fingerprints.revision(path, None) == "0123456789" * 4


def test_unknown_revision_is_refused_naming_the_setting() -> None:
    with pytest.raises(ConfigurationError, match='set "revision"'):
        fingerprints.revision("nobody/has-this-model", None)


def test_folder_without_weights_is_refused_naming_the_setting(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match='set "revision"'):
        fingerprints.revision(str(tmp_path), None)


def test_name_of_a_model_that_cannot_be_a_key_is_refused(model) -> None:
    with pytest.raises(ConfigurationError, match="key cannot be made"):
        prefix(model, extra={"model": "x" * 2000})
