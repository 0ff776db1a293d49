"""The rules of docs/architecture.md, read from the sources' imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise, permutations
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parent.parent / "harness"
PAGE = HARNESS.parent / "docs" / "architecture.md"
ROOMS = (
    *("errors", "plans", "schemas", "protocols", "machine", "quality", "runs"),
    *("topologies", "experiments"),
    *("models", "schedulers", "tuning", "forecasts"),
    *("analysis", "regression"),
    *("storm", "backends", "workload"),
    *("app", "service", "commands", "cli"),
)
"""From the bottom up: a room imports only from itself and from rooms before it (docs/architecture.md)."""
WITHIN = {
    "models": (
        *("compiling", "contract", "contention", "quotas", "network", "delivery"),
        *("simulator", "solver"),
        *("baselines", "thesis", "composite"),
    ),
    "analysis": ("spark", "judge", "plan_answers", "figures", "report", "analyse"),
}
"""The same within a room, for its modules and rooms of its own."""
APART = (
    *(("models", one, other) for one, other in permutations(("baselines", "thesis", "composite"), 2)),
    *(("models", one, other) for one, other in permutations(("simulator", "solver"), 2)),
)
"""Of these no one imports the other."""
NOUNS = {"errors", "plans", "schemas", "protocols", "quality", "runs"}
ONE_FILE_OF_BACKENDS = ("kafka", "influxdb_client", "neo4j", "ansible_runner")
ONLY_ANALYSIS = ("pyspark", "matplotlib", "seaborn")
PRINTING = {"cli.py", "console.py"}


def sources() -> list[Path]:
    return sorted(HARNESS.rglob("*.py"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return a source's syntax nodes; read once, as each rule asks for all sources."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def importers(package: str) -> list[Path]:
    return [
        p.relative_to(HARNESS)
        for p in sources()
        if any(name == package or name.startswith(f"{package}.") for name in imports(p))
    ]


@cache
def edges() -> tuple[tuple[str, str], ...]:
    """Every import of one of our modules by another, also in functions and under ``TYPE_CHECKING``."""
    modules = {module_name(p) for p in sources()}
    return tuple((module_name(p), name) for p in sources() for name in imported(nodes(p), modules))


def imported(tree: Iterable[ast.AST], modules: Collection[str]) -> Iterator[str]:
    """Yield those of some modules that a source imports anywhere."""
    for node in tree:
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in inner)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in modules)


def module_name(path: Path) -> str:
    parts = ("harness", *path.relative_to(HARNESS).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part(module: str, depth: int) -> str:
    parts = module.split(".")
    return parts[depth] if len(parts) > depth else ""


def test_the_page_has_the_rooms_in_their_order() -> None:
    table = (
        PAGE.read_text(encoding="utf-8").partition("| room | what lives there |\n")[2].partition("\n\n")[0]
    )
    named = [n for row in table.splitlines()[1:] for n in re.findall(r"`([\w/-]+)`", row.split("|")[1])]
    assert [n.rstrip("/") for n in named if n.rstrip("/") in ROOMS] == list(ROOMS)


def test_imports_are_seen_wherever_they_stand() -> None:
    source = """
if TYPE_CHECKING:
    from harness.runs import Run
def late():
    from harness import plans, __version__
    import harness.cli
