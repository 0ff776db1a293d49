"""Plans as a graph in Neo4j: written once, asked as run directories are (``harness.analysis.plan_answers``).

The only module that imports ``neo4j``. What the graph looks like is in ``docs/plan-graph.md``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from neo4j import Driver, GraphDatabase, ManagedTransaction, Record
from neo4j.exceptions import AuthError, DriverError, Neo4jError, ServiceUnavailable, SessionExpired

from harness.analysis.plan_answers import (
    Connection,
    Difference,
    End,
    Ends,
    Moved,
    StreamCrossings,
    WorkerExecutors,
)
from harness.backends.neo4j.plan_rows import (
    GRAPH_VERSION,
    LABELS,
    RanPlan,
    Rows,
    fingerprint,
    query_plan_id,
    ran_statements,
    run_id,
    step_statements,
)
from harness.backends.neo4j.prediction_rows import evaluation_id, evaluation_statements
from harness.errors import ClusterError, UsageError
from harness.plans import Executor, PhysicalPlan, QueryPlan, WorkerNode
from harness.runs import Run

BATCH = 2_000
"""Rows a statement; a plan of the largest test topology has one batch of connections."""
PATIENCE_S = 30.0
USER = "neo4j"
WELL_KNOWN_PASSWORD = "neo4j"


@contextmanager
def _one_line(uri: str, doing: str) -> Iterator[None]:
    """Turn the library's exceptions into one line."""
    try:
        yield
    except AuthError as error:
        raise UsageError(f"neo4j at {uri} refuses the user or the password", _said(error)) from None
    except (Neo4jError, DriverError, OSError, ValueError) as error:
        raise ClusterError(f"neo4j at {uri}: cannot {doing}: {_said(error)}") from None


def _said(error: Exception) -> str:
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return " ".join(str(message).split())


