"""Records of older runs: those of every archived run, and records that lack any of the later keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_records import interval, ledger, quality
from pydantic import BaseModel, JsonValue

from harness.quality import Ledger, Quality
from harness.runs import (
    DeclinedStep,
    FaultMade,
    Interval,
    Rejected,
    Run,
    StepPlan,
    StepTuning,
    read_adaptation,
    read_table,
)
from harness.schemas import ADAPTATION, LATENCY, METRICS, SCHEMA_VERSION
from harness.schemas.migrations import (
    FIRST,
    LATER_IN_ATTEMPT,
    LATER_IN_FAULT,
    LATER_IN_INTERVAL,
    LATER_IN_LEDGER,
    LATER_IN_PLAN,
    LATER_IN_QUALITY,
    SECOND,
    THIRD,
    migrate_adaptation,
    migrate_interval,
    migrate_plan,
    migrate_quality,
)

ROOT = Path(__file__).parents[2]
ARCHIVED = sorted(p.parent for p in (ROOT / "reports" / "runs").glob("*/*/environment.json"))
KEYS = Path(__file__).with_name("keys.json")
MIGRATIONS: Mapping[str, tuple[Callable[[int, JsonValue], JsonValue], Mapping[str, JsonValue]]] = {
    "plan": (migrate_plan, LATER_IN_PLAN),
    "interval": (migrate_interval, LATER_IN_INTERVAL),
    "quality": (migrate_quality, LATER_IN_QUALITY),
}

DIGESTS = {
    3: "68db8a4038b37f41bfd7a826b4ac5eda7ca5bb169c912128ab0eb9d42ea06d3f",
    4: "9ff76ae9fbf63207957680146be5366e37ff4adbc981bdb2feedfe5bc8650e00",
}
"""Of ``keys.json`` by schema number, from the first that was kept."""


def read(path: Path) -> dict[str, JsonValue]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def test_the_archive_has_records_of_every_age() -> None:
    """With and without each later key that archived runs lack at all, and attempts that are a text."""
    lacking: dict[str, set[str]] = {name: set() for name in MIGRATIONS}
    texts = 0
    for run in ARCHIVED:
        for name, (_, later) in MIGRATIONS.items():
            for path in run.glob(f"steps/*/{name}.json"):
                said = read(path)
                lacking[name] |= later.keys() - said.keys()
                attempts = said.get("rejected", [])
                texts += sum(isinstance(a, str) for a in attempts) if isinstance(attempts, list) else 0
    assert lacking["plan"] == set(LATER_IN_PLAN)
    assert lacking["interval"] >= {"latency", "rejected", "rejected_s", "faults", "evidence"}
    assert lacking["quality"] >= {"tracked", "absent", "began_empty", "clocks", "stolen", "alone"}
    assert texts


@pytest.mark.parametrize("path", ARCHIVED, ids=lambda p: "/".join(p.parts[-2:]))
def test_what_an_archived_run_says_is_read_as_it_says_it_and_the_rest_is_what_it_meant(path: Path) -> None:
    run = Run(path)
    for step in run.finished_steps:
        records = {"plan": run.plan(step), "interval": run.interval(step), "quality": run.quality(step)}
        for name, record in records.items():
            said, now = read(run.step_path(step) / f"{name}.json"), json.loads(record.model_dump_json())
            later = MIGRATIONS[name][1]
            assert said.keys() | later.keys() == now.keys()
            if said.get("adaptation") is not None and isinstance(absent := said["absent"], dict):
                said["absent"] = {check: why for check, why in absent.items() if check != "metrics"}
            for key in said.keys() - {"rejected", "ledger"}:
                assert now[key] == said[key], f"{name}.json of step {step}: {key}"
            for key in later.keys() - said.keys() - {"relief"}:
                assert now[key] == later[key], f"{name}.json of step {step}: {key}"
        reasons = [a if isinstance(a, str) else a["reason"] for a in read_rejected(run, step)]
        assert [a.reason for a in run.interval(step).rejected] == reasons
        kept = read(run.step_path(step) / "quality.json")["ledger"]
        assert isinstance(kept, dict)
        found = run.quality(step).ledger
        assert found is not None
        assert json.loads(found.model_dump_json()) == {**LATER_IN_LEDGER, **kept}


def read_rejected(run: Run, step: int) -> list[JsonValue]:
    found = read(run.step_path(step) / "interval.json").get("rejected", [])
    assert isinstance(found, list)
    return found


def test_an_older_run_has_only_the_reason_of_an_attempt_that_was_not_kept() -> None:
    older = json.loads(interval(attempt=2).model_dump_json()) | {"rejected": ["burn-in: drift of 14 %"]}
    found = Interval.model_validate_json(json.dumps(migrate_interval(FIRST, older)))
    assert found.rejected == (Rejected.broken_off("burn-in: drift of 14 %"),)
    assert found.measured_again == "measured again; before: burn-in: drift of 14 %"


@given(st.sets(st.sampled_from(sorted(LATER_IN_QUALITY))), st.sets(st.sampled_from(sorted(LATER_IN_LEDGER))))
def test_a_record_of_any_age_is_whole(lacks: set[str], ledger_lacks: set[str]) -> None:
    whole = json.loads(quality(ledger=ledger(sent=3, received=2, filtered=1)).model_dump_json())
    assert migrate_quality(FIRST, whole) == whole
    older = {k: v for k, v in whole.items() if k not in lacks}
    if isinstance(older.get("ledger"), dict):
        older["ledger"] = {k: v for k, v in older["ledger"].items() if k not in ledger_lacks}
    found = Quality.model_validate(migrate_quality(FIRST, older))
    assert found.steady.ok
    if "ledger" in lacks:
        assert found.ledger is None
    else:
        assert found.ledger is not None
        assert (found.ledger.sent, found.ledger.received) == (3, 2)
        assert found.ledger.filtered == (0 if "filtered" in ledger_lacks else 1)


def test_metrics_are_checked_of_a_step_that_adapts_whatever_its_run_says() -> None:
    """Until schema 4 such steps were said not to have that check, as they have no ledger of their own."""
    said = {"metrics": "it adapts", "ledger": "it adapts"}
    for adaptation, absent in (({"applied": 1}, {"ledger": "it adapts"}), (None, said)):
        older = {"adaptation": adaptation, "absent": said}
        assert migrate_quality(THIRD, older) == {"adaptation": adaptation, "absent": absent}
        assert migrate_quality(SCHEMA_VERSION, older) == older


@pytest.mark.parametrize("name", MIGRATIONS)
def test_today_s_records_are_taken_as_they_are(name: str) -> None:
    """One that lacks a key is refused by its type, and what is no record at all by its name."""
    migrate = MIGRATIONS[name][0]
    assert migrate(SCHEMA_VERSION, {}) == {}
    assert migrate(FIRST, [1]) == [1]


@pytest.mark.parametrize(
    ("record", "later"),
    [
        (Interval, LATER_IN_INTERVAL),
        (Rejected, LATER_IN_ATTEMPT),
        (FaultMade, LATER_IN_FAULT),
        (Quality, LATER_IN_QUALITY),
        (Ledger, LATER_IN_LEDGER),
        (StepPlan, LATER_IN_PLAN),
    ],
)
def test_every_key_of_today_s_records_has_to_be_there(
    record: type[BaseModel], later: Mapping[str, JsonValue]
) -> None:
    assert all(field.is_required() for field in record.model_fields.values())
    assert later.keys() < record.model_fields.keys()


def keys() -> dict[str, object]:
    """Every key and column of a run directory's records and tables, with its type."""
    found: dict[str, object] = {}
    for record in (StepPlan, StepTuning, Interval, Quality, DeclinedStep):
        schema = record.model_json_schema(mode="serialization")
        parts = {record.__name__: schema, **schema.get("$defs", {})}
        found |= {name: _plain(part.get("properties", part)) for name, part in parts.items()}
    tables: Mapping[str, pa.Schema] = {"latency": LATENCY, "metrics": METRICS, "adaptation": ADAPTATION}
    columns = {name: {f.name: str(f.type) for f in table} for name, table in tables.items()}
    return {"schema": SCHEMA_VERSION, **found, **columns}


