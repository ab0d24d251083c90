"""Worker pools: sizes, ranks, workers that are away, and their end."""

import threading

import pytest

from patience import patient
from stepscope.options import ConfigProto, ThreadPoolOptionProto
from stepscope.runtime.execute.pools import PoolSet, WorkerPool, own_pool, shared_pool
from stepscope.runtime.execute.run_handler import RunHandler, hold_run_handler_pool


@pytest.fixture
def pool():
    pool = own_pool("test", 2)
    yield pool
    if pool._users:
        pool.release()


def wait(event):
    assert event.wait(patient(20))


def test_threads_start_on_demand_and_have_the_pool_s_name(pool):
    assert pool.thread_count == 0
    names, done = [], threading.Event()
    pool.submit(lambda: (names.append(threading.current_thread().name), done.set()))
    wait(done)
    assert names == ["stepscope/test/0"]
    assert pool.thread_count == 1


def test_as_many_tasks_run_at_once_as_the_pool_is_large(pool):
    for _ in range(20):
        meeting = threading.Barrier(3, timeout=patient(20))
        pool.submit(meeting.wait)
        pool.submit(meeting.wait)
        meeting.wait()
    assert pool.thread_count == 2


def test_no_more_threads_than_the_size(pool):
    gate, done = threading.Event(), threading.Semaphore(0)
    for _ in range(10):
        pool.submit(lambda: (gate.wait(patient(20)), done.release()))
    assert pool.thread_count == 2
    gate.set()
    for _ in range(10):
        assert done.acquire(timeout=patient(20))


def test_tasks_are_taken_by_rank_then_in_order():
    pool = own_pool("ranked", 1)
    gate, started, order, done = threading.Event(), threading.Event(), [], threading.Event()
    pool.submit(lambda: (started.set(), gate.wait(patient(20))))
    wait(started)
    for rank, name in [((0, 0), "a"), ((0, 0), "b"), ((-5, 9), "c"), ((-5, 1), "d"), ((1, 0), "e")]:
        pool.submit(lambda name=name: order.append(name), rank)
    pool.submit(done.set, (9, 9))
    gate.set()
    wait(done)
    assert order == ["d", "c", "a", "b", "e"]
    pool.release()


def test_a_run_handler_s_rank_is_its_priority_then_its_age():
    pool = WorkerPool("handlers", 1)
    low, high, later = RunHandler(pool, 0), RunHandler(pool, 7), RunHandler(pool, 7)
    assert sorted([low.rank, high.rank, later.rank]) == [high.rank, later.rank, low.rank]


def test_a_worker_that_waits_inside_an_op_gives_up_its_place():
    pool = own_pool("away", 1)
    gate, inside, done = threading.Event(), threading.Event(), threading.Event()

    def waits():
        with pool.away():
            inside.set()
            gate.wait(patient(20))

    pool.submit(waits)
    wait(inside)
    pool.submit(done.set)
    wait(done)
    gate.set()
    pool.release()
    assert pool.thread_count == 0


def test_of_too_many_workers_one_ends_although_there_is_work():
    pool = own_pool("many", 1)
    gate, inside, gone = threading.Event(), threading.Event(), threading.Event()
    first = []

    def hangs():
        first.append(threading.current_thread())
        inside.set()
        gate.wait(patient(20))

    pool.submit(hangs)
    wait(inside)
    pool.give_up_on(first[0])
    busy = threading.Event()
    pool.submit(lambda: (busy.set(), gone.wait(patient(20))))
    wait(busy)
    ran = []
    pool.submit(lambda: ran.append(threading.current_thread()))
    gate.set()
    first[0].join(patient(20))
    assert not first[0].is_alive()
    assert ran == [], "one thread computes at a time"
    gone.set()
    pool.release()
    assert len(ran) == 1


def test_a_stuck_worker_is_replaced_and_ends_when_it_comes_back():
    pool = own_pool("stuck", 1)
    gate, inside = threading.Event(), threading.Event()
    stuck = []

    def hangs():
        stuck.append(threading.current_thread())
        inside.set()
        gate.wait(patient(20))

    pool.submit(hangs)
    wait(inside)
    pool.give_up_on(stuck[0])
    done = threading.Event()
    pool.submit(done.set)
    wait(done)
    pool.release()
    assert stuck[0].is_alive(), "a release does not wait for it"
    gate.set()
    stuck[0].join(patient(20))
    assert not stuck[0].is_alive()
    assert pool.thread_count == 0


def test_release_is_done_as_soon_as_the_last_worker_is_given_up_on():
    pool = own_pool("slow", 1)
    gate, inside = threading.Event(), threading.Event()
    stuck = []

    def hangs():
        stuck.append(threading.current_thread())
        inside.set()
        gate.wait(patient(20))

    pool.submit(hangs)
    wait(inside)
    released = threading.Event()
    threading.Thread(target=lambda: (pool.release(timeout=patient(15)), released.set())).start()
    assert not released.wait(0.05)
    pool.give_up_on(stuck[0])
    wait(released)
    gate.set()
    stuck[0].join(patient(20))


def test_what_was_submitted_before_the_end_still_runs():
    pool = own_pool("last", 1)
    order, gate, inside = [], threading.Event(), threading.Event()
    pool.submit(lambda: (inside.set(), gate.wait(patient(20))))
    wait(inside)
    pool.submit(lambda: order.append("late"))
    threading.Timer(0.02, gate.set).start()
    pool.release()
    assert order == ["late"]


def test_a_pool_is_shared_by_name_while_somebody_holds_it():
    one, two = shared_pool("by name", 2), shared_pool("by name", 5)
    assert one is two
    assert two.size == 2, "the first user's size stands"
    one.release()
    assert shared_pool("by name", 9) is two
    two.release()
    two.release()
    fresh = shared_pool("by name", 3)
    assert fresh is not one
    assert fresh.size == 3
    fresh.release()


def test_the_run_handler_pool_is_one_for_the_process():
    one, two = hold_run_handler_pool(), hold_run_handler_pool()
    assert one is two
    one.release()
    two.release()


def pools_of(**fields):
    found = PoolSet(ConfigProto(**fields))
    found.release()
    return found


def test_the_pools_of_a_session():
    named = [ThreadPoolOptionProto(num_threads=3), ThreadPoolOptionProto(global_name="all")]
    found = pools_of(session_inter_op_thread_pool=named, inter_op_parallelism_threads=5)
    assert [p.size for p in found.pools] == [3, 5]
    assert found.has_own_pools
    assert [p.name for p in found.pools] == ["pool0", "all"]


def test_a_session_without_pools_uses_the_process_s():
    found = pools_of()
    assert len(found.pools) == 1
    assert not found.has_own_pools
    assert not found.runs_in_caller
    assert pools_of(use_per_session_threads=True).has_own_pools
    assert pools_of(inter_op_parallelism_threads=-1).runs_in_caller


def test_a_negative_size_is_refused():
    import stepscope.tf1 as st
    from stepscope.errors import InvalidArgumentError

    config = ConfigProto(session_inter_op_thread_pool=[ThreadPoolOptionProto(num_threads=-1)])
    with pytest.raises(InvalidArgumentError, match=r"thread_pool\[0\].num_threads is -1"):
        st.Session(graph=st.Graph(), config=config)
