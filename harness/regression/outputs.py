"""A comparison with the baseline as text, Markdown and JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from harness.regression.outcomes import NOT_ENOUGH, PASSED, WORSE, Outcome, Regression

SAID = {PASSED: "no regression", WORSE: "regression", NOT_ENOUGH: "not enough data to say"}


def verdict(of: Regression) -> str:
    """Return the answer in one line."""
    untested = sum(o.found == "untested" for o in of.outcomes)
    return (
        f"{SAID[of.status]}: {len(of.worse)} of {of.tested} comparisons worse or moved,"
        f" {untested} not testable (an unchanged night has any finding with probability {of.limits.alpha:g})"
    )


def table(of: Regression) -> list[tuple[str, ...]]:
    """Return a row an experiment and family: what was compared, and how much of it became worse or moved."""
    counts = Counter((o.experiment, o.family, o.found) for o in of.outcomes)
    rows: list[tuple[str, ...]] = []
    for experiment, family in dict.fromkeys((o.experiment, o.family) for o in of.outcomes):
        worse, same, untested = (counts[experiment, family, f] for f in ("worse", "same", "untested"))
        rows.append((experiment, family, str(worse + same), str(worse), str(untested)))
    return rows


COLUMNS = ("experiment", "what", "compared", "worse or moved", "not testable")


def lines(of: Regression) -> list[str]:
    """Return one line a finding, then what could not be compared, and what else to know."""
    findings = sorted(of.worse, key=lambda o: (o.experiment, o.family != "data", o.p or 0.0))
    return [*(o.line for o in findings), *(f"not compared: {g}" for g in of.gaps), *of.notes]


def markdown(of: Regression, title: str = "Regression") -> str:
    """Return a summary for a pull request or a page."""
    out = [f"# {title}", "", verdict(of).capitalize() + ".", ""]
    out += [_row(COLUMNS), _row(["---"] * len(COLUMNS)), *map(_row, table(of))]
    for heading, found in (
        ("Findings", [o.line for o in of.worse]),
        ("Not compared", of.gaps),
        ("To know", of.notes),
    ):
        if found:
            out += ["", f"## {heading}", "", *(f"- {_escaped(x)}" for x in found)]
    return "\n".join(out) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Keep names such as ``service_time_ms`` and ``__acker`` from becoming emphasis."""
    return "".join(f"\\{c}" if c in "_*|<" else c for c in text)


def junit(of: Regression) -> str:
    """Return JUnit XML: a suite an experiment, a case a hypothesis; gaps are skipped cases."""
    root = ET.Element("testsuites", name="harness regress")
    suites: dict[str, list[ET.Element]] = {}
    for o in of.outcomes:
        suites.setdefault(o.experiment, []).append(_case(o))
    for gap in of.gaps:
        case = ET.Element("testcase", classname="comparison", name=gap.split(":")[0])
        ET.SubElement(case, "skipped", message=gap)
        suites.setdefault(gap.split()[0], []).append(case)
    for name, cases in suites.items():
        failures, skipped = (sum(c.find(kind) is not None for c in cases) for kind in ("failure", "skipped"))
        suite = ET.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(cases)),
            failures=str(failures),
            errors="0",
            skipped=str(skipped),
        )
        suite.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(o: Outcome) -> ET.Element:
    case = ET.Element(
        "testcase", classname=f"{o.experiment}.{o.family}", name=f"{o.name} ({o.run})", time="0"
    )
    if o.found == "worse":
        ET.SubElement(case, "failure", message=o.line).text = o.line
    elif o.found == "untested":
        ET.SubElement(case, "skipped", message=o.detail)
    return case
