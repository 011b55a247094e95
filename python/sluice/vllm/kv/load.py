"""One hand-off on its way into one rank's blocks.

A hand-off may be loaded while prefill still writes it: the first part names the writing ranks, and
when prefill begins again (preemption) the load follows it into the next generation.

Invariant: blocks outside the job's are never written; `complete` only after each writing rank's
           commit agreed with what this engine expects and its parts covered every layer and block.
Threads:   one owner, the loader thread.
Failure:   LoadFailed with a cause that has a count (`failed_<cause>`) and one sentence.
"""

from sluice import _core
from sluice.vllm.counters import Counters
from sluice.vllm.kv.description import Description
from sluice.vllm.kv.metadata import LoadJob
from sluice.vllm.kv.paged_cache import PagedCache
from sluice.vllm.kv.params import RANKS_MAX
from sluice.vllm.kv.settings import KVSettings

GENERATIONS_AHEAD = 8  # how many restarts of prefill between two looks are noticed


class LoadFailed(Exception):
    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class Load:
    def __init__(
        self,
        job: LoadJob,
        settings: KVSettings,
        cache: PagedCache,
        description: Description,
        counters: Counters,
        rank: int,
        ranks: int,
    ) -> None:
        self._job = job
        self._verify = settings.verify
        self._cache = cache
        self._description = description
        self._counters = counters
        self._rank = rank
        self._ranks = ranks
        self._keys = _core.KvKeys(settings.tenant, job.handoff)
        self._generation = job.generation
        self._sources: list[_Source] = []  # empty: no part was found yet
        if job.ranks is not None:
            self._sources = self._open(job.ranks)

    @property
    def complete(self) -> bool:
        return bool(self._sources) and all(source.complete for source in self._sources)

    def missing(self) -> str:
        """What a load that is out of time still waits for."""
        if not self._sources:
            return "the first part did not come in time"
        names = [source.missing() for source in self._sources if not source.complete]
        return f"{names[0]} did not come in time" if names else "nothing"

    def advance(self, client: "_core.Client") -> bool:
        """Takes what is there of one commit or part of each writing rank; False: nothing was."""
        try:
            moved = [self._take(source, client) for source in self._sources]
            return any(moved) or (self._job.ranks is None and self._find(client))
        except _core.Corrupt as error:
            raise LoadFailed("corrupt", str(error)) from error
        except (_core.Conflict, _core.VersionMismatch, _core.InvalidArgument) as error:
            raise LoadFailed("mismatch", str(error)) from error
        except _core.Error as error:
            raise LoadFailed("other", str(error)) from error

    def _take(self, source: "_Source", client: "_core.Client") -> bool:
        try:
            return source.advance(client, self._verify)
        except _core.NotFound:
            return False  # given up or evicted between look-up and lease

    def _find(self, client: "_core.Client") -> bool:
        """Begins with the first part that is there, or anew with one of a later generation."""
        first = self._generation + bool(self._sources)
        for generation in range(first, first + GENERATIONS_AHEAD):
            key = self._keys.part(generation, 0, 0)
            if client.lookup(key) != "present":
                continue
            try:
                with client.acquire(key) as lease:
                    _, ranks = _pair(lease, "writer")
            except _core.NotFound:
                continue
            if ranks > RANKS_MAX:
                raise LoadFailed("mismatch", f"a part says that {ranks} ranks write")
            self._counters.add("loads_begun_again", int(bool(self._sources)))
            self._generation = generation
            self._sources = self._open(ranks)
            return True
        return False

    def _open(self, ranks: int) -> "list[_Source]":
        job = self._job
        sources = []
        try:
            for writer in range(ranks):
                expected = self._description.of(
                    rank=writer, ranks=ranks, tokens=job.tokens, digest=job.digest
                )
                share = expected.share(self._rank, self._ranks)
                if share[2]:
                    sources.append(
                        _Source(
                            job,
                            self._generation,
                            self._keys,
                            self._cache,
                            self._counters,
                            expected,
                            share,
                            writer,
                        )
                    )
        except _core.InvalidArgument as error:
            raise LoadFailed("mismatch", str(error)) from error
        return sources


