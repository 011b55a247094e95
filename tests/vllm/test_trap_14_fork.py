"""Trap 14: vLLM forks by default; a client's handles belong to the process that made them."""

import os
import traceback

from peer import Peer
from world import item, request


def in_child(check) -> None:
    """Runs `check` in a fork's child and fails with its traceback."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = ""
        try:
            check()
        except BaseException:
            text = traceback.format_exc()
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    assert text == "", text


def test_trap_14_child_of_a_fork_attaches_anew_and_serves(engine, arena) -> None:
    consumer = engine("ec_consumer")
    peer = Peer(consumer, arena.directory)
    peer.store("A", 20)
    mine = consumer.connector._scheduler._attachment.client.id

    def check() -> None:
        attachment = consumer.connector._scheduler._attachment
        client = attachment.client
        assert client.attached
        assert client.id != mine
        assert client.lookup(peer.key("A")) == "present"

    in_child(check)
    consumer.serve(request("r", [item("A", 4, 20)]))  # the parent goes on
    assert consumer.counted("loads") == 1
    peer.close()
