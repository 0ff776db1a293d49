"""Tests by room: a file of tests is named after a module of the folder that its own folder mirrors.

``test_page_browser.py`` is of ``page.py``, too: what of the module it tests may follow. Some files test
what no one module does; each stands here under what it tests together.
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent
HARNESS = TESTS.parent / "harness"
ROOMS = {p.name for p in HARNESS.iterdir() if p.is_dir()}
TOGETHER = {
    "a room's rules, read from its sources": ("models/test_imports", "schedulers/test_scheduler_sources"),
    "what holds of every model": ("models/test_predictions", "analysis/judge/test_no_leak"),
    "one thing from source to network and answer": ("models/contract/test_round_trips",),
    "the small modules of a step of the calculation": ("models/thesis/test_stages",),
    "the simulator, whose modules are one program": (
        *("models/simulator/test_books", "models/simulator/test_ciw", "models/simulator/test_exact_queues"),
        *("models/simulator/test_mechanisms", "models/simulator/test_relief"),
        *("models/simulator/test_row_batches", "models/simulator/test_windows"),
    ),
    "the solver as a whole": ("models/solver/test_exact", "models/solver/test_properties"),
    "solver and simulator": ("models/simulator/test_composite",),
    "played steps, from file to metrics": (
        *("app/simulated/test_batched_steps", "app/simulated/test_changing_rates"),
        *("app/simulated/test_graphs", "app/simulated/test_placed_runs", "app/simulated/test_relieved_steps"),
        *("app/simulated/test_tuned_runs", "topologies/test_asked_graph"),
    ),
    "keys of an experiment's file, of whatever settings": (
        *("experiments/test_bounds", "experiments/test_step_placements"),
    ),
    "jars, described, warned about and captured": ("storm/test_odd_jars",),
    "wrong input, whoever reads it": (
        *("analysis/test_wrong_input", "regression/test_inputs", "backends/hosts/test_templating"),
        "service/test_openapi",
    ),
    "how commands end, and groups of them": (
        *("commands/test_commands", "commands/test_private_network", "forecasts/test_forecast_command"),
    ),
    "programs of bench and scripts": (
        *("analysis/test_bench", "forecasts/test_played_forecasts", "forecasts/test_foreseen_days"),
    ),
    "Spark's sums, of many runs and large ones": ("analysis/spark/test_scale",),
    "files and scores of nights": ("regression/test_files", "regression/test_scoring"),
    "several proposers by one measure": (
        *("forecasts/test_forecasters", "forecasts/test_forecast_judging"),
        *("schedulers/test_aniello", "schedulers/test_storms_own_schedulers"),
        "schedulers/test_madsen_topologies",
    ),
}


def names() -> list[str]:
    """Return the files of tests in folders of rooms, without suffix."""
    found = [p.relative_to(TESTS).with_suffix("").as_posix() for p in TESTS.rglob("test_*.py")]
    return sorted(name for name in found if name.partition("/")[0] in ROOMS and "/" in name)


def is_mirrored(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    of = file.removeprefix("test_")
    modules = [p.stem for p in (HARNESS / folder).glob("*") if p.suffix == ".py" or p.is_dir()]
    return any(of == module or of.startswith(f"{module}_") for module in modules)


def test_a_file_of_tests_is_named_after_a_module_or_after_what_it_tests_together() -> None:
    listed = sorted(name for files in TOGETHER.values() for name in files)
    assert [name for name in names() if not is_mirrored(name)] == listed
