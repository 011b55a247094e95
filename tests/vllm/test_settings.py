"""Settings: what is accepted, and the one sentence that stops start-up for everything else."""

import dataclasses
from typing import Any

import pytest
from sluice.vllm.settings import ConfigurationError, Settings

ACCEPTED: list[tuple[str, Any, Any]] = [
    ("arena", "second", "second"),
    ("directory", "/dev/shm/a", "/dev/shm/a"),
    ("attach_timeout_s", 1, 1.0),
    ("strict_daemon", True, True),
    ("tenant", "blue", "blue"),
    ("key_prefix", "prod", "prod"),
    ("model", "org/name", "org/name"),
    ("revision", "v1", "v1"),
    ("encoder", "abc", "abc"),
    ("on_failure", "fail", "fail"),
    ("wait_with_media_s", 0.5, 0.5),
    ("wait_without_media_s", 3600, 3600.0),
    ("verify", "always", "always"),
    ("soft_pin_modalities", ["video", "image"], ("video", "image")),
    ("soft_pin_ttl_s", 30, 30.0),
    ("scan_nonfinite", True, True),
    ("store_local_encodes", True, True),
    ("reserve_timeout_s", 0.01, 0.01),
    ("publish_timeout_s", 5, 5.0),
    ("write_timeout_s", 5, 5.0),
    ("save_queue_items_max", 65536, 65536),
    ("pinned_share_max", 1, 1.0),
    ("allow_priority_scheduling", True, True),
    ("allow_small_arena", True, True),
]

REFUSED: list[tuple[str, Any]] = [
    ("arena", ""),
    ("arena", 7),
    ("directory", None),
    ("attach_timeout_s", 0),
    ("attach_timeout_s", "2"),
    ("attach_timeout_s", True),
    ("strict_daemon", 1),
    ("tenant", ""),
    ("key_prefix", 1),
    ("model", []),
    ("revision", 3),
    ("encoder", None),
    ("on_failure", "retry"),
    ("wait_with_media_s", -1),
    ("wait_with_media_s", float("nan")),
    ("wait_without_media_s", float("inf")),
    ("wait_without_media_s", 3601),
    ("verify", "never"),
    ("soft_pin_modalities", "video"),
    ("soft_pin_modalities", ["smell"]),
    ("soft_pin_ttl_s", 0),
    ("scan_nonfinite", "yes"),
    ("store_local_encodes", 0),
    ("reserve_timeout_s", None),
    ("publish_timeout_s", 0),
    ("write_timeout_s", []),
    ("save_queue_items_max", 0),
    ("save_queue_items_max", 1.5),
    ("save_queue_items_max", 65537),
    ("pinned_share_max", 0),
    ("pinned_share_max", 1.1),
    ("allow_priority_scheduling", "true"),
    ("allow_small_arena", None),
]


def test_every_setting_is_in_both_tables() -> None:
    names = {field.name for field in dataclasses.fields(Settings)}
    assert {key for key, _, _ in ACCEPTED} == names
    assert {key for key, _ in REFUSED} == names


def test_no_settings_are_the_defaults() -> None:
    assert Settings.parse({}) == Settings()


@pytest.mark.parametrize(("key", "given", "typed"), ACCEPTED)
def test_accepted(key: str, given: Any, typed: Any) -> None:
    value = getattr(Settings.parse({key: given}), key)
    assert (type(value), value) == (type(typed), typed)


@pytest.mark.parametrize(("key", "given"), REFUSED)
def test_wrong_value_is_refused_by_name(key: str, given: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings.parse({key: given})
    text = str(caught.value)
    assert f'"{key}"' in text
    assert repr(given) in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("arenna", "arena"),
        ("Arena", "arena"),
        ("on_fail", "on_failure"),
        ("wait_with_media", "wait_with_media_s"),
        ("soft_pin_ttl", "soft_pin_ttl_s"),
        ("strict", "strict_daemon"),
    ],
)
def test_unknown_key_is_refused_with_the_nearest_known_one(key: str, nearest: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings.parse({key: 1})
    assert str(caught.value) == (
        f'ec_connector_extra_config: unknown key "{key}"; the nearest known one is "{nearest}"'
    )


@pytest.mark.parametrize(
    ("key", "owner", "here"),
    [
        ("shared_storage_path", "ECExampleConnector", "directory"),
        ("push_wait_timeout_s", "ECMooncakeConnector", "wait_with_media_s"),
        ("embedding_cache_prefix", "ECMooncakeConnector", "key_prefix"),
        ("ec_cpu_bytes", "ECCPUConnector", "arena"),
    ],
)
def test_key_of_another_connector_says_whose_it_is(key: str, owner: str, here: str) -> None:
    with pytest.raises(ConfigurationError, match=rf'"{key}" .* of {owner}; .* is "{here}"'):
        Settings.parse({key: "x"})
