"""Real engines behind the proxy: what a client sees is what one engine would say, whoever dies."""

import json
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asking
import openai
import pytest
from asking import Reply, body, same
from counts import count
from endpoint import Endpoint
from engine_group import wait_until
from kv_pair import Json, text_of
from pictures import picture

pytestmark = pytest.mark.engine
LEAVES = count(20, full=200)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("tokens", [3, 700, 3000])
def test_a_prompt_is_answered_as_by_one_engine(
    endpoint: Endpoint, tokens: int, stream: bool
) -> None:
    asked = body(text_of(tokens, salt=tokens), stream=stream)
    grown, moved = endpoint.growth("handoffs_committed_total"), endpoint.moved()
    assert endpoint.ask(asked) == endpoint.measure(asked)
    assert grown() == [1]
    sent, received = moved()  # without prefix caches all of it moves, each time
    assert sent == received > 0


def test_a_repeated_picture_is_not_encoded_again(endpoint: Endpoint) -> None:
    asked = body("What is it? ", [picture(60), picture(61)])
    wanted = endpoint.measure(asked)
    first = endpoint.ask(asked)
    before = [endpoint.counted(name) for name in ("encodes_total", "encodes_skipped_total")]
    again = endpoint.ask({**asked, "stream": True})
    after = [endpoint.counted(name) for name in ("encodes_total", "encodes_skipped_total")]
    assert first == again == wanted
    assert [now - then for now, then in zip(after, before, strict=True)] == [0, 2]


def test_processor_arguments_of_a_request_are_honoured_and_its_repeat_skips_the_encoder(
    endpoint: Endpoint,
) -> None:
    """They change the engine's name of the picture, which the proxy learns from the encoder."""
    plain = body("How large? ", [picture(62)])
    asked = {**plain, "mm_processor_kwargs": {"min_pixels": 200_704}}
    wanted = endpoint.measure(asked)
    assert wanted != endpoint.measure(plain)
    assert endpoint.ask(asked) == wanted
    before = endpoint.counted("encodes_total")
    assert endpoint.ask(asked) == wanted
    assert endpoint.counted("encodes_total") == before


def test_sixteen_requests_at_once_of_every_kind(endpoint: Endpoint) -> None:
    def asked_of(n: int) -> Json:
        pictures = [picture(63 + place) for place in range(n % 3)]
        return body(text_of(40 * n, salt=n), pictures, stream=n % 2 == 0)

    kinds = [asked_of(n) for n in range(1, 17)]
    wanted = [endpoint.measure({**asked, "stream": False}) for asked in kinds]
    with ThreadPoolExecutor(len(kinds)) as pool:
        seen = list(pool.map(endpoint.ask, kinds))
    wrong = [n for n, pair in enumerate(zip(seen, wanted, strict=True)) if not same(*pair)]
    assert wrong == [], [(seen[n], wanted[n]) for n in wrong]
    endpoint.await_idle()


def test_the_openai_client_needs_nothing_but_the_address(endpoint: Endpoint) -> None:
    asked = body("Hello. ", [picture(60)])
    wanted = endpoint.measure(asked)
    client = openai.OpenAI(base_url=endpoint.address + "/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == ["m"]
    plain: Any = {name: asked[name] for name in ("model", "messages", "temperature", "max_tokens")}
    whole = client.chat.completions.create(**plain)
    text = whole.choices[0].message.content
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(**plain, stream=True)
        if chunk.choices
    ]
    assert text == "".join(pieces)
    assert whole.usage is not None
    assert whole.usage.completion_tokens == len(wanted.tokens)


