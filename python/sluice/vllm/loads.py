"""Loads that were promised to the engine, repeated until every rank says that it did them.

Invariant: from the promise until the last rank's acknowledgement, or until vLLM frees the entry,
           the item is held here, whatever becomes of the request that asked for it.
Threads:   the scheduler's.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from sluice.vllm.item import Item
from sluice.vllm.item_table import ItemTable
from sluice.vllm.metadata import LoadSpec


@dataclass(slots=True)
class _Load:
    transfer: int
    item: Item
    done_by: set[int] = field(default_factory=set)


class Loads:
    def __init__(self, table: ItemTable, ranks: frozenset[int]) -> None:
        self._table = table
        self._ranks = ranks
        self._open: dict[str, _Load] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, item: Item) -> None:
        """The engine was told that this item will be in its cache."""
        load = self._open.get(item.identifier)
        if load is not None and load.item is item:
            return
        if load is not None:
            self._end(load)
        load = _Load(self._next, item)
        self._next += 1
        self._open[item.identifier] = load
        self._table.hold(item, load.transfer)

    def free(self, identifiers: Iterable[str]) -> None:
        """vLLM dropped these entries: nobody waits for them any more."""
        for identifier in identifiers:
            load = self._open.pop(identifier, None)
            if load is not None:
                self._end(load)

    def acknowledge(self, by_rank: Mapping[int, Set[int]]) -> None:
        for identifier, load in list(self._open.items()):
            for rank, transfers in by_rank.items():
                if load.transfer in transfers:
                    load.done_by.add(rank)
            if self._ranks <= load.done_by:
                del self._open[identifier]
                self._end(load)

    def specs(self) -> dict[str, LoadSpec]:
        """What every worker is told in this step."""
        return {
            identifier: LoadSpec(
                load.transfer,
                load.item.descriptor,
                load.item.rows,
                load.item.width,
                load.item.dtype,
            )
            for identifier, load in self._open.items()
        }

    def _end(self, load: _Load) -> None:
        self._table.let_go(load.item, load.transfer)
