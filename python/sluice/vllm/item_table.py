"""The consumer scheduler's table of leased features, by identifier, with their holders.

Invariant: an item is in the table exactly while somebody holds it: a request that needs it, a load
           that not every worker has acknowledged, or the pass that promised it.
Threads:   the scheduler's.
"""

from collections.abc import Sequence

from vllm.logger import init_logger

from sluice import _core
from sluice.vllm.counters import Counters
from sluice.vllm.item import Item, WidthRule
from sluice.vllm.key_template import KeyTemplate
from sluice.vllm.verify_pool import VerifyPool

logger = init_logger("vllm.sluice.items")


class ItemTable:
    def __init__(
        self, keys: KeyTemplate, pool: VerifyPool, counters: Counters, widths: WidthRule
    ) -> None:
        self._keys = keys
        self._pool = pool
        self._counters = counters
        self._widths = widths
        self._items: dict[str, Item] = {}

    def __len__(self) -> int:
        return len(self._items)

    def get(self, identifier: str) -> Item | None:
        return self._items.get(identifier)

    def presences(
        self, client: "_core.Client", identifiers: Sequence[str]
    ) -> dict[str, "_core.Presence"]:
        """One batched look-up. An identifier that cannot be a key is absent."""
        keys = {}
        for identifier in identifiers:
            try:
                keys[identifier] = self._keys.key(identifier)
            except _core.InvalidArgument:
                continue
        try:
            found = client.lookup_many(list(keys.values()))
        except _core.Error as error:
            logger.debug("sluice: look-up: %s", error)
            return {}
        return dict(zip(keys, found, strict=True))

    def open(self, client: "_core.Client", identifier: str) -> Item | None:
        """Leases a feature and begins its check; None when it is gone again."""
        try:
            lease = client.acquire(self._keys.key(identifier))
        except (_core.NotFound, _core.Pending):
            return None
        except _core.Error as error:
            logger.warning("sluice: lease of %.16s: %s", identifier, error)
            return None
        try:
            item = Item(identifier, lease, self._pool, self._counters, self._widths)
        except _core.Error as error:
            logger.warning("sluice: object of %.16s: %s", identifier, error)
            lease.release()
            return None
        self._items[identifier] = item
        return item

    def discard(self, client: "_core.Client", item: Item) -> None:
        """Takes a damaged object out of the arena, so that it can be stored anew. Does not wait."""
        if item.discarded:
            return
        item.discarded = True
        logger.error("sluice: the stored feature of %.16s is damaged; removing it", item.identifier)
        self._pool.run(lambda: client.remove(self._keys.key(item.identifier)))

    def hold(self, item: Item, holder: object) -> None:
        item.holders.add(holder)

    def let_go(self, item: Item, holder: object) -> None:
        """The last holder ends the lease."""
        item.holders.discard(holder)
        if item.holders:
            return
        if self._items.get(item.identifier) is item:
            del self._items[item.identifier]
        item.close()

    def close(self) -> None:
        for item in self._items.values():
            item.close()
        self._items.clear()
