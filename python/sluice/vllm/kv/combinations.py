"""Combinations of engine settings under which a hand-off could not work. Start-up stops there.

Each check raises ConfigurationError with one sentence that names the setting.
"""

from typing import TYPE_CHECKING

from sluice.vllm.kv.settings import KVSettings
from sluice.vllm.settings import ConfigurationError

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import KVCacheConfig


def check(vllm_config: "VllmConfig", cache_config: "KVCacheConfig", settings: KVSettings) -> None:
    transfer = vllm_config.kv_transfer_config
    assert transfer is not None
    parallel = vllm_config.parallel_config
    if transfer.is_kv_consumer:
        _check_policy(transfer.kv_load_failure_policy, settings)
    for name, size in (
        ("--pipeline-parallel-size", parallel.pipeline_parallel_size),
        ("--prefill-context-parallel-size", parallel.prefill_context_parallel_size),
        ("--decode-context-parallel-size", parallel.decode_context_parallel_size),
    ):
        if size > 1:
            raise ConfigurationError(
                f"kv_connector: {name} {size} spreads one rank's layers or tokens over several "
                "workers, which this connector does not hand off; use 1"
            )
    heads = int(vllm_config.model_config.get_total_num_kv_heads())
    ranks = parallel.tensor_parallel_size
    if heads % ranks and ranks % heads:
        raise ConfigurationError(
            f"kv_connector: {heads} KV heads cannot be shared evenly by "
            f"--tensor-parallel-size {ranks}"
        )
    groups = cache_config.kv_cache_groups
    if len(groups) != 1:
        kinds = ", ".join(type(group.kv_cache_spec).__name__ for group in groups)
        raise ConfigurationError(
            f"kv_connector: the model has {len(groups)} KV cache groups ({kinds}); this connector "
            "hands off models with one, where a failed load can be computed again"
        )


def _check_policy(policy: str, settings: KVSettings) -> None:
    wanted = "fail" if settings.on_failure == "fail" else "recompute"
    if policy != wanted:
        raise ConfigurationError(
            f'kv_transfer_config: "kv_load_failure_policy" is "{policy}", but with '
            f'"on_failure" "{settings.on_failure}" it must be "{wanted}"'
        )
