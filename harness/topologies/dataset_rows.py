"""Rows of a dataset in a test topology: keys made of their fields, aggregates, and the fields that are there.

A message of a workload with a dataset has one row as its payload, ``name=value`` pairs with ``;`` between
them. ``Row.java`` and ``Aggregate.java`` of storm-topologies read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.plans import Frozen, Positive, QueryPlan
from harness.topologies.geohash import geohash
from harness.topologies.ways import levels

Kind = Literal["text", "number"]
Fields = Mapping[str, Kind]
"""The fields of a row with their kinds."""
FieldName = Annotated[str, Field(pattern=r"^([a-z][a-z0-9_]*|geohash-([1-9]|1[0-2]))$")]
"""A field of a row, or the geohash of its ``lat`` and ``lon``, with its number of characters."""
GEOHASH = "geohash-"
AT_S = "at_s"
"""When a row was made, in seconds: windows are of this time."""


class Aggregate(Frozen):
    """The state that a keyed component keeps of rows: each row goes on at once, with the result so far.

    Attributes
    ----------
    kind : {'sum', 'top-k', 'merge-top-k'}
        ``sum`` adds a field up for each key. ``top-k`` counts the values of a field for each key and window;
        ``merge-top-k``, behind it, sums the counts of all its keys, by value.
    of : str
        Of ``sum`` and ``top-k``: the field.
    k : int
        Of ``top-k`` and ``merge-top-k``: as many of the greatest count, others are 0.
    window_s : int
        Of ``top-k``: seconds of a tumbling window, by the rows' ``at_s``.
    """

    kind: Literal["sum", "top-k", "merge-top-k"]
    of: FieldName | None = None
    k: Positive | None = None
    window_s: Positive | None = None

    @property
    def adds(self) -> Fields:
        """Fields that a row has afterwards."""
        match self.kind:
            case "sum":
                return {"sum": "number"}
            case "top-k":
                return {"window": "number", "counted_for": "text", "count": "number"}
            case "merge-top-k":
                return {"total": "number"}

    @property
    def reads(self) -> Fields:
        """Fields that a row must have."""
        match self.kind:
            case "sum":
                return {str(self.of): "number"}
            case "top-k":
                return {str(self.of): "text", AT_S: "number"}
            case "merge-top-k":
                return {"window": "number", "counted_for": "text", "count": "number"}

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> Self:
        needed = {"sum": ("of",), "top-k": ("of", "k", "window_s"), "merge-top-k": ("k",)}[self.kind]
        for key in ("of", "k", "window_s"):
            if (getattr(self, key) is None) == (key in needed):
                said = "needs the key" if key in needed else "has no use for the key"
                raise ValueError(f"{self.kind} {said} {key!r}")
        return self


def row_key(row: Mapping[str, str], fields: tuple[str, ...]) -> str:
    """Return the key that fields of a row make, as ``Row.java`` does.

    Examples
    --------
    >>> row_key({"tail": "N17", "year": "1987"}, ("tail", "year"))
    'N17/1987'
    >>> row_key({"lat": "57.64911", "lon": "10.40744"}, ("geohash-4",))
    'u4pr'
    """
    return "/".join(
        geohash(float(row["lat"]), float(row["lon"]), int(name.removeprefix(GEOHASH)))
        if name.startswith(GEOHASH)
        else row[name]
        for name in fields
    )


def require_fields(
    plan: QueryPlan,
    keys: Mapping[str, tuple[str, ...]],
    aggregates: Mapping[str, Aggregate],
    replacing: frozenset[str],
    fields: Fields | None,
) -> None:
    """Require that rows have the fields that components make keys and aggregates of.

    Parameters
    ----------
    plan : QueryPlan
    keys : mapping of str to tuple of str
        Fields that make the keys, of components that make them so.
    aggregates : mapping of str to Aggregate
        By component.
    replacing : frozenset of str
        Components that replace the payload, and so the row.
    fields : mapping, optional
        Fields of the dataset's rows; None where messages have none.

    Raises
    ------
    ValueError
        Naming the component and the field.
    """
    if fields is None:
        for name in (*keys, *aggregates):
            raise ValueError(
                f"topology.components.{name}: key and aggregate are of rows: give workload.dataset"
            )
        return
    there: dict[str, Fields] = {}
    order = levels(plan)
    for name in sorted(order, key=order.__getitem__):
        before = [there[s.source] for s in plan.inputs(name)] or [fields]
        own = {f: kind for f, kind in before[0].items() if all(f in others for others in before)}
        if name in aggregates:
            _require(f"topology.components.{name}.aggregate", aggregates[name].reads, own)
            own |= aggregates[name].adds
        if name in keys:
            _require(f"topology.components.{name}.key", _key_fields(keys[name]), own)
        there[name] = {} if name in replacing else own


def _key_fields(names: tuple[str, ...]) -> Mapping[str, Kind | None]:
    """Return the fields that make a key, any kind of which will do but for the places of a geohash."""
    needed: dict[str, Kind | None] = {}
    for name in names:
        needed |= {"lat": "number", "lon": "number"} if name.startswith(GEOHASH) else {name: None}
    return needed


def _require(where: str, needed: Mapping[str, Kind | None], own: Fields) -> None:
    for name, kind in needed.items():
        if name not in own:
            raise ValueError(
                f"{where}: there is no field {name!r}; there are {', '.join(own) or 'no fields'}"
            )
        if kind == "number" and own[name] != "number":
            raise ValueError(f"{where}: the field {name!r} is no number")