def _plain(node: JsonValue) -> JsonValue:
    """Leave out titles, descriptions and defaults: they are not the record's shape."""
    if isinstance(node, dict):
        words = ("title", "description", "default")
        return {k: _plain(v) for k, v in node.items() if k not in words or isinstance(v, dict)}
    return [_plain(v) for v in node] if isinstance(node, list) else node


def digest(known: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def test_the_schema_number_goes_up_when_a_record_or_a_table_changes() -> None:
    """``keys.json`` is what the newest number stands for, and each number stands for one digest for good.

    After a change, raise ``SCHEMA_VERSION``, say in ``harness/schemas/migrations.py`` what older records are
    now, write the file anew (``PYTHONPATH=.:tests/support python tests/schemas/test_migrations.py``), and add
    its digest to ``DIGESTS``. A digest in that list is never replaced: it is in runs of users.
    """
    kept = json.loads(KEYS.read_text())
    assert kept == json.loads(json.dumps(keys()))
    assert digest(kept) == DIGESTS[SCHEMA_VERSION]
    assert max(DIGESTS) == SCHEMA_VERSION


def test_an_archived_table_of_periods_is_read_with_today_s_columns() -> None:
    """Each of schema 2 has all of its own columns as they are; at least one lacks some of today's."""
    older = [(Run(run), path) for run in ARCHIVED for path in run.glob("steps/*/adaptation.parquet")]
    lacking = set()
    for run, path in older:
        table = read_table(path)
        now = read_adaptation(path, run.schema)
        assert now.select(table.column_names) == table
        assert set(now.column_names) >= set(ADAPTATION.names)
        lacking |= set(ADAPTATION.names) - set(table.column_names)
    assert lacking
    assert migrate_adaptation(SCHEMA_VERSION, pa.table({"period": [1]})).column_names == ["period"]
    assert SECOND < SCHEMA_VERSION


if __name__ == "__main__":
    KEYS.write_text(json.dumps(keys(), indent=1) + "\n")
