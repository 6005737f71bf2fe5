"""Barriers: what `threading.Barrier` has, and asyncio's."""

import asyncio
import threading

import lockwright
import lockwright.aio
import pytest

name = "step"


def until_waiting(barrier, wanted):
    while barrier.waiting() != wanted:
        pass


def test_all_go_on_once_as_many_wait_as_there_are_parties(client, other):
    mine, theirs = client.barrier(name, 3), other.barrier(name, 3, ttl=5)
    assert mine.name == name and mine.parties == 3 and name in repr(mine)
    passed, last = [], None
    for _ in range(3):
        passed.clear()
        threads = []
        for n, barrier in enumerate((mine, theirs)):
            thread = threading.Thread(target=lambda barrier=barrier: passed.append(barrier.wait()))
            thread.start()
            threads.append(thread)
            until_waiting(mine, n + 1)
        assert passed == []
        arrival = theirs.wait()
        for thread in threads:
            thread.join()
        assert sorted(other.index for other in passed) == [0, 1] and arrival.index == 2
        assert {other.generation for other in passed} == {arrival.generation}
        assert last is None or arrival.generation == last + 1
        last = arrival.generation
    # The indexes are those of a barrier of threads.
    local = threading.Barrier(1)
    assert client.barrier("alone", 1).wait().index == local.wait() == 0


def test_an_arrival_is_a_value(client):
    barrier = client.barrier(name, 1)
    one, two = barrier.wait(), barrier.wait()
    assert one != two and len({one, two}) == 2
    assert repr(one) == f"Arrival(index=0, generation={one.generation})"
    with pytest.raises(AttributeError):
        one.index = 5


def test_a_place_that_is_given_up_is_anothers(client):
    barrier = client.barrier(name, 2)
    assert barrier.wait(0) is None and barrier.wait(timeout=0.02) is None
    assert barrier.waiting() == 0
    thread = threading.Thread(target=barrier.wait)
    thread.start()
    until_waiting(barrier, 1)
    with pytest.raises(lockwright.InvalidConfig, match="for 3 parties here, but for 2"):
        client.barrier(name, 3).wait()
    assert barrier.wait(0).index == 1
    thread.join()


@pytest.mark.parametrize("parties", [0, -1, 10_001, 2**32, 2**64, -(2**70)])
def test_a_number_out_of_range_is_refused(client, parties):
    with pytest.raises(lockwright.InvalidConfig):
        client.barrier(name, parties)


@pytest.mark.parametrize("ttl", [0, -1, 0.019, 86_401, float("inf"), float("nan"), 1e300])
def test_a_time_out_of_range_is_refused(client, ttl):
    with pytest.raises(lockwright.InvalidConfig):
        client.barrier(name, 1, ttl=ttl)


def test_what_is_no_barrier_is_refused(client):
    for wrong in ("", "a\nb", "x" * 1025):
        with pytest.raises(lockwright.InvalidConfig):
            client.barrier(wrong, 1)
    for wrong in ("1", 1.5, None):
        with pytest.raises(TypeError):
            client.barrier(name, wrong)
    with pytest.raises(lockwright.InvalidConfig):
        client.barrier(name, 1).wait(-5)
    with client.lock(name), pytest.raises(lockwright.ForeignLayout):
        client.barrier(name, 1).wait()


def test_a_client_that_is_closed_gives_its_places_up(store_uri, client):
    barrier, said = client.barrier(name, 2), []
    closing = lockwright.connect(store_uri)

    def wait():
        try:
            closing.barrier(name, 2).wait()
        except lockwright.Closed as error:
            said.append(error.code)

    thread = threading.Thread(target=wait)
    thread.start()
    until_waiting(barrier, 1)
    closing.close()
    thread.join()
    assert said == ["closed"] and barrier.waiting() == 0


def test_tasks_wait_for_it(store_uri, run):
    async def main():
        async with lockwright.aio.connect(store_uri) as client:
            barrier = client.barrier(name, 3, ttl=5)
            assert barrier.name == name and barrier.parties == 3 and "aio.Barrier" in repr(barrier)

            async def until(wanted):
                while await barrier.waiting() != wanted:
                    pass

            waiting = [asyncio.create_task(barrier.wait()) for _ in range(2)]
            await until(2)
            waiting[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting[0]
            await until(1)
            assert await barrier.wait(0) is None and await barrier.wait(timeout=0.02) is None
            waiting[0] = asyncio.create_task(barrier.wait())
            await until(2)
            last = await barrier.wait()
            second, first = await asyncio.gather(*waiting)
            assert [first.index, second.index, last.index] == [0, 1, 2]
            assert first.generation == second.generation == last.generation

    run(main())