def test_clients_that_leave_at_any_moment_leave_nothing_behind(endpoint: Endpoint) -> None:
    """Every stage of a request is interrupted somewhere; seeded by SLUICE_TEST_SEED."""
    seed = int(os.environ.get("SLUICE_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"SLUICE_TEST_SEED={seed}")
    dice = random.Random(seed)

    def leave(n: int) -> None:
        asked = body(
            text_of(dice.randrange(10, 2000), salt=n),
            [picture(70 + n % 8)] * dice.randrange(2),
            stream=dice.random() < 0.5,
            max_tokens=dice.choice([1, 200]),
        )
        endpoint.leave(asked, after_s=dice.uniform(0.001, 0.8))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(leave, range(LEAVES)))
    endpoint.await_idle()
    asked = body("Still there? ", [picture(60)])
    assert endpoint.ask(asked) == endpoint.measure(asked)


class Traffic:
    """Four clients that ask until stopped, and remember every answer that was neither right nor
    an error that they were told of."""

    def __init__(self, endpoint: Endpoint, asked: list[Json], wanted: list[Reply]) -> None:
        self._endpoint = endpoint
        self._pairs = list(zip(asked, wanted, strict=True))
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.right = 0
        self.refused = 0
        self.wrong: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(4)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def await_more(self, answers: int) -> None:
        """Returns after so many more that were right, or after one that was wrong."""
        wanted = self.right + answers
        wait_until(
            lambda: self.right >= wanted or bool(self.wrong), f"{answers} answers", seconds=120.0
        )

    def _run(self, first: int) -> None:
        place = first
        while not self._stop.is_set():
            asked, wanted = self._pairs[place % len(self._pairs)]
            seen = self._endpoint.ask(asked)
            with self._lock:
                if same(seen, wanted):
                    self.right += 1
                elif seen.refused:
                    self.refused += 1
                else:
                    self.wrong.append(json.dumps([asked["stream"], seen.tokens, wanted.tokens]))
            if seen.refused:
                self._stop.wait(0.05)
            place += 1


def test_every_process_dies_in_turn_under_load_and_no_answer_is_wrong(endpoint: Endpoint) -> None:
    asked = [body(text_of(50 + 90 * n, salt=n), stream=n % 2 == 0) for n in range(4)]
    asked += [body("And this? ", [picture(60 + n)], stream=n % 2 == 0) for n in range(4)]
    wanted = [endpoint.measure({**one, "stream": False}) for one in asked]
    with Traffic(endpoint, asked, wanted) as traffic:
        traffic.await_more(8)
        endpoint.arena.kill()  # what is in the arena can still be read
        traffic.await_more(8)
        endpoint.arena.start()
        traffic.await_more(8)
        endpoint.encoder.kill()
        traffic.await_more(8)
        endpoint.prefill.kill()  # decode computes by itself
        traffic.await_more(8)
        assert traffic.refused == 0
        endpoint.decode.kill()
        wait_until(lambda: traffic.refused > 4, "clients are told that nobody answers")
        for engine in (endpoint.encoder, endpoint.prefill, endpoint.decode):
            engine.start()
        for engine in (endpoint.encoder, endpoint.prefill, endpoint.decode):
            engine.wait_ready()
        wait_until(lambda: all(endpoint.usable().values()), "the proxy uses all engines again")
        traffic.await_more(8)
    assert traffic.wrong == []
    before = endpoint.counted("handoffs_committed_total"), endpoint.counted("encodes_total")
    new = body("New? ", [picture(90)])
    assert endpoint.ask(new) == endpoint.measure(new)
    after = endpoint.counted("handoffs_committed_total"), endpoint.counted("encodes_total")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    endpoint.await_idle()


def test_the_proxy_drains_and_another_one_takes_over(endpoint: Endpoint) -> None:
    asked = body(text_of(300), max_tokens=100, stream=True)
    wanted = endpoint.measure(asked)
    assert endpoint.proxy is not None
    with asking.begun(endpoint.address, asked) as reply:
        endpoint.proxy.close()  # fails unless it ends with exit code 0
        assert asking.streamed(reply.status, reply) == wanted
    endpoint.start_proxy()
    assert endpoint.ask(asked) == wanted