class _Source:
    """What one writing rank gives."""

    def __init__(
        self,
        job: LoadJob,
        generation: int,
        keys: "_core.KvKeys",
        cache: PagedCache,
        counters: Counters,
        expected: "_core.KvDescriptor",
        share: tuple[int, int, int],
        writer: int,
    ) -> None:
        self._keys = keys
        self._generation = generation
        self._writer = writer
        self._cache = cache
        self._counters = counters
        self._expected = expected
        self._share = share
        self._ids = cache.native_ids(job.block_ids)
        self._first = cache.native_count(job.first_block)  # block of the request that ids[0] is
        self._blocks = self._first + len(self._ids)
        self._covered: dict[tuple[int, int], int] = {}  # layers -> blocks, from 0 on
        self._sequence = 0
        self._parts: int | None = None  # what the commit says
        self.complete = False

    def missing(self) -> str:
        if self._parts is None:
            return f"the commit of rank {self._writer}"
        return f"part {self._sequence} of {self._parts} of rank {self._writer}"

    def advance(self, client: "_core.Client", verify: "_core.Verify") -> bool:
        if self.complete:
            return False
        moved = False
        if self._parts is None:
            key = self._keys.commit(self._generation, self._writer)
            if client.lookup(key) == "present":
                with client.get(key, verify) as lease:
                    self._read_commit(lease)
                moved = True
        if self._parts is None or self._sequence < self._parts:
            key = self._keys.part(self._generation, self._writer, self._sequence)
            if client.lookup(key) == "present":
                with client.acquire(key) as lease:
                    self._copy(lease, verify)
                self._sequence += 1
                moved = True
        if self._parts is not None and self._sequence >= self._parts:
            self._check_covered()
            self.complete = True
        return moved

    def _read_commit(self, lease: "_core.Lease") -> None:
        (tensor,) = lease.tensors
        found = _core.KvDescriptor.parse(lease.read(tensor.data_offset, tensor.nbytes))
        found.check_same(self._expected)
        if (found.rank, found.ranks) != (self._expected.rank, self._expected.ranks):
            raise LoadFailed(
                "mismatch",
                f"the commit is of rank {found.rank} of {found.ranks} where rank "
                f"{self._expected.rank} of {self._expected.ranks} was expected",
            )
        if self._sequence > found.parts:
            raise LoadFailed("mismatch", "there are more parts than the commit stands for")
        self._parts = found.parts

    def _copy(self, lease: "_core.Lease", verify: "_core.Verify") -> None:
        first_layer, layers = _pair(lease, "layers")
        first, blocks = _pair(lease, "blocks")
        if first != self._covered.get((first_layer, layers), 0):
            raise LoadFailed("mismatch", f"part {self._sequence} does not follow the one before")
        end = first + blocks
        if end > self._blocks:
            raise LoadFailed("mismatch", f"the prompt has {self._blocks} blocks, a part goes on")
        self._covered[first_layer, layers] = end
        skip = min(blocks, max(0, self._first - first))
        if skip < blocks:
            at = first + skip - self._first
            self._cache.native.scatter(
                lease,
                first_layer=first_layer,
                layers=layers,
                block_ids=self._ids[at : at + blocks - skip],
                part_blocks=blocks,
                part_first_block=skip,
                part_heads=self._expected.heads,
                heads=self._share,
                verify=verify,
            )
            self._counters.add("parts_received")
            self._counters.add(
                "bytes_received", lease.tensors[0].nbytes * (blocks - skip) // blocks
            )
        self._counters.add("blocks_skipped", skip)

    def _check_covered(self) -> None:
        """The layer groups follow each other from the first to the last, each with all blocks."""
        layer = 0
        for (first, layers), blocks in sorted(self._covered.items()):
            if first != layer or blocks != self._blocks:
                raise LoadFailed("mismatch", f"layers from {layer} on lack blocks")
            layer = first + layers
        if layer != self._cache.layers:
            raise LoadFailed("mismatch", f"the hand-off has {layer} of {self._cache.layers} layers")


def _pair(lease: "_core.Lease", name: str) -> tuple[int, int]:
    value = lease.attributes.get(name)
    if isinstance(value, list) and len(value) == 2:
        first, count = value
        if isinstance(first, int) and isinstance(count, int) and first >= 0 and count >= 1:
            return first, count
    raise LoadFailed("mismatch", f'a part without its attribute "{name}"')
