"""The hooks of vLLM's KV connector base that this connector uses: their parameters."""

HOOKS: dict[str, tuple[str, ...]] = {
    "__init__": ("vllm_config", "role", "kv_cache_config"),
    "register_kv_caches": ("kv_caches",),
    "bind_connector_metadata": ("connector_metadata",),
    "clear_connector_metadata": (),
    "start_load_kv": ("forward_context", "kwargs"),
    "wait_for_layer_load": ("layer_name",),
    "save_kv_layer": ("layer_name", "kv_layer", "attn_metadata", "kwargs"),
    "wait_for_save": (),
    "get_transfer_results": ("finished_req_ids",),
    "get_block_ids_with_load_errors": (),
    "get_kv_connector_stats": (),
    "shutdown": (),
    "get_num_new_matched_tokens": ("request", "num_computed_tokens"),
    "update_state_after_alloc": ("request", "blocks", "num_external_tokens"),
    "build_connector_meta": ("scheduler_output",),
    "on_new_request": ("request",),
    "update_connector_output": ("connector_output",),
    "request_finished": ("request", "block_ids"),
    "build_kv_connector_stats": ("data",),
    "build_prom_metrics": (
        "vllm_config",
        "metric_types",
        "labelnames",
        "per_engine_labelvalues",
    ),
}
