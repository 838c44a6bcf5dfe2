"""When an offer changes: a pure rule, under any history of ready, lease and drops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tontine.records.offer import ModuleOffer, Offer
from tontine_node.running.offering import (
    CHANGES_EVERY,
    COUNTED_AT_ONCE,
    LEAVES_AFTER,
    LONGEST_PROOF,
    Offering,
    Serving,
)

A, B = ModuleOffer("a", "1", ("x",)), ModuleOffer("b", "1", ("y",))


def one(is_ready: bool, *modules: ModuleOffer) -> list[Serving]:
    return [Serving("default", is_ready, modules or (A,))]


def names(offer: Offer) -> list[str]:
    return [module.name for module in offer.modules]


def test_what_is_ready_at_first_is_offered_at_once() -> None:
    assert names(Offering().look(0.0, one(True))) == ["a"]
    later = Offering(pause=lambda seconds: seconds)
    assert names(later.look(0.0, one(False))) == []
    assert names(later.look(1.0, one(True))) == ["a"]


def test_a_context_leaves_after_five_seconds_without_a_worker() -> None:
    offering = Offering()
    offering.look(0.0, one(True))
    assert names(offering.look(10.0 + LEAVES_AFTER, one(True))) == ["a"]
    for now in range(20, 20 + int(LEAVES_AFTER)):
        assert names(offering.look(float(now), one(False))) == ["a"]
    assert names(offering.look(20.0 + LEAVES_AFTER, one(False))) == []


def test_a_worker_that_is_back_in_time_changes_nothing() -> None:
    offering = Offering()
    offering.look(0.0, one(True))
    for now in range(100):
        is_ready = now % 5 == 0
        assert names(offering.look(float(now), one(is_ready))) == ["a"]


def test_without_a_lease_no_time_passes() -> None:
    """A failover ends workers of all nodes, and none of them is to make an epoch of it."""
    offering = Offering()
    offering.look(0.0, one(True))
    for now in range(1, 60):
        assert names(offering.look(float(now), one(False), has_lease=False)) == ["a"]


def test_a_lease_that_is_back_does_not_count_the_time_without_it() -> None:
    """The outage is over, and the workers that the fence ended are being started."""
    offering = Offering()
    offering.look(0.0, one(True))
    offering.look(1.0, one(False), has_lease=False)
    for now in range(31, 36):
        assert names(offering.look(float(now), one(False))) == ["a"]
    assert names(offering.look(36.0, one(False))) == [], "from now on it is no fault of the store"


def test_a_loop_that_stood_still_does_not_count_as_time_without_a_worker() -> None:
    """A host that slept, or a store that did not answer: nobody looked meanwhile."""
    offering = Offering()
    offering.look(0.0, one(True))
    assert names(offering.look(60.0, one(False))) == ["a"], "it may have ended just now"
    assert names(offering.look(120.0, one(False))) == ["a"]
    assert names(offering.look(120.0 + LEAVES_AFTER - COUNTED_AT_ONCE, one(False))) == []


def test_it_returns_once_it_has_been_ready_as_long_as_its_last_pause() -> None:
    offering = Offering(pause=lambda seconds: seconds)
    offering.look(0.0, one(True))
    for now in range(21):
        offering.look(float(now), one(False))
    assert names(offering.look(20.0, one(False))) == []
    assert names(offering.look(39.0, one(True))) == []
    assert names(offering.look(40.0, one(True))) == ["a"]


def test_a_minute_of_being_ready_is_always_enough() -> None:
    offering = Offering(pause=lambda seconds: seconds)
    offering.look(0.0, one(True))
    for now in range(1, 9):
        offering.look(float(now), one(False))
    offering.look(36_000.0, one(False))
    assert names(offering.look(36_000.0 + LONGEST_PROOF - 1, one(True))) == []
    assert names(offering.look(36_000.0 + LONGEST_PROOF, one(True))) == ["a"]


def test_a_context_that_had_nothing_to_load_has_nothing_to_prove() -> None:
    """All its modules were dropped, and one is added: that is offered when it is ready."""
    offering = Offering(pause=lambda seconds: seconds)
    offering.look(0.0, one(True))
    nothing = [Serving("default", is_ready=False, is_needed=False)]
    assert names(offering.look(1.0, nothing, dropped=["a"])) == []
    for now in range(2, 100):
        assert names(offering.look(float(now), nothing)) == []
    offering.look(100.0, one(False))
    assert names(offering.look(101.0, one(True))) == ["a"]


def test_what_is_dropped_while_no_worker_is_ready_does_not_come_back() -> None:
    offering = Offering()
    offering.look(0.0, one(True))
    assert names(offering.look(1.0, one(False), dropped=["a"])) == []
    nothing = [Serving("default", is_ready=False, is_needed=False)]
    assert names(offering.look(2.0, nothing)) == []


def test_what_is_added_waits_for_the_last_change_and_what_is_dropped_does_not() -> None:
    offering = Offering(pause=lambda seconds: seconds)
    offering.look(0.0, one(True))
    assert names(offering.look(10.0, one(True, A, B))) == ["a", "b"]
    assert names(offering.look(11.0, one(True, A))) == ["a", "b"], "changed a second ago"
    assert names(offering.look(11.5, one(True, A, B), dropped=["b"])) == ["a"]
    assert names(offering.look(14.0, one(True, A, B))) == ["a"], "added again: that waits"
    assert names(offering.look(15.0, one(True, A, B))) == ["a", "b"]


MOMENTS = st.lists(
    st.tuples(
        st.floats(0.05, 3.0),
        st.booleans(),
        st.booleans(),
        st.sampled_from([(A,), (A, B), (B,), ()]),
        st.sampled_from([(), ("a",), ("b",)]),
        st.booleans(),
    ),
    max_size=60,
)


@given(MOMENTS)
def test_whatever_happens_changes_are_rare_drops_hold_and_only_what_was_served_is_offered(
    moments: list[tuple[float, bool, bool, tuple[ModuleOffer, ...], tuple[str, ...], bool]],
) -> None:
    offering, now, changed_at = Offering(), 0.0, float("-inf")
    offering.look(now, one(True, A))
    served = {A}
    for passed, is_ready, other_ready, modules, dropped, has_lease in moments:
        now += passed
        before = offering.offer or Offer()
        contexts = [Serving("default", is_ready, modules), Serving("other", other_ready, (B,))]
        served |= {*modules, B}
        offer = offering.look(now, contexts, dropped, has_lease=has_lease)
        assert not set(names(offer)) & set(dropped)
        assert set(offer.modules) <= served
        kept = tuple(one for one in before.modules if one.name not in dropped)
        if offer.modules != kept:
            assert now - changed_at >= CHANGES_EVERY
            changed_at = now


@given(MOMENTS)
def test_once_it_is_calm_the_offer_is_what_is_ready(
    moments: list[tuple[float, bool, bool, tuple[ModuleOffer, ...], tuple[str, ...], bool]],
) -> None:
    """ML3."""
    offering, now = Offering(), 0.0
    for passed, is_ready, _, modules, dropped, has_lease in moments:
        now += passed
        offering.look(now, one(is_ready, *modules), dropped, has_lease=has_lease)
    for _ in range(200):
        now += 1.0
        offering.look(now, one(True, A, B))
    assert offering.offer == Offer.of([A, B])
    for _ in range(20):
        now += 1.0
        offering.look(now, one(False, A, B))
    assert offering.offer == Offer()