"""
    ours = {"harness", "harness.runs", "harness.plans", "harness.cli", "harness.errors"}
    assert set(imported(ast.walk(ast.parse(source)), ours)) == ours - {"harness.errors"}
    assert not [p for p in sources() if any(isinstance(n, ast.ImportFrom) and n.level for n in nodes(p))]


def test_every_module_is_in_a_room_that_has_its_place() -> None:
    first = {part(module_name(p), 1) for p in sources()} - {"", "__main__"}
    assert first <= set(ROOMS)
    assert {p.stem for p in HARNESS.glob("*.py")} - {"__init__", "__main__"} <= NOUNS | {"cli"}
    assert first >= NOUNS
    for room, places in WITHIN.items():
        inner = {part(module_name(p), 2) for p in (HARNESS / room).rglob("*.py")} - {""}
        assert inner == set(places)


def test_rooms_import_downwards_only() -> None:
    upwards = [
        (a, b)
        for a, b in edges()
        if part(a, 1) in ROOMS and part(b, 1) and ROOMS.index(part(a, 1)) < ROOMS.index(part(b, 1))
    ]
    assert upwards == []


@pytest.mark.parametrize("room", WITHIN)
def test_so_they_do_within_a_room(room: str) -> None:
    places = WITHIN[room]
    upwards = [
        (a, b)
        for a, b in edges()
        if part(a, 1) == part(b, 1) == room
        and part(a, 2)
        and part(b, 2)
        and places.index(part(a, 2)) < places.index(part(b, 2))
    ]
    assert upwards == []


@pytest.mark.parametrize(("room", "one", "other"), APART)
def test_a_model_never_imports_another(room: str, one: str, other: str) -> None:
    own, others = f"harness.{room}.{one}.", f"harness.{room}.{other}."
    assert [(a, b) for a, b in edges() if a.startswith(own) and b.startswith(others)] == []


def test_estimates_of_the_source_know_no_proposed_plan() -> None:
    source, plan = "harness.models.composite.source.", "harness.models.composite.plan."
    assert not [e for e in edges() if e[0].startswith(source) and e[1].startswith(plan)]


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for a, b in edges():
        graph.setdefault(a, set()).add(b)
    TopologicalSorter(graph).prepare()  # CycleError names one


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for path in sources():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(
                    f"{path.relative_to(HARNESS)}:{node.lineno}"
                )
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


@pytest.mark.parametrize("package", ONE_FILE_OF_BACKENDS)
def test_a_client_of_an_outside_system_lives_in_one_file_of_backends(package: str) -> None:
    found = importers(package)
    assert len(found) <= 1
    assert all(p.parts[0] == "backends" for p in found)


def test_storm_is_spoken_to_in_one_file() -> None:
    assert [p.as_posix() for p in importers("thriftpy2")] == ["storm/nimbus.py"]


def test_the_two_clients_in_use_are_found_at_all() -> None:
    assert importers("thriftpy2")
    assert importers("kafka")


@pytest.mark.parametrize("package", ONLY_ANALYSIS)
def test_spark_and_plotting_stay_in_analysis(package: str) -> None:
    found = importers(package)
    assert found
    assert all(p.parts[0] == "analysis" for p in found)


PURE = ("models", "schedulers", "tuning", "forecasts")
"""Rooms of pure functions; ``models/compiling.py`` alone keeps machine code on disk."""
READING_ITS_OWN = {"models/composite/uncertainty.py": "calibration.json, which is part of the package"}
"""Modules of these that may use ``importlib.resources``, and what they read by it."""


def pure_modules() -> list[Path]:
    return [p for room in PURE for p in sorted((HARNESS / room).rglob("*.py")) if p.stem != "compiling"]


@pytest.mark.parametrize("path", pure_modules(), ids=lambda p: p.relative_to(HARNESS).as_posix())
def test_pure_rooms_touch_nothing_outside(path: Path) -> None:
    forbidden = {"time", "os", "pathlib", "socket", "subprocess", "random", "importlib.resources"}
    if path.relative_to(HARNESS).as_posix() in READING_ITS_OWN:
        assert "importlib.resources" in imports(path)
        forbidden -= {"importlib.resources"}
    for name in imports(path):
        assert not any(name == f or name.startswith(f"{f}.") for f in forbidden), name


@pytest.mark.parametrize("path", [p for p in sources() if p.name not in PRINTING], ids=lambda p: p.name)
def test_only_the_console_prints(path: Path) -> None:
    calls = (n for n in nodes(path) if isinstance(n, ast.Call))
    assert not any(isinstance(c.func, ast.Name) and c.func.id == "print" for c in calls)


MOST_LINES = 500


def test_no_module_is_long() -> None:
    """A longer one has parts that change for different reasons."""
    lengths = {p.relative_to(HARNESS).as_posix(): len(p.read_text("utf-8").splitlines()) for p in sources()}
    assert {place: lines for place, lines in lengths.items() if lines > MOST_LINES} == {}


MOST_MODULES, MOST_CLIMBS = 25, 2
"""Of the path of a rate: its modules, and those in a higher room than the module before."""
ROW = re.compile(r"^\| (\d+) \| `([\w/]+\.py)` \| `(\w+)` \| .+ \|$", re.MULTILINE)
FIGURES = re.compile(r"^The path has (\d+) modules, and (\d+) of them are in a higher room", re.MULTILINE)
WITHOUT_RATE = ("workload", "models/solver", "models/simulator")


def section_of_the_rate() -> str:
    return PAGE.read_text(encoding="utf-8").partition("## How a rate travels\n")[2].partition("\n## ")[0]


def path_of_the_rate() -> list[tuple[Path, str]]:
    """Return the modules of the page's table, each with the name that the rate has there."""
    rows = ROW.findall(section_of_the_rate())
    assert [int(number) for number, _, _ in rows] == list(range(1, len(rows) + 1))
    return [(HARNESS / module, name) for _, module, name in rows]


def identifiers(path: Path) -> Iterator[str]:
    """Yield the names that a module's code uses; words of its texts are none."""
    for node in nodes(path):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name


def test_every_module_of_the_rate_s_path_names_the_rate() -> None:
    path = path_of_the_rate()
    assert path
    assert len({module for module, _ in path}) == len(path)
    assert [module for module, name in path if name not in identifiers(module)] == []


def test_every_module_of_the_rate_s_path_is_joined_to_a_neighbour() -> None:
    names, imported = [module_name(module) for module, _ in path_of_the_rate()], set(edges())
    alone = [
        name
        for i, name in enumerate(names)
        if not {(name, other) for other in names[max(i - 1, 0) : i + 2]} & imported
        and not {(other, name) for other in names[max(i - 1, 0) : i + 2]} & imported
    ]
    assert alone == []


def test_the_rate_s_path_is_as_short_as_the_page_says() -> None:
    rooms = [ROOMS.index(part(module_name(module), 1)) for module, _ in path_of_the_rate()]
    climbs = sum(after > before for before, after in pairwise(rooms))
    (said,) = FIGURES.findall(section_of_the_rate())
    assert (int(said[0]), int(said[1])) == (len(rooms), climbs)
    assert len(rooms) <= MOST_MODULES
    assert climbs <= MOST_CLIMBS


@pytest.mark.parametrize("room", WITHOUT_RATE)
def test_behind_the_path_s_ends_nobody_names_the_rate(room: str) -> None:
    folder = HARNESS / room
    assert [p.name for p in folder.rglob("*.py") if "rate_tps" in identifiers(p)] == []
