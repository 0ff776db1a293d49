"""Stand-ins for datasets: moments and shares by exact formulas of what their modules document."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from harness.experiments.datasets import DATASETS, airline_delays, dataset_of, key_counts, wikipedia_edits
from harness.experiments.datasets.airline_delays import AirlineDelays, day_of, fleet_of
from harness.experiments.datasets.dataset import zipf
from harness.experiments.datasets.wikipedia_edits import WikipediaEdits
from harness.experiments.draws import uniform
from harness.experiments.workload_settings import Workload
from harness.topologies.dataset_rows import row_key


@pytest.mark.parametrize("name", DATASETS)
def test_a_row_is_a_function_of_seed_and_message(name: str) -> None:
    workload = Workload.model_validate({"rate_tps": 100, "dataset": name, "seed": 4})
    dataset = dataset_of(workload)
    assert dataset is not None
    ids = (70_001, 3, 499, 500, 3)
    rows = [dataset.row(message_id) for message_id in ids]
    assert rows[1] == rows[-1] != rows[0]
    again = pickle.loads(pickle.dumps(dataset))
    assert [again.row(message_id) for message_id in ids] == rows
    assert DATASETS[workload.dataset or "wikipedia-edits"](5, 100.0).row(3) != rows[1]
    for row in rows:
        assert list(row) == list(dataset.fields)
        assert not any(set(text) & set("=;") for pair in row.items() for text in pair)
        for field, kind in dataset.fields.items():
            assert kind == "text" or np.isfinite(float(row[field]))


def test_no_dataset_without_its_key() -> None:
    assert dataset_of(Workload(rate_tps=100)) is None


def test_ranks_have_the_weights_of_zipf() -> None:
    """Of 5 ranks with exponent 1 the sum of weights is 137/60; within 4 standard errors."""
    ranks = zipf(5, 1.0, uniform(1, 200, np.arange(40_000), 0, 0, 0))
    shares = np.bincount(ranks, minlength=5) / ranks.size
    due = np.array([60 / 137 / r for r in range(1, 6)])
    assert (abs(shares - due) < 4 * np.sqrt(due * (1 - due) / ranks.size)).all()


def test_a_few_users_make_much_of_the_edits() -> None:
    """The first user's share is 1 / H, the generalised harmonic number of 50,000 and 1.2."""
    users = key_counts(WikipediaEdits(1, 100.0), ("user",))
    harmonic = (np.arange(1, wikipedia_edits.USERS + 1) ** -wikipedia_edits.USER_EXPONENT).sum()
    n, share = sum(users.values()), 1 / harmonic
    assert users["u0"] / n == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / n))


def test_a_user_edits_from_one_place() -> None:
    edits = WikipediaEdits(1, 100.0)
    places: dict[str, set[str]] = {}
    for i in range(4000):
        row = edits.row(i)
        places.setdefault(row["user"], set()).add(row_key(row, ("city", "lat", "lon")))
    assert len(places) > 500
    assert {len(each) for each in places.values()} == {1}


def test_a_rank_goes_to_another_article_in_time() -> None:
    """The first rank's share is 1 / H of 100,000 articles; after 600 s all ranks have changed hands."""
    edits = WikipediaEdits(2, 100.0)
    ids = np.arange(20_000)
    quiet = 50_000.0 + np.zeros(ids.size)
    harmonic = (1 / np.arange(1, wikipedia_edits.ARTICLES + 1)).sum()
    tops = []
    for later_s in (0.0, wikipedia_edits.TENURE_S):
        at_s = quiet + later_s
        own = edits.crowded(at_s, uniform(2, wikipedia_edits.EDITS, ids, 0, 0, 2)) < 0
        counts = np.bincount(edits.articles(at_s, ids)[own])
        tops.append(int(counts.argmax()))
        assert counts.max() / own.sum() == pytest.approx(1 / harmonic, rel=0.1)
    assert tops[0] != tops[1]


def test_flash_crowds_make_the_share_of_edits_that_their_chances_say() -> None:
    """One begins each 600 s, for 360 s with 12.5 % at first and half of that on average: 3.75 % of all.

    In 20 days 2,880 crowds begin, and some 7,500 of the edits are theirs: a standard error of 2.4 %.
    """
    at_s = np.linspace(0, 20 * 86_400, 200_000)
    crowded = WikipediaEdits(1, 100.0).crowded(at_s, uniform(1, 201, np.arange(at_s.size), 0, 0, 0))
    assert (crowded >= 0).mean() == pytest.approx(0.1 / 60 * 360 * 0.125 / 2, rel=0.1)


def test_a_leg_has_a_part_of_the_delay_before() -> None:
    """Means 9, 14.4, ...: m = 0.2 * 45 + 0.6 m'; own variances 0.8 (10^2) + 0.2 (2 * 45^2) - 9^2."""
    days = [airline_delays._delays(1, number) for number in range(4)]
    delays = np.concatenate(days)
    variance, mean, spread = 0.8 * 100 + 0.2 * 2 * 45**2 - 81, 0.0, 0.0
    for leg in range(delays.shape[1]):
        mean, spread = 9 + 0.6 * mean, variance + 0.36 * spread
        assert delays[:, leg].mean() == pytest.approx(mean, abs=4 * np.sqrt(spread / len(delays)))
        assert delays[:, leg].var() == pytest.approx(spread, rel=0.15)
    assert np.corrcoef(delays[:, 0], delays[:, 1])[0, 1] == pytest.approx(0.6 / np.sqrt(1.36), abs=0.06)


def test_a_plane_flies_from_its_hub_and_back() -> None:
    fleet, day = fleet_of(1), day_of(1, 0)
    assert set(fleet.legs.tolist()) == {2, 4, 6, 8}
    assert np.bincount(day.plane).tolist() == fleet.legs.tolist()
    for plane in range(0, airline_delays.PLANES, 97):
        mine = day.plane == plane
        origin, destination = day.origin[mine], day.destination[mine]
        assert set(origin[0::2].tolist()) == {int(fleet.hub[plane])} == set(destination[1::2].tolist())
        assert (origin[1:] == destination[:-1]).all()
        assert (origin != destination).all()
    hubs = [set(fleet.hub[fleet.carrier == carrier].tolist()) for carrier in range(airline_delays.CARRIERS)]
    assert {len(each) for each in hubs} <= {1, 2, 3}


def test_each_day_of_flights_is_another_year() -> None:
    flights, a_day = AirlineDelays(1, 100.0), int(fleet_of(1).legs.sum())
    assert [flights.row(n)["year"] for n in (0, a_day - 1, a_day, 3 * a_day)] == [
        "1987",
        "1987",
        "1988",
        "1990",
    ]
    counts = key_counts(flights, ("tail", "year"))
    assert max(counts.values()) == 8
