"""The hand-off of KV from a prefill engine to a decode engine, through the arena.

docs/formats/kv-handoff.md says what is in the arena, docs/protocols/serving.md what the proxy and
the engines tell each other.
"""
