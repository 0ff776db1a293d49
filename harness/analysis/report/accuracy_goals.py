"""The first sections of the accuracy page: models in one line each, goals, and the pairs left out of both."""

from __future__ import annotations

from harness.analysis.judge import accuracy, goals
from harness.analysis.judge.accuracy import ENDS, GOALS, LEAST_JUDGED_PCT, LEVEL, Figures, Pairs
from harness.analysis.judge.goals import Judgement, Sampled
from harness.analysis.judge.summary import EVIDENCE_PCT
from harness.analysis.report.markdown_tables import number, percent, table
from harness.models import NO_CHANGE
from harness.schemas import LATENCIES, Measure

SUMMARY = "## Models in short"
SUMMARY_MODELS = ("composite", "storm-tracer", "jackson", NO_CHANGE)


def summary_rows(rows: Pairs) -> str:
    """Return the table that README shows too: four models, their errors where a guess errs."""
    lines = []
    for model, median, p95_pct, worst_pct in goals.summary(rows, SUMMARY_MODELS):
        lines.append([model, _with_interval(median, "%"), percent(p95_pct), percent(worst_pct)])
    return table(["model", "median error, % (95 % interval)", "95th percentile, %", "worst, %"], lines)


def summary_of(page: str) -> str:
    """Return the table of a page that was made before, and what is below it; empty where it has none."""
    section = page.partition(SUMMARY)[2].partition("\n## ")[0]
    _, bar, below = section.partition("\n|")
    return f"|{below.rstrip()}\n" if bar else ""


def short(rows: Pairs, part: str) -> str:
    """Return the section of models in one line each."""
    found = goals.summary(rows, SUMMARY_MODELS)[0][1]
    run, most = goals.largest_run(rows, SUMMARY_MODELS[0])
    of_one = f"\nOf these {found.pairs} pairs {most} are of one run, `{run}`.\n" if most else ""
    return (
        f"{SUMMARY}\n\nError of the mean ground-truth latency over the {found.pairs} judged pairs of"
        f" {found.experiments} experiments. These are the experiments of the {part} set that can tell a model"
        f" from a guess. In each of them `{NO_CHANGE}`, the guess that nothing changes, errs by"
        f" {EVIDENCE_PCT:g} % or more in the median. Intervals are from resampling experiments.\n\n"
        f"{summary_rows(rows)}{of_one}"
    )


def goals_table(rows: Pairs, own: str) -> str:
    """Return the goals, each over the experiments that are evidence for it, beside the figure over all."""
    mine = rows[rows["model"] == own]
    lines = [_line(goals.judge(rows, goal, own)) for goal in GOALS]
    head = [
        *("measure", "goal", f"{own} (95 % interval)", "experiments; pairs", "", "best rival"),
        "over all experiments",
    ]
    text = (
        "Over the experiments that can tell a model from a guess by what the goal is about; the last column\n"
        "is over all. Not surely: the 95 % interval, from resampling experiments, reaches across the goal.\n"
        f"No goal: `{NO_CHANGE}` or `jackson`, which know nothing of mechanisms, reach it, too. Models get\n"
        "the placement that the proposed step really had, which nobody knows before a rebalance by Storm's\n"
        "own scheduler.\n\n"
    )
    return text + table(head, [*lines, _judged(mine), _coverage(mine)])


def _line(found: Judgement) -> list[str]:
    goal, at = found.goal, found.evident
    return [
        goal.name,
        f"at most {number_of(goal.limit, goal.unit)}",
        _with_interval(at, goal.unit),
        f"{at.experiments}; {at.pairs}",
        found.found,
        f"{found.rival[0]} {number(found.rival[1], goal.unit)}" if found.rival else "-",
        number(found.overall, goal.unit),
    ]


def number_of(limit: float, unit: str) -> str:
    """Return a goal's limit as it was set."""
    return f"{limit:g} {unit}".rstrip()


def _with_interval(at: Sampled, unit: str) -> str:
    if at.low is None or at.high is None:
        return number(at.value, unit)
    digits = percent if unit else number
    return f"{number(at.value, unit)} ({digits(at.low)} to {digits(at.high)})"


def _judged(mine: Pairs) -> list[str]:
    found = accuracy.figures(mine[mine["measure"].isin(ENDS) & (mine["statistic"] == "mean")])
    share = found.judged_pct
    met = "nothing to judge" if share is None else "reached" if share >= LEAST_JUDGED_PCT else "missed"
    name, goal = "latency, mean: usable pairs judged", f"at least {LEAST_JUDGED_PCT:g} %"
    counted = f"{found.measured} measured, {found.usable} usable, {found.judged} judged"
    return [name, goal, number(share, "%"), counted, met, "-", "-"]


def _coverage(mine: Pairs) -> list[str]:
    found = accuracy.figures(mine[mine["measure"].isin(LATENCIES)])
    name = "90 % intervals of latency: share that holds the measured value, all experiments"
    inside = "one experiment says nothing"
    if found.coverage is None:
        inside = "nothing to judge"
    elif found.coverage_low is not None and found.coverage_high is not None:
        inside = "reached" if found.coverage_low <= LEVEL <= found.coverage_high else "missed"
    goal = f"{LEVEL:.2f} within its interval"
    return [name, goal, coverage_text(found), f"-; {found.judged}", inside, "-", coverage_text(found)]


def coverage_text(found: Figures) -> str:
    """Return a coverage with its interval."""
    if found.coverage is None:
        return "-"
    if found.coverage_low is None or found.coverage_high is None:
        return number(found.coverage)
    return f"{found.coverage:.2f} ({found.coverage_low:.2f} to {found.coverage_high:.2f})"


def left_out(rows: Pairs) -> str:
    """Return how many pairs were measured, usable and judged, and how models err on those left out."""
    latency = rows[(rows["measure"] == Measure.GROUND_TRUTH) & (rows["statistic"] == "mean")]
    lines = []
    for model, of in latency.groupby("model"):
        found, rest = accuracy.figures(of), goals.not_usable(of)
        saturated = int(of["full"].sum())
        lines.append(
            [
                *(str(model), str(found.measured), str(saturated), str(rest.pairs), str(found.usable)),
                *(str(found.judged), str(rest.answered), percent(rest.median_pct), percent(rest.p95_pct)),
                number(rest.coverage),
            ]
        )
    head = [
        *("model", "measured", "saturated", "a step invalid", "usable", "judged"),
        *("answered of those invalid", "median %", "p95 %", "coverage"),
    ]
    return (
        "Pairs of mean ground-truth latency. A saturated step has no mean latency. An invalid step was\n"
        "imprecise or unsteady, or its machine was too busy for the generator, or another check failed.\n"
        "Its measured values may be wrong. But such steps are also where models fail. So their errors\n"
        "against these values are given here, and nowhere else.\n\n" + table(head, lines)
    )