def set_first_password(uri: str, password: str) -> None:
    """Give a server that still has the well-known password its own one.

    Raises
    ------
    UsageError
        When it has another password already.
    ClusterError
        When it cannot be reached.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        # it may have been given already, by a process that ended before it could say so
        with suppress(AuthError, ServiceUnavailable), _driver(uri, USER, password) as driver:
            driver.verify_connectivity()
            return
        try:
            with _driver(uri, USER, WELL_KNOWN_PASSWORD) as driver, driver.session(database="system") as s:
                s.run(
                    "ALTER CURRENT USER SET PASSWORD FROM $old TO $new",
                    old=WELL_KNOWN_PASSWORD,
                    new=password,
                ).consume()
            return
        except (ServiceUnavailable, SessionExpired) as error:  # its port is open before it is ready
            if time.monotonic() > deadline:
                raise ClusterError(f"neo4j at {uri}: cannot set a password: {_said(error)}") from None
            time.sleep(0.2)
        except AuthError as error:
            raise UsageError(f"neo4j at {uri} refuses the user or the password", _said(error)) from None


def _write_all(tx: ManagedTransaction, statements: Sequence[tuple[str, Rows]]) -> bool:
    """Write all rows; return whether anything was new."""
    changed = False
    for text, rows in statements:
        for at in range(0, len(rows), BATCH):
            summary = tx.run(text, rows=rows[at : at + BATCH]).consume()
            changed = changed or summary.counters.contains_updates
    return changed


def _driver(uri: str, user: str, password: str) -> Driver:
    return GraphDatabase.driver(
        uri,
        auth=(user, password),
        connection_timeout=5,
        max_transaction_retry_time=PATIENCE_S,
        notifications_min_severity="OFF",
        telemetry_disabled=True,
    )


class PlanGraph:
    """The graph of plans in one database.

    Parameters
    ----------
    uri : str
        ``bolt://host:port`` or ``neo4j://host:port``.
    password : str
        Of ``user``.

    Raises
    ------
    UsageError
        When user or password are refused, or the graph has another version.
    ClusterError
        By every method, when the server cannot be reached.
    """

    def __init__(self, uri: str, password: str, user: str = USER) -> None:
        self.uri = uri
        with _one_line(uri, "connect"):
            self._driver = _driver(uri, user, password)
        try:
            with _one_line(uri, "connect"):
                self._driver.verify_connectivity()
            self._require_version()
        except BaseException:
            self.close()
            raise

    def _require_version(self) -> None:
        found = self._read("MATCH (g:PlanGraph {name: 'harness'}) RETURN g.version AS version")
        if found and found[0]["version"] != GRAPH_VERSION:
            raise UsageError(
                f"neo4j at {self.uri}: its plans are of schema version {found[0]['version']},"
                f" this harness reads and writes {GRAPH_VERSION}",
                "use the harness that wrote them, or another database",
            )
        if found:
            return
        with _one_line(self.uri, "make the constraints"), self._driver.session() as session:
            session.run(
                "CREATE CONSTRAINT plan_graph IF NOT EXISTS FOR (n:PlanGraph) REQUIRE n.name IS UNIQUE"
            ).consume()
            for label in LABELS:
                session.run(
                    f"CREATE CONSTRAINT {label.lower()}_id IF NOT EXISTS"
                    f" FOR (n:{label}) REQUIRE n.id IS UNIQUE"
                ).consume()
            session.run(
                "MERGE (g:PlanGraph {name: 'harness'}) ON CREATE SET g.version = $version",
                version=GRAPH_VERSION,
            ).consume()

    def add(self, run: Run) -> int:
        """Write the plans of every finished step, each in a transaction, and then the run's evaluation.

        Returns
        -------
        int
            Number of steps that were new.

        Raises
        ------
        UsageError
            When another run of that name is there.
        """
        new = sum(self.add_step(run, step) for step in run.finished_steps)
        self.add_evaluation(run)
        return new

    def add_evaluation(self, run: Run) -> bool:
        """Write a run's judged predictions, in one transaction, in the place of those of before.

        The run's steps are there. Return whether anything was new; a run that was not evaluated has nothing.

        Raises
        ------
        UsageError
            When the evaluation cannot be read.
        """
        evaluation = evaluation_id(run)
        known = self._read("MATCH (r:Run {id: $run}) RETURN r.evaluation AS found", run=run_id(run))
        if not evaluation or evaluation in [row["found"] for row in known]:
            return False
        statements = [*evaluation_statements(run)]
        with _one_line(self.uri, "write the predictions"), self._driver.session() as session:
            return bool(session.execute_write(_write_all, statements))

    def add_step(self, run: Run, step: int) -> bool:
        """Write the plans of one step in one transaction; return whether anything was new.

        Raises
        ------
        UsageError
            When another run of that name is there.
        """
        statements = [*step_statements(run, step)]
        known = self._read("MATCH (r:Run {id: $run}) RETURN r.fingerprint AS found", run=run_id(run))
        if known and known[0]["found"] != fingerprint(run):
            raise UsageError(
                f"neo4j at {self.uri} has another run that is called {run_id(run)}",
                "made on another machine in the same second",
            )
        with _one_line(self.uri, f"write the plans of step {step}"), self._driver.session() as session:
            return bool(session.execute_write(_write_all, statements))

    def add_ran(self, ran: RanPlan, topology: str, nimbus: str) -> bool:
        """Write a plan of a topology on a cluster, in one transaction; return whether anything was new."""
        statements = [*ran_statements(ran, topology, nimbus)]
        with _one_line(self.uri, "write a plan"), self._driver.session() as session:
            return bool(session.execute_write(_write_all, statements))

    def ran(self, topology: str, nimbus: str, query_plan: QueryPlan) -> tuple[RanPlan, ...]:
        """Return the plans that a topology ran with on a cluster, oldest first.

        Parameters
        ----------
        query_plan : QueryPlan
            Plans of another one, of a topology that had the name before, are left out.
        """
        rows = self._read(
            """
            MATCH (:Topology {id: $topology})-[r:RAN {nimbus: $nimbus}]->(p)
            MATCH (p)-[:PLACES]->()-[:REALISES]->(:QueryPlan {id: $query_plan})
            MATCH (p)-[:USES]->(w:Worker)-[:RUNS]->(e:Executor)
            WITH r, p, collect({component: e.component, first_task: e.first_task, last_task: e.last_task,
                                worker: {node: w.node, port: w.port}}) AS executors
            MATCH (p)-[:HAS]->(n:WorkerNode)
            RETURN r.at_epoch_ms AS at, r.seen AS seen, executors, collect(properties(n)) AS nodes
            ORDER BY at
            """,
            topology=topology,
            nimbus=nimbus,
            query_plan=query_plan_id(query_plan),
        )
        return tuple(RanPlan(row["at"], row["seen"], _plan(row, query_plan)) for row in rows)

    def plans(self, run: Run) -> GraphPlans:
        """Return the plans of a run that was added, as a source of answers about them."""
        return GraphPlans(self, run_id(run))

    def _read(self, text: str, **parameters: object) -> list[Record]:
        def read(tx: ManagedTransaction) -> list[Record]:
            return list(tx.run(text, parameters))

        with _one_line(self.uri, "ask"), self._driver.session() as session:
            return session.execute_read(read)

    def close(self) -> None:
        """Hang up."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GraphPlans:
    """Answers from the graph (``harness.analysis.plan_answers.PlanSource``)."""

    name = "neo4j"

    def __init__(self, graph: PlanGraph, run: str) -> None:
        self._graph = graph
        self._run = run

    def steps(self) -> tuple[int, ...]:
        """Return the steps that were added."""
        rows = self._ask("MATCH (:Run {id: $run})-[:STEP]->(s) RETURN s.step AS step ORDER BY step")
        return tuple(row["step"] for row in rows)

    def configuration(self, step: int) -> str:
        """Return the label of a step's configuration."""
        return str(self._ask("MATCH (s:Step {id: $step}) RETURN s.configuration AS found", step)[0]["found"])

    def workers(self, step: int) -> tuple[WorkerExecutors, ...]:
        """Return the executors on every worker, by node and port."""
        rows = self._ask(
            """
            MATCH (:Step {id: $step})-[:STARTED_WITH]->(:PhysicalPlan)-[:USES]->(w:Worker)-[:RUNS]->(e)
            WITH w, e ORDER BY e.component, e.first_task
            WITH w, collect(e.label) AS executors
            RETURN w.label AS worker, w.node AS node, executors ORDER BY w.node, w.port
            """,
            step,
        )
        return tuple(WorkerExecutors.model_validate(dict(row)) for row in rows)

    def streams(self, step: int) -> tuple[StreamCrossings, ...]:
        """Return which streams cross workers and nodes, by label."""
        rows = self._ask(
            _CONNECTIONS
            + """
            RETURN c.label AS stream, count(*) AS connections,
                   sum(CASE WHEN u <> v THEN 1 ELSE 0 END) AS between_workers,
                   sum(CASE WHEN u.node <> v.node THEN 1 ELSE 0 END) AS between_nodes
            ORDER BY stream
            """,
            step,
        )
        return tuple(StreamCrossings.model_validate(dict(row)) for row in rows)

    def ends(self, step: int) -> Ends:
        """Return where the paths of a step's query plan begin and end."""
        rows = self._ask(
            """
            MATCH (:Step {id: $step})-[:STARTED_WITH]->()-[:PLACES]->()-[:REALISES]->()-[:HAS]->(c:Component)
            RETURN c.name AS name, NOT EXISTS { ()-[:STREAM]->(c) } AS spout,
                   NOT EXISTS { (c)-[:STREAM]->() } AS sink
            """,
            step,
        )
        spouts = tuple(sorted(row["name"] for row in rows if row["spout"]))
        return Ends(spouts, tuple(sorted(row["name"] for row in rows if row["sink"])))

    def connections(self, step: int) -> Sequence[Connection]:
        """Return the logical connections of a step's plan."""
        rows = self._ask(
            _CONNECTIONS
            + """
            RETURN [a.component, a.first_task, a.last_task] AS source, c.stream AS stream,
                   [b.component, b.first_task, b.last_task] AS target, u.node <> v.node AS between_nodes
            """,
            step,
        )
        return [
            Connection(End(*row["source"]), row["stream"], End(*row["target"]), row["between_nodes"])
            for row in rows
        ]

    def difference(self, first: int, second: int) -> Difference:
        """Return how a step's plan differs from another's."""
        counts = self._ask(
            """
            UNWIND [$first, $second] AS id
            MATCH (s:Step {id: id})-[:STARTED_WITH]->()-[:USES]->()-[:RUNS]->(e:Executor)
            WITH e.component AS component, sum(CASE WHEN id = $first THEN 1 ELSE 0 END) AS before,
                 sum(CASE WHEN id = $second THEN 1 ELSE 0 END) AS after
            WHERE before <> after
            RETURN component, before, after
            """,
            first=self._id(first),
            second=self._id(second),
        )
        there = self._placed(first, second)
        back = self._placed(second, first)
        return Difference(
            first=first,
            second=second,
            executors={
                row["component"]: (row["before"], row["after"])
                for row in sorted(counts, key=lambda r: str(r["component"]))
            },
            moved=tuple(
                Moved(executor=row["executor"], first=row["here"], second=row["there"])
                for row in there
                if row["there"] is not None and row["there"] != row["here"]
            ),
            only_first=tuple(row["executor"] for row in there if row["there"] is None),
            only_second=tuple(row["executor"] for row in back if row["there"] is None),
        )

    def _placed(self, first: int, second: int) -> list[Record]:
        """Return where each executor of a plan is, and where another plan has the same one."""
        rows = self._ask(
            """
            MATCH (:Step {id: $first})-[:STARTED_WITH]->()-[:USES]->(u)-[:RUNS]->(e)
            OPTIONAL MATCH (:Step {id: $second})-[:STARTED_WITH]->()-[:USES]->(v)-[:RUNS]->(:Executor
                {component: e.component, first_task: e.first_task, last_task: e.last_task})
            RETURN e.label AS executor, e.component AS component, e.first_task AS task,
                   u.label AS here, v.label AS there
            """,
            first=self._id(first),
            second=self._id(second),
        )
        return sorted(rows, key=lambda r: (r["component"], r["task"]))

    def _id(self, step: int) -> str:
        return f"{self._run}/{step:02d}"

    def _ask(self, text: str, step: int | None = None, **parameters: object) -> list[Record]:
        more = {} if step is None else {"step": self._id(step)}
        return self._graph._read(text, run=self._run, **more, **parameters)


_CONNECTIONS = """
    MATCH (:Step {id: $step})-[:STARTED_WITH]->(p:PhysicalPlan)-[:USES]->(u:Worker)-[:RUNS]->(a:Executor)
    MATCH (a)-[c:SENDS]->(b:Executor)
    MATCH (b)<-[:RUNS]-(v:Worker)<-[:USES]-(p)
"""
"""In three parts, as within one no relationship is walked twice: both ends may be on one worker."""


def _plan(row: Record, query_plan: QueryPlan) -> PhysicalPlan:
    """Return a physical plan from its nodes in the graph."""
    nodes = [WorkerNode.model_validate({k: v for k, v in n.items() if k != "id"}) for n in row["nodes"]]
    executors = [Executor.model_validate(e) for e in row["executors"]]
    return PhysicalPlan(
        query_plan=query_plan,
        nodes=tuple(sorted(nodes, key=lambda n: n.name)),
        executors=tuple(sorted(executors, key=lambda e: e.first_task)),
    )
