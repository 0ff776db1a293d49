"""Secrets in what a run keeps: planted wherever settings go, and looked for in every byte of the run."""

from __future__ import annotations

import json
import logging
import sys
from html import escape
from pathlib import Path

import pytest
from harness_command import harness
from hypothesis import given
from hypothesis import strategies as st

from harness.app import campaigning
from harness.errors import UsageError
from harness.experiments.loading import NAMED_BY_OTHERS, dump, load, require_secrets
from harness.machine.environment import describe
from harness.machine.masking import MASK, SecretMask, looks_secret, masked_keys
from harness.regression.bundle import bundle
from harness.runs import Run

PLANTED = {
    "option": "s3cr3t-of-an-option",
    "joined": "s3cr3t-joined",
    "property": "s3cr3t-of-a-property",
    "list": "s3cr3t-in-a-list",
    "url": "s3cr3t-in-a-url",
    "storm": 's3cr3t-of-"storm"',
    "producer": "s3cr3t-of-the-producer",
    "variable": "s3cr3t-of-the-environment",
    "jdbc": "s3cr3t-in-a-query",
    "nested": "s3cr3t-below-a-name",
    "number": "90417326",
}
SETTINGS = [
    f"topology.storm.my.store.password={json.dumps(PLANTED['storm'])}",
    f"topology.storm.my.store.url=https://me:{PLANTED['url']}@store.example/x",
    f"topology.producer.ssl.key.password={PLANTED['producer']}",
    f"topology.storm.my.jdbc=jdbc:postgresql://db/orders?user=etl&password={PLANTED['jdbc']}&ssl=true",
    f"topology.storm.my.mail={{host: mx, api_token: {PLANTED['nested']}}}",
    f"topology.storm.my.pin.secret={PLANTED['number']}",
    "workload.keys={token: 2, B: 1}",
]
MASKED = [option.partition("=")[0] for option in SETTINGS[:6]]
ARGUMENTS = [
    *("run", "x.yaml", "--set", f"topology.storm.api.token={PLANTED['option']}", "--set=workload.rate_tps=7"),
    *(f"--set=topology.storm.x.secret={PLANTED['joined']}", f"-Ddb.password={PLANTED['property']}"),
    f"--set=topology.args=[--user, me, --password, {PLANTED['list']}, 3]",
]


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(
            (name, True)
            for name in ("password", "db.passwd", "--api-key", "secretAccessKey", "PGPASSWORD.pwd")
        ),
        *((name, True) for name in ("sasl.jaas.config", "NEO4J_PASSWORD", "my-Token", "credentials")),
        *(
            (name, False)
            for name in ("key", "key.serializer", "topology.keys", "passes", "tokens", "secretary")
        ),
        *((name, False) for name in ("delegation.token.max.lifetime.ms", "topology.token.count", "monkey")),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert looks_secret(name) == secret


def test_a_command_line_is_kept_without_its_secrets() -> None:
    mask = SecretMask()
    assert mask.arguments(ARGUMENTS) == [
        *("run", "x.yaml", "--set", f"topology.storm.api.token={MASK}", "--set=workload.rate_tps=7"),
        *(f"--set=topology.storm.x.secret={MASK}", f"-Ddb.password={MASK}"),
        f'--set=topology.args=["--user", "me", "--password", "{MASK}", 3]',
    ]
    said = " ".join(PLANTED[name] for name in ("option", "joined", "property", "list"))
    assert mask.text(said) == " ".join([MASK] * 4)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["a", "b.c", "rate"]), inner, max_size=3)
        ),
    )
)
def test_settings_without_secrets_stay_as_they_are(value: object) -> None:
    if "--" not in repr(value) and "://" not in repr(value) and "=" not in repr(value):
        assert SecretMask().tree(value) == value


