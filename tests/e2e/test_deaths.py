"""Any process may die at any time: the others go on, and no answer is ever wrong."""

import threading
import time
from collections.abc import Mapping

import pytest
from counts import count
from deployment_fixture import Deployment, ask, reference
from engine_group import wait_until
from pictures import picture

pytestmark = pytest.mark.engine
DAEMON_KILLS = count(3, full=50)
ENCODER_KILLS = count(1, full=10)


class Traffic:
    """Asks the engine with a tower about pictures until stopped; remembers every wrong answer."""

    def __init__(self, deployment: Deployment, expected: Mapping[int, object]) -> None:
        self._deployment = deployment
        self._expected = expected
        self._stop = threading.Event()
        self.wrong: list[str] = []
        self.right = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_answers(self, count: int) -> None:
        """Returns after so many more right answers, or after a wrong one."""
        wanted = self.right + count
        wait_until(
            lambda: self.right >= wanted or bool(self.wrong), f"{count} answers", seconds=120.0
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            for number, tokens in self._expected.items():
                self._deployment.prefill.http.empty_encoder_cache()
                seen = ask(self._deployment.prefill, [picture(number)])
                if seen.error or seen.tokens != tokens:
                    self.wrong.append(f"{number}: {seen.error or seen.tokens}")
                else:
                    self.right += 1


def test_sluiced_killed_under_load_and_restarted(deployment: Deployment) -> None:
    numbers = range(30, 34)
    expected = {n: deployment.local_answer(picture(n)).tokens for n in numbers}
    for number in numbers:
        deployment.encode(picture(number))
    with Traffic(deployment, expected) as traffic:
        for _ in range(DAEMON_KILLS):
            traffic.wait_for_answers(4)
            deployment.arena.kill()
            traffic.wait_for_answers(4)
            deployment.arena.start()
    assert traffic.wrong == []
    for engine in deployment.engines:
        assert engine.healthy()
    # All of them are attached again: a new feature goes from one to the other.
    new = picture(35)
    wait_until(
        lambda: deployment.encode(new)["state"] in ("published", "writing"), "encoder attached"
    )
    expected_new = deployment.local_answer(new)
    seen_new = ask(deployment.blind, [reference(new, deployment.encode(new))])
    assert not seen_new.error, seen_new.error
    assert seen_new.tokens == expected_new.tokens


def test_encoder_killed_while_it_saves(deployment: Deployment) -> None:
    numbers = range(40, 52)
    expected = {n: deployment.local_answer(picture(n)).tokens for n in numbers}
    for _ in range(ENCODER_KILLS):
        asked = threading.Event()

        def encode_all(asked: threading.Event = asked) -> None:
            for number in numbers:
                answer = ask(deployment.encoder, [picture(number)], tokens=1)
                asked.set()
                if answer.error:
                    return

        thread = threading.Thread(target=encode_all)
        thread.start()
        assert asked.wait(60)
        deployment.encoder.kill()
        thread.join()
        began = time.monotonic()
        for number in numbers:
            seen = ask(deployment.prefill, [picture(number)])
            assert seen.tokens == expected[number], seen.error
        assert time.monotonic() - began < 60
        deployment.encoder.start()
        deployment.encoder.wait_ready()
    # What the dead encoder held is free again, and the new one stores it.
    for number in numbers:
        assert deployment.encode(picture(number))["state"] in ("published", "writing")
        entry = deployment.encode(picture(number))
        assert not ask(deployment.blind, [reference(picture(number), entry)]).error
