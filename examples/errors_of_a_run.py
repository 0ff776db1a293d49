"""A run in a notebook: what was measured, what models said, and where a model errs.

marimo edit examples/errors_of_a_run.py
python examples/errors_of_a_run.py            # the same, as a script
"""

import marimo

app = marimo.App()


@app.cell
def _():
    from pathlib import Path

    import marimo as mo

    import harness
    from harness.schemas import Measure, Metric, MetricField

    return Measure, Metric, MetricField, Path, harness, mo


@app.cell
def _(Path, harness):
    """A run of an archive; any run directory will do."""
    archive = Path(__file__).resolve().parent.parent / "reports" / "runs"
    runs = harness.search_runs(archive, experiment="loaded-workers", verdict="valid")
    run = harness.load_run(runs["path"][0])
    run
    return run, runs


@app.cell
def _(Metric, MetricField, run):
    """Tuples a second that each component of the first step received."""
    metrics = run.metrics(0)
    counted = (metrics["measurement"] == Metric.RECEIVED) & (metrics["field"] == MetricField.COUNT)
    seconds = run.steps["length_s"][0]
    received_tps = metrics[counted].groupby("component", observed=True)["value"].sum() / seconds
    received_tps
    return (received_tps,)


@app.cell
def _(Measure, harness, run):
    """Each step's mean latency as measured, and as one model predicts it from the first."""

    def mean_ms(step):
        answer = harness.predict(run, "no-change", source=0, proposed=step)
        return next(
            e.value
            for e in answer.estimates
            if e.measure == Measure.GROUND_TRUTH and e.statistic == "mean" and not e.subject
        )

    beside = run.steps[["workers", "mean_ms"]].assign(predicted_ms=[mean_ms(n) for n in run.steps.index])
    beside["error_pct"] = 100 * (beside["predicted_ms"] / beside["mean_ms"] - 1)
    beside
    return (beside,)


@app.cell
def _(beside, mo):
    worst = beside["error_pct"].abs().max()
    mo.md(f"Answering with the first step's own measurement errs by up to **{worst:.0f} %**.")
    return (worst,)


if __name__ == "__main__":
    app.run()
