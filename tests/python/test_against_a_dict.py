"""Random operations of two clients, compared with what a dictionary would have said."""

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import sluice
from arena_daemon import ArenaDaemon
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from waiting import until

NAMES = st.sampled_from([f"photo-{number}" for number in range(6)])
WHO = st.sampled_from(["first", "second"])
ARRAYS = st.builds(
    lambda dtype, rows, value: numpy.full((rows, 3), value, dtype=dtype),
    dtype=st.sampled_from(["uint8", "int32", "float64"]),
    rows=st.integers(min_value=1, max_value=3000),
    value=st.integers(min_value=0, max_value=100),
)


class Store(RuleBasedStateMachine):
    """`published` is the dictionary; `writing` holds open reservations and what will be in them."""

    clients: dict[str, sluice.Client]

    def __init__(self) -> None:
        super().__init__()
        self.published: dict[str, Any] = {}
        self.writing: dict[str, tuple[sluice.Reservation[Any], Any]] = {}
        self.held: list[tuple[Any, Any]] = []

    def expected(self, name: str) -> str:
        if name in self.published:
            return "present"
        return "pending" if name in self.writing else "absent"

    @rule(who=WHO, name=NAMES, array=ARRAYS)
    def put(self, who: str, name: str, array: Any) -> None:
        client, there = self.clients[who], self.published.get(name)
        if there is not None and (there.dtype, there.shape) != (array.dtype, array.shape):
            with pytest.raises(sluice.Conflict):
                client.put(name, array)
        elif there is not None:
            same = numpy.array_equal(there, array)
            assert client.put(name, array) == ("duplicate" if same else "divergent_duplicate")
        elif name not in self.writing:
            assert client.put(name, array) == "published"
            self.published[name] = array

    @rule(who=WHO, name=NAMES, array=ARRAYS)
    def reserve(self, who: str, name: str, array: Any) -> None:
        client, there = self.clients[who], self.published.get(name)
        spec = (array.dtype, array.shape)
        if there is not None and (there.dtype, there.shape) != spec:
            with pytest.raises(sluice.Conflict):
                client.reserve(name, spec, as_="numpy")
        elif there is not None:
            assert client.reserve(name, spec, as_="numpy") is None
        elif name in self.writing:
            with pytest.raises(sluice.Pending):
                client.reserve(name, spec, as_="numpy")
        else:
            reservation = client.reserve(name, spec, as_="numpy")
            assert reservation is not None
            reservation.tensor[...] = array
            self.writing[name] = (reservation, array)

    @rule(name=NAMES, good=st.booleans())
    def end_reservation(self, name: str, good: bool) -> None:
        if name not in self.writing:
            return
        reservation, array = self.writing.pop(name)
        if good:
            assert reservation.publish() == "published"
            self.published[name] = array
        else:
            self.abandon(name, reservation)

    def abandon(self, name: str, reservation: sluice.Reservation[Any]) -> None:
        """The daemon is told, and nobody waits for its answer."""
        reservation.abandon()
        until(lambda: self.clients["first"].lookup(name) == "absent", "the reservation ends")

    @rule(who=WHO, name=NAMES, keep=st.booleans())
    def get(self, who: str, name: str, keep: bool) -> None:
        client = self.clients[who]
        if name in self.published:
            array = client.get(name, as_="numpy")
            assert numpy.array_equal(array, self.published[name])
            if keep and len(self.held) < 20:
                self.held.append((array, self.published[name]))
        else:
            kind = sluice.Pending if name in self.writing else sluice.NotFound
            with pytest.raises(kind):
                client.get(name)

    @rule(who=WHO, name=NAMES)
    def remove(self, who: str, name: str) -> None:
        if name in self.published:
            self.clients[who].remove(name)
            del self.published[name]
        elif name not in self.writing:
            with pytest.raises(sluice.NotFound):
                self.clients[who].remove(name)

    @rule()
    def let_go(self) -> None:
        self.held.clear()

    @invariant()
    def both_clients_see_the_dictionary(self) -> None:
        names = [f"photo-{number}" for number in range(6)]
        for client in self.clients.values():
            assert client.lookup_many(names) == [self.expected(name) for name in names]
            listed = {sluice.ObjectKey.parse(one["key"]).id for one in client.list()}
            assert listed == set(self.published)

    @invariant()
    def what_is_held_does_not_change(self) -> None:
        for array, expected in self.held:
            assert numpy.array_equal(array, expected)

    def teardown(self) -> None:
        self.held.clear()
        for name, (reservation, _) in self.writing.items():
            self.abandon(name, reservation)
        for name in self.published:
            self.clients["first"].remove(name)


def test_store_behaves_like_a_dictionary(new_daemon: Callable[..., ArenaDaemon]) -> None:
    daemon = new_daemon("64MiB")
    with (
        sluice.connect(directory=daemon.directory, timeout=10) as first,
        sluice.connect(directory=daemon.directory) as second,
    ):

        class Connected(Store):
            clients = {"first": first, "second": second}  # noqa: RUF012 - one test, one daemon

        run_state_machine_as_test(
            Connected,
            settings=settings(
                max_examples=25,
                stateful_step_count=40,
                deadline=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