def files_with(folder: Path, secrets: dict[str, str]) -> dict[str, list[str]]:
    """Names of planted secrets that are in a file of a folder, as they are or as JSON has them."""
    leaks: dict[str, list[str]] = {}
    for path in (p for p in folder.rglob("*") if p.is_file()):
        contents = path.read_bytes()
        for name, secret in secrets.items():
            if secret.encode() in contents or json.dumps(secret)[1:-1].encode() in contents:
                leaks.setdefault(name, []).append(path.name)
    return leaks


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that began with secrets everywhere, failed, and kept its servers' logs."""
    monkeypatch.setattr(sys, "argv", ["harness", *ARGUMENTS])
    monkeypatch.setenv("STORE_TOKEN", PLANTED["variable"])
    experiment = load("quick", SETTINGS)
    environment = describe("local", {"provisioned": {"settings": {"a.password": PLANTED["storm"]}}})
    made = Run.create(tmp_path / "runs", "planted", {"experiment.yaml": dump(experiment)}, environment)
    mask = SecretMask.of(experiment.model_dump(mode="json"), sys.argv[1:])
    everything = " ".join(PLANTED.values())
    logs = tmp_path / "logs" / "submission"
    logs.mkdir(parents=True)
    (logs / "submit.json").write_text(json.dumps(PLANTED))
    (logs / "worker.log").write_text(f"{everything}\n{everything}")
    with campaigning.logging_to(made, mask):
        logging.getLogger("harness.any").error("cannot log in with %s", everything)
        try:
            raise ValueError(everything)
        except ValueError:
            logging.getLogger("harness.any").exception("as follows")
    assert campaigning.keep_logs(tmp_path / "logs", made.path / "servers", mask)
    return made


def test_no_planted_secret_is_in_a_run_or_in_its_bundle(run: Run, tmp_path: Path) -> None:
    assert files_with(tmp_path / "logs", PLANTED).keys() == PLANTED.keys()  # the search finds what is there
    assert files_with(run.path, PLANTED) == {}
    assert (run.path / "log.txt").read_text().count(MASK) >= 2 * len(PLANTED)
    kept = load(run.path / "experiment.yaml")
    assert kept.workload is not None
    assert kept.workload.keys == {"token": 2.0, "B": 1.0}  # a weight is no secret
    (run.path / "steps" / "00").mkdir()
    (tmp_path / "sealed").mkdir()
    sealed, _ = bundle(run.path, tmp_path / "sealed" / "b.zip")
    assert sealed.stat().st_size > 1000
    assert files_with(tmp_path / "sealed", PLANTED) == {}  # its files are stored as they are


@pytest.mark.deep
def test_no_planted_secret_is_in_what_a_run_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole command, on the simulator: its table of events and its page are made as any run's are."""
    monkeypatch.setenv("STORE_TOKEN", PLANTED["variable"])
    short = ("burn_in={least_s: 4, most_s: 6}", "interval={least_s: 10, most_s: 10, looks: 1}")
    settings = (
        "cluster.kind=simulator",
        *(f"measure.{key}" for key in short),
        "steps.plan=[{executors: 1}, {executors: 2}]",
        "models=[no-change]",
        ARGUMENTS[3],
        ARGUMENTS[5].removeprefix("--set="),
        *SETTINGS,
    )
    options = [word for setting in settings for word in ("--set", setting)]
    status, _, said = harness("run", "quick", "--runs", str(tmp_path / "runs"), *options)
    assert status in (0, 3, 4), said  # played steps are never valid
    (path,) = tmp_path.glob("runs/*/*")
    for name in ("report.html", "progress.jsonl", "verdict.json"):
        assert (path / name).stat().st_size > 0
    assert escape(MASK) in (path / "report.html").read_text()  # it has the experiment's settings
    assert files_with(path, PLANTED) == {}
    assert not [name for name, secret in PLANTED.items() if secret in said]


def test_a_resumed_run_wants_its_secrets_again_and_nothing_else(run: Run) -> None:
    path = run.path / "experiment.yaml"
    kept = load(path).model_dump(mode="json")
    assert sorted(masked_keys(kept, whole_below=NAMED_BY_OTHERS)) == sorted(MASKED)
    again = [f"{key}=x-{number}" for number, key in enumerate(MASKED)]
    require_secrets(path, again, needed=True)
    loaded = load(path, again)
    assert masked_keys(loaded.model_dump(mode="json")) == []
    require_secrets(path, [], needed=False)
    with pytest.raises(
        UsageError, match=r"experiment\.yaml: topology\.\S+ was not kept, because it looks li"
    ):
        require_secrets(path, again[1:], needed=True)
    with pytest.raises(UsageError, match=r"--set cannot change a run that has begun \(workload\.rate_tps\)"):
        require_secrets(path, [*again, "workload.rate_tps=1"], needed=True)
