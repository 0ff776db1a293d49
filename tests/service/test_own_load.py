"""The service's own share of CPU time, from readings that are fed, on two cores."""

from __future__ import annotations

import pytest

from harness.service.own_load import OwnLoad, OwnReading, read_own


class Clock:
    """Readings of a process that uses so many CPU seconds a second."""

    def __init__(self) -> None:
        self.now = OwnReading(0.0, 0.0)

    def pass_s(self, seconds: float, used_s: float) -> None:
        self.now = OwnReading(self.now.at_s + seconds, self.now.used_s + used_s)

    def __call__(self) -> OwnReading:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def load(clock: Clock) -> OwnLoad:
    return OwnLoad(clock, cores=2)


def test_the_share_now_is_of_the_last_ten_seconds_however_many_events_there_are(
    clock: Clock, load: OwnLoad
) -> None:
    """1 s of CPU time in each of 10 s, then 0.2 s in each of 10 s, of two cores: 50 %, then 10 %."""
    load.begin()
    for used_s, share_pct in ((1.0, 50.0), (0.2, 10.0)):
        for _ in range(80):
            clock.pass_s(0.125, used_s * 0.125)
            load.sample()
        assert load.now_pct == pytest.approx(share_pct)
    assert len(load._recent) <= 12


def test_nothing_is_said_before_it_is_measured(clock: Clock, load: OwnLoad) -> None:
    load.rest()
    load.begin()
    clock.pass_s(2.9, 1.0)
    load.sample()
    assert load.words == ""
    clock.pass_s(1.1, 0.0)
    load.sample()
    assert load.words == "This service takes 12.5 % of the machine's CPU time."  # 1 s of 4 s of two cores


def test_only_time_without_any_request_is_without_a_page(clock: Clock, load: OwnLoad) -> None:
    """A page that asks every five seconds, and one that a stream of events is sent to, are open."""
    load.rest()
    for _ in range(10):  # asks and is answered
        load.begin()
        load.end()
        clock.pass_s(5.0, 5.0)
    load.begin()  # of a stream
    clock.pass_s(60.0, 60.0)
    load.end()
    load.begin()
    assert load.alone_pct is None
    load.end()
    for _ in range(2):  # 50 s, of which 0.4 s are used
        clock.pass_s(50.0, 0.4)
        load.begin()
        clock.pass_s(4.0, 0.8)
        load.end()
    assert load.alone_pct == pytest.approx(0.4)
    assert load.words == "This service takes 10.0 % of the machine's CPU time; 0.4 % while no page was open."


def test_what_the_model_takes_while_it_is_loaded_is_not_said_of_a_service_without_pages(
    clock: Clock, load: OwnLoad
) -> None:
    load.begin()
    load.end()
    clock.pass_s(30.0, 30.0)
    load.begin()
    load.end()
    assert load.alone_pct is None
    clock.pass_s(20.0, 20.0)
    load.rest()
    clock.pass_s(20.0, 0.02)
    load.begin()
    assert load.alone_pct == pytest.approx(0.05)
    assert load.words.startswith("Of the machine's CPU time this service took less than 0.1 %")


def test_this_process_is_read() -> None:
    first, second = read_own(), read_own()
    assert second.at_s >= first.at_s
    assert second.used_s >= first.used_s > 0
