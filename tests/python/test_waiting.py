"""Waiting ends when the object appears or time is up, and holds no other thread up."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import sluice
import torch
from arena_daemon import ArenaDaemon
from sluice import _core

MIB = 1 << 20


@contextmanager
def counting() -> Iterator[Callable[[], int]]:
    """A thread that counts whenever it gets the GIL, and gives it back at once.

    Threads are never forced to switch meanwhile, so it counts only while the other one waits or
    has given the GIL up.
    """
    interval = sys.getswitchinterval()
    count, stop, started = [0], threading.Event(), threading.Event()

    def run() -> None:
        started.set()
        while not stop.is_set():
            count[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    sys.setswitchinterval(1000)
    for _ in range(2):  # until the thread no longer waits by the old interval
        seen = count[0]
        while count[0] == seen:
            time.sleep(0)
    try:
        yield lambda: count[0]
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


def progress_during(work: Callable[[], object]) -> int:
    with counting() as count:
        before = count()
        work()
        return count() - before


def lets_others_run(prepare: Callable[[int], Callable[[], object]]) -> bool:
    """Whether another thread got on during one of several calls: on a busy machine it may not be
    given a processor during every one of them. A call that holds the GIL lets nobody on, ever.
    """
    return any(progress_during(prepare(turn)) > 0 for turn in range(30))


def test_nobody_gets_on_while_the_gil_is_held() -> None:
    """The measure itself: it must be able to tell."""
    assert not lets_others_run(lambda turn: lambda: sum(range(200_000)))


def test_calls_that_move_bytes_let_other_threads_run(
    new_daemon: Callable[..., ArenaDaemon],
) -> None:
    daemon = new_daemon("256MiB")
    tensor = torch.zeros(32 * MIB, dtype=torch.uint8)
    with sluice.connect(directory=daemon.directory, timeout=10) as client:

        def writer(turn: int) -> _core.Writer:
            key = sluice.ObjectKey.from_text(f"reserved-{turn}")
            made = client.core.reserve(key, [("tensor", "uint8", (32 * MIB,))])
            assert made is not None
            return made

        def write(turn: int) -> Callable[[], object]:
            made = writer(turn)
            return lambda: made.write(None, tensor.data_ptr())

        assert lets_others_run(lambda turn: lambda: client.put(f"photo-{turn}", tensor))
        client.put("photo", tensor)
        lease = client.core.get(sluice.ObjectKey.from_text("photo"))
        assert lets_others_run(lambda turn: lambda: client.get("photo", verify="always"))
        assert lets_others_run(lambda turn: lambda: lease.verify("always"))
        assert lets_others_run(lambda turn: lambda: lease.read(0, 30 * MIB))
        assert lets_others_run(write)
        assert lets_others_run(lambda turn: writer(turn).publish)


def test_wait_lets_other_threads_run(client: sluice.Client) -> None:
    assert lets_others_run(lambda turn: lambda: client.wait("photo", timeout=0.05))


def test_wait_in_a_thread_ends_when_the_object_appears(
    client: sluice.Client, daemon: ArenaDaemon
) -> None:
    answers: list[list[str]] = []
    with sluice.connect(directory=daemon.directory) as other:
        thread = threading.Thread(target=lambda: answers.append([*other.wait(["a", "b"], 30)]))
        thread.start()
        client.put("a", torch.zeros(10))
        assert answers == []  # one of two is not enough
        with_b = client.reserve("b", ("uint8", (1,)))
        assert with_b is not None
        with_b.publish()
        thread.join(20)
    assert answers == [["present", "present"]]


def test_wait_says_what_is_there_when_time_is_up(client: sluice.Client) -> None:
    client.put("here", torch.zeros(10))
    reservation = client.reserve("soon", ("uint8", (1,)))
    begin = time.monotonic()
    assert client.wait(["here", "soon", "never"], timeout=0.25) == ["present", "pending", "absent"]
    assert 0.25 <= time.monotonic() - begin < 5
    assert client.wait([], timeout=10) == []
    del reservation


def test_wait_handles_signals(client: sluice.Client) -> None:
    class Alarm(Exception):
        pass

    def ring(number: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            client.wait("never", timeout=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads_share_a_client(client: sluice.Client) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(40):
                tensor = torch.full((5000,), number * 1000 + turn)
                client.put(f"{number}-{turn}", tensor)
                assert torch.equal(client.get(f"{number}-{turn}"), tensor)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
