"""Templates filled: every page of the service is made here, and names in it are text."""

from __future__ import annotations

import math

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.errors import HarnessError
from harness.service.run_index import UnknownName

TEMPLATES = Environment(
    loader=PackageLoader("harness", "assets/service"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["num"] = lambda value, digits=1: (
    "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"
)


def page(template: str, root: str, status: int = 200, /, **values: object) -> HTMLResponse:
    """Fill a template; ``root`` leads from the page's address to the service's own."""
    return HTMLResponse(TEMPLATES.get_template(template).render(root=root, **values), status)


def error_page(error: HarnessError | str, status: int) -> HTMLResponse:
    """Return a page that says what is wrong, and what there is instead."""
    known = error.known if isinstance(error, UnknownName) else ()
    message = error if isinstance(error, str) else error.message if known else str(error)
    return page("error.html.j2", "/", status, message=message, known=known)
