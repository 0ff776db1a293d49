"""The builder: an experiment's graph, steps and file on one page, drawn, checked and predicted."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, PlainTextResponse
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field

from harness.errors import HarnessError, UsageError
from harness.schedulers import SCHEDULERS
from harness.service import building, step_editing
from harness.service.job_rest import require_token
from harness.service.jobs import shipped
from harness.service.proposal_pages import tuned_file
from harness.service.run_index import UnknownName
from harness.service.templates import page
from harness.topologies.own_graph import GraphStream
from harness.topologies.roles import ROLES
from harness.tuning import TUNERS

builder_pages = APIRouter(prefix="/builder", include_in_schema=False)
START = "fields-to-fields"
Action = Literal[
    "none",
    "set",
    "add_component",
    "remove_component",
    "add_stream",
    "remove_stream",
    "add_step",
    "copy_step",
    "remove_step",
    "set_counts",
    "set_planner",
]
"""Changes of a file."""
GROUPINGS = get_args(GraphStream.model_fields["grouping"].annotation)


class Edit(BaseModel):
    """A file's text and one change of it.

    Attributes
    ----------
    text : str
    action : str
    arguments : list of str
        Of the action, in the order of the functions of ``harness.service.building`` and ``step_editing``; of
        ``set`` the value, then the parts of the key.
    """

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=200_000)]
    action: Action = "none"
    arguments: Annotated[list[str], Field(max_length=12)] = []


@builder_pages.get("")
def show_builder(request: Request, experiment: str = START) -> HTMLResponse:
    """Show a shipped experiment in the builder."""
    del request
    known = shipped()
    if experiment not in known:
        raise UnknownName("experiment", experiment, list(known))
    text = building.opened(known[experiment])
    return page("builder.html.j2", "", experiments=list(known), chosen=experiment, **_parts(text))


@builder_pages.post("/parts", dependencies=[Depends(require_token)])
def edit_parts(edit: Edit) -> HTMLResponse:
    """Change a file and show it anew; a change that cannot be leaves it and says why."""
    try:
        tree = building.read(edit.text)
        _apply(tree, edit)
        text = edit.text if edit.action == "none" else building.write(tree)
    except UsageError as error:
        return page("builder_parts.html.j2", "", **_parts(edit.text, str(error)))
    return page("builder_parts.html.j2", "", **_parts(text))


@builder_pages.post("/prediction", dependencies=[Depends(require_token)])
def predict(edit: Edit) -> HTMLResponse:
    """Play and predict the file's first steps."""
    from harness.service.trying import try_out  # noqa: PLC0415 (compiles)

    try:
        return page("builder_prediction.html.j2", "", rows=try_out(edit.text), problem="")
    except HarnessError as error:
        return page("builder_prediction.html.j2", "", rows=[], problem=str(error))


@builder_pages.post("/optimised", dependencies=[Depends(require_token)])
def optimise(edit: Edit) -> PlainTextResponse:
    """Return the file that measures the first step, and then a named tuner's proposal for it."""
    tuner = edit.arguments[0] if edit.arguments else ""
    if tuner not in TUNERS:  # a client cannot name code to load
        raise UnknownName("tuner", tuner, list(TUNERS))
    return PlainTextResponse(tuned_file(building.checked(edit.text), tuner))


def _apply(tree: building.Tree, edit: Edit) -> None:
    given = [*edit.arguments, "", "", "", ""]
    match edit.action:
        case "set":
            building.set_key(tree, edit.arguments[1:], given[0])
        case "add_component":
            building.add_component(tree, given[0], given[1])
        case "remove_component":
            building.remove_component(tree, given[0])
        case "add_stream":
            building.add_stream(tree, given[0], given[1], given[2], given[3])
        case "remove_stream":
            building.remove_stream(tree, _position(given[0]))
        case "add_step":
            step_editing.add_step(tree)
        case "copy_step":
            step_editing.copy_step(tree, _position(given[0]))
        case "remove_step":
            step_editing.remove_step(tree, _position(given[0]))
        case "set_counts":
            step_editing.set_counts(tree, _position(given[0]), given[1])
        case "set_planner":
            step_editing.set_planner(tree, _position(given[0]), given[1])


def _position(given: str) -> int:
    """Return a position in a list, as a client gave it."""
    if not given.isdecimal() or len(given) > building.DIGITS:
        raise UsageError(f"{given[:20]!r} is no position")
    return int(given)


def _parts(text: str, problem: str = "") -> dict[str, object]:
    """Return the parts of a file's page: form, drawing where the file is an experiment, and problems."""
    from harness.analysis.figures import query_plan_drawing  # noqa: PLC0415 (takes a second)

    drawing, notes = "", []
    try:
        tree = building.read(text)
    except UsageError as error:
        tree, problem = {}, problem or str(error)
    try:
        experiment = building.checked(text)
        notes = building.warnings(experiment)
        if experiment.topology.known:
            drawing = query_plan_drawing.draw(experiment.topology.query_plan(), link="#component-")
        elif not problem:
            problem = "the graph of a jar is in the jar: it is known when it was run"
    except (UsageError, ValueError) as error:
        problem = problem or str(error)
    topology, steps = tree.get("topology"), tree.get("steps")
    graph = building.written_out(topology) if isinstance(topology, dict) else {}
    components = graph.get("components")
    return {
        "text": text,
        "problem": problem,
        "notes": notes,
        "drawing": Markup(drawing),
        "components": components if isinstance(components, dict) else {},
        "streams": _numbered(graph.get("streams")),
        "steps": _numbered(steps.get("plan") if isinstance(steps, dict) else None),
        "batching": graph.get("batching") if isinstance(graph.get("batching"), dict) else {},
        "tree": tree,
        "roles": list(ROLES),
        "groupings": GROUPINGS,
        "tuners": list(TUNERS),
        "schedulers": list(SCHEDULERS),
    }


def _numbered(rows: object) -> list[tuple[str, building.Tree]]:
    """Return a list's mappings, each with its position; others are left to the file."""
    found = rows if isinstance(rows, list) else []
    return [(str(i), row) for i, row in enumerate(found) if isinstance(row, dict)]
