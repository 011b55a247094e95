"""What the KV connector counts, and the one place where each count is named and explained.

Every rank of an engine counts its own share: of two ranks each moves half of the bytes.
"""

# name -> what it counts; the names are those of the Prometheus metrics, after `sluice_kv_`.
COUNTS: dict[str, str] = {
    "handoffs": "hand-offs asked for",
    "commits": "hand-offs committed by a rank",
    "parts_sent": "parts published: the KV of one layer group for a range of blocks",
    "bytes_sent": "bytes of those parts",
    "send_us": "microseconds the writer thread took for them",
    "save_wait_us": "microseconds the engine's steps waited for their blocks to be read",
    "save_deadlines": "steps that stopped waiting for their blocks to be read",
    "restarts": "hand-offs begun again because the engine preempted the request",
    "send_failures": "hand-offs that a rank could not write",
    "send_cancelled": "hand-offs given up because their request ended before they were committed",
    "uncommitted": "requests that prefill answered without a hand-off",
    "matches": "requests whose prompt was taken from a hand-off",
    "loads": "hand-offs that a rank copied into its cache completely",
    "parts_received": "parts copied into the engine's cache",
    "bytes_received": "bytes of those parts",
    "blocks_skipped": "blocks not copied because the engine's prefix cache had them",
    "receive_us": "microseconds the loader thread took for checking and copying",
    "receive_waits": "times a load found its next part not there yet",
    "loads_in_progress": "loads that began while prefill was still writing",
    "loads_begun_again": "loads that followed prefill into another attempt at the prompt",
    "load_cancelled": "loads given up because their request ended",
    "receive_failures": "hand-offs that a rank could not load",
    "failed_deadline": "loads that failed because a part or a commit did not come in time",
    "failed_mismatch": "loads that failed because the hand-off is of another engine or prompt",
    "failed_corrupt": "loads that failed because the stored bytes are damaged",
    "failed_other": "loads that failed for another reason",
    "fallbacks": "requests with a hand-off whose prompt this engine computes by itself",
    "released": "hand-offs removed from the arena after use",
    "attaches": "times this process attached to an arena",
}
