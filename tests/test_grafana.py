"""What Grafana is given names what is there; tests/system/test_influxdb_run.py runs its queries."""

from __future__ import annotations

import re

from dashboard import DASHBOARD, FOLDER, annotations, panels, topologies
from ruamel.yaml import YAML

from harness.backends.influxdb.store import EVENT, Event
from harness.schemas import Metric, MetricField


def test_queries_name_measurements_and_fields_that_there_are() -> None:
    for title, query in panels().items():
        measurements = set(re.findall(r'r\._measurement == "(\w+)"', query))
        fields = set(re.findall(r'r\._field == "(\w+)"', query))
        assert measurements <= set(Metric), title
        assert fields <= set(MetricField), title
        for name in measurements:
            assert fields <= set(Metric(name).fields), title
    assert f'r._measurement == "{EVENT}"' in annotations()
    assert set(re.findall(r"r\.(\w+)", annotations())) - {"topology"} <= {
        *Event._fields,
        "_measurement",
        "_time",
    }


def test_panels_annotations_and_variables_use_the_data_source_that_is_provisioned() -> None:
    file = FOLDER / "provisioning" / "datasources" / "storm-harness.yaml"
    (source,) = YAML(typ="safe").load(file.read_text(encoding="utf-8"))["datasources"]
    parts = [*DASHBOARD["panels"], *DASHBOARD["annotations"]["list"]]
    parts += [v for v in DASHBOARD["templating"]["list"] if v["type"] == "query"]
    assert len(parts) > 6
    assert {part["datasource"]["uid"] for part in parts} == {source["uid"]}
    assert "schema.tagValues" in topologies()
