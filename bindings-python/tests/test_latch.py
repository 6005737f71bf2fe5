"""Latches: what `threading.Event` has, and asyncio's."""

import asyncio
import threading

import lockwright
import lockwright.aio
import pytest

name = "done"


def test_who_waits_goes_on_once_all_have_counted_down(client, other):
    mine, theirs = client.latch(name, 2), other.latch(name, 2)
    assert mine.name == name and name in repr(mine)
    passed = []
    waiting = [threading.Thread(target=lambda latch=latch: passed.append(latch.wait())) for latch in (mine, theirs)]
    for thread in waiting:
        thread.start()
    assert mine.count() == 2 and not mine.wait(0)
    assert mine.count_down() == 1
    assert not theirs.wait(timeout=0.02) and passed == []
    assert theirs.count_down() == 0
    for thread in waiting:
        thread.join()
    assert passed == [True, True]
    # It behaves as an event that is set.
    event = threading.Event()
    event.set()
    for gate in (mine, event):
        assert gate.wait() and gate.wait(0) and gate.wait(timeout=5)
    assert theirs.count_down() == 0


def test_inspect_shows_how_it_stands(client, other):
    assert other.inspect(name).primitive is None
    latch = client.latch(name, 2)
    latch.count_down()
    seen = other.inspect(name)
    assert (seen.primitive, seen.latch, seen.shared, seen.holder) == ("latch", lockwright.Counting(1), None, None)
    with client.lock("held"), client.rwlock("shared").read():
        seen = [other.inspect("held"), other.inspect("shared")]
        assert [(one.primitive, one.latch) for one in seen] == [("lock", None), ("rwlock", None)]


def test_it_counts_again_when_it_is_told_to(client):
    latch = client.latch(name, 1)
    assert latch.try_set_count(3) and latch.count() == 3
    assert not latch.try_set_count(5)
    assert [latch.count_down() for _ in range(4)] == [2, 1, 0, 0]
    assert latch.try_set_count(1) and not latch.wait(0)


@pytest.mark.parametrize("count", [0, -1, 1_000_001, 2**32, 2**64, -(2**70)])
def test_a_count_out_of_range_is_refused(client, count):
    with pytest.raises(lockwright.InvalidConfig):
        client.latch(name, count)
    with pytest.raises(lockwright.InvalidConfig):
        client.latch(name, 1).try_set_count(count)


@pytest.mark.parametrize("idle", [0, -1, 59, 2_592_001, float("inf"), float("nan"), 1e300])
def test_a_time_out_of_range_is_refused(client, idle):
    with pytest.raises(lockwright.InvalidConfig):
        client.latch(name, 1, idle=idle)


def test_what_is_no_latch_is_refused(client):
    for wrong in ("", "a\nb", "x" * 1025):
        with pytest.raises(lockwright.InvalidConfig):
            client.latch(wrong, 1)
    for wrong in ("1", 1.5, None):
        with pytest.raises(TypeError):
            client.latch(name, wrong)
    with pytest.raises(lockwright.InvalidConfig):
        client.latch(name, 1).wait(-5)
    with client.lock(name), pytest.raises(lockwright.ForeignLayout):
        client.latch(name, 1).count_down()


def test_a_client_that_is_closed_ends_its_waits(store_uri):
    client = lockwright.connect(store_uri)
    latch, said = client.latch(name, 1), []

    def wait():
        try:
            latch.wait()
        except lockwright.Closed as error:
            said.append(error.code)

    thread = threading.Thread(target=wait)
    thread.start()
    client.close()
    thread.join()
    assert said == ["closed"]


def test_tasks_wait_for_it(store_uri, run):
    async def main():
        async with lockwright.aio.connect(store_uri) as client:
            latch = client.latch(name, 2, idle=60)
            assert latch.name == name and "aio.Latch" in repr(latch)
            waiting = [asyncio.create_task(latch.wait()) for _ in range(3)]
            waiting[0].cancel()
            assert await latch.count() == 2
            assert not await latch.wait(0) and not await latch.wait(timeout=0.02)
            assert await latch.count_down() == 1
            assert not await latch.try_set_count(7)
            assert await latch.count_down() == 0
            gone, *passed = await asyncio.gather(*waiting, return_exceptions=True)
            assert isinstance(gone, asyncio.CancelledError) and passed == [True, True]
            assert await latch.try_set_count(1) and not await latch.wait(0)
            with pytest.raises(lockwright.InvalidConfig):
                await latch.try_set_count(0)

    run(main())
