"""Proposals of tuners for a measured step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from harness.commands.common import (
    err,
    finish,
    json_option,
    open_measured_step,
    rate_option,
    rounded,
    shortened,
    step_option,
)
from harness.commands.completing import RunFolder
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.protocols import TuningProposal
    from harness.tuning.side_by_side import PredictedPerformance


@click.command()
@click.argument("run_path", metavar="RUN", type=RunFolder())
@step_option
@click.option("--tuner", "names", multiple=True, metavar="NAME", help="Only this tuner (repeatable).")
@rate_option
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="TUNER.KEY=VALUE",
    help="Give a tuner a parameter (repeatable).",
)
@click.option("--explain", is_flag=True, help="Show the decisions one by one: rule, values, result, why.")
@json_option
def tune(
    run_path: Path,
    step: int | None,
    names: tuple[str, ...],
    rate: float | None,
    options: tuple[str, ...],
    explain: bool,
    as_json: bool,
) -> None:
    """Let tuners propose executors and batch sizes for a step of RUN; needs no cluster, changes nothing.

    Tuners are aeolus (throughput), ds2 (true rates in one pass), flink (ds2 within Flink's boundaries),
    model-guided (least predicted latency), and your own as package.module:name. Each proposal is shown with
    the composite model's prediction for it.

    \b
    harness tune reports/runs/loaded-ramp/20261122T004256Z --rate 225
    harness tune reports/runs/loaded-ramp/20261122T004256Z --step 1 --tuner ds2 --set ds2.utilisation=0.7

    With --explain each decision of a tuner is shown:

    \b
    harness tune reports/runs/loaded-ramp/20261122T004256Z --tuner aeolus --explain
    """
    from harness.app.message_costs import measured_parameters
    from harness.runs import Run
    from harness.tuning import TUNERS, make_tuner
    from harness.tuning.side_by_side import TuningTable

    asked = tuple(dict.fromkeys(names)) or tuple(TUNERS)
    parameters = tuner_parameters(options, asked)
    for name in asked:
        make_tuner(name, parameters[name])  # a mistake is said before a run is read
    opened = open_measured_step(run_path, step, rate)
    step, source = opened.number, opened.source
    known = measured_parameters(Run(run_path), source.settings)
    tuners = {name: make_tuner(name, {**known.get(name, {}), **parameters[name]}) for name in asked}
    table = TuningTable(source, opened.rate_tps)
    proposals = []
    for name, tuner in tuners.items():
        err.print(f"asking {name}", highlight=False)
        proposals.append(table.propose(name, tuner))
    query_plan = source.plan.query_plan
    components = [c.name for c in query_plan.components]
    counts = source.plan.configuration()
    own = {name: counts.executors[name] for name in components}
    as_it_is = table.as_measured()
    latency = as_it_is.latency.removesuffix("_ms").replace("_", " ")
    title = (
        f"step {step} for {table.rate_tps:g} messages/s; {latency} and rates as the composite model predicts"
    )
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in (
        "tuner",
        "executors",
        "all",
        "workers",
        "batches",
        "mean ms",
        "90 %",
        "p95 ms",
        "out/s",
        "most/s",
    ):
        shown.add_column(column, justify="left" if column in ("tuner", "executors", "batches") else "right")
    shown.add_row(f"(step {step} as it is)", *_executors(own, counts.workers), "", *_performance(as_it_is))
    for p in proposals:
        said = p.proposal
        if said.status == "declined" or p.predicted is None:
            shown.add_row(said.tuner, "declined")
            continue
        batches = " ".join(f"{c}:{b.size}" for c, b in said.batching.items()) or "none"
        executors = _executors(said.executors, said.workers)
        shown.add_row(said.tuner, *executors, batches, *_performance(p.predicted))
    Console(width=max(130, err.width)).print(shown)
    for p in proposals:
        for reason in (p.proposal.reason, p.predicted.reason if p.predicted else ""):
            if reason:
                click.echo(f"{p.proposal.tuner}: {shortened(reason)}")
    for p in proposals if explain else ():
        _explain(p.proposal)
    finish(as_json, {"step": step, "nearest": opened.chosen, "proposals": [p.as_json() for p in proposals]})


def tuner_parameters(options: Iterable[str], tuners: Iterable[str]) -> dict[str, dict[str, object]]:
    """Return the parameters that ``--set TUNER.KEY=VALUE`` gives, by tuner.

    A third part of the key is a key below the second, dots and colons in it included.

    Raises
    ------
    UsageError
        When an option is not of that form, or names a tuner that is not asked.

    Examples
    --------
    >>> tuner_parameters(["aeolus.tuple_bytes.a.b=12", "ds2.utilisation=0.7"], ["aeolus", "ds2"])
    {'aeolus': {'tuple_bytes': {'a.b': 12}}, 'ds2': {'utilisation': 0.7}}
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    found: dict[str, dict[str, object]] = {name: {} for name in tuners}
    for option in options:
        key, equals, text = option.partition("=")
        name = max((n for n in found if key.startswith(f"{n}.")), key=len, default=None)
        if not equals or name is None:
            known = ", ".join(found)
            raise UsageError(f"--set {option}: expected TUNER.KEY=VALUE", f"the tuners asked are {known}")
        try:
            value = YAML(typ="safe").load(text)
        except YAMLError:
            raise UsageError(f"--set {option}: {text!r} is not readable as YAML", "quote it") from None
        parameter, dot, below = key.removeprefix(f"{name}.").partition(".")
        if not dot:
            found[name][parameter] = value
        elif isinstance(held := found[name].setdefault(parameter, {}), dict):
            held[below] = value
        else:
            raise UsageError(f"--set {option}: {parameter!r} has a value already that has no keys")
    return found


def _executors(counts: Mapping[str, int], workers: int | None) -> tuple[str, str, str]:
    named = " ".join(f"{name}:{count}" for name, count in counts.items())
    return named, str(sum(counts.values())), str(workers)


def _performance(predicted: PredictedPerformance) -> tuple[str, ...]:
    if predicted.mean_ms is None:
        latency: tuple[str, str, str] = (predicted.status, "", "")
    else:
        interval = "" if predicted.low_ms is None else f"{predicted.low_ms:.1f}-{predicted.high_ms:.1f}"
        latency = (f"{predicted.mean_ms:.1f}", interval, rounded(predicted.p95_ms))
    return *latency, rounded(predicted.throughput_tps), rounded(predicted.max_sustainable_tps)


def _explain(proposal: TuningProposal) -> None:
    """Show a tuner's decisions one by one; where values of a component come from is said once."""
    click.echo(f"\n{proposal.tuner}: {len(proposal.decisions)} decisions")
    said: set[tuple[str, str, object]] = set()
    for number, d in enumerate(proposal.decisions, 1):
        click.echo(f"{number:3}. {d.node or 'all'}: {d.formula}")
        given = {k: v for k, v in d.values.items() if not k.endswith("_from")}
        if given:
            click.echo(f"     {', '.join(f'{k} = {_short(v)}' for k, v in given.items())}")
        for name, origin in d.values.items():
            if name.endswith("_from") and (d.node, name, origin) not in said:
                said.add((d.node, name, origin))
                click.echo(f"     {name.removesuffix('_from').replace('_', ', ')}: {origin}")
        click.echo(f"     -> {_short(d.result)}   {d.why}")


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)
