"""Where a thing's own things are: ranges and places that the records' ``first_*`` fields stand for.

Components, classes, outputs, streams, tasks and executors are numbers: places in the arrays of ``Flat``. An
executor's *place* is its number within its component. Senders and receivers of a stream are such places, too.
"""

from __future__ import annotations

from harness.models.contract.layout import IntArray
from harness.models.solver.compiled import index
from harness.models.solver.records import Flat
from harness.models.solver.structure import COUNT_WINDOW


@index
def executors_of(net: Flat, component: int) -> range:
    """Return a component's executors."""
    return range(net.components[component].first_executor, net.components[component + 1].first_executor)


@index
def tasks_of(net: Flat, component: int) -> range:
    """Return a component's tasks."""
    return range(net.components[component].first_task, net.components[component + 1].first_task)


@index
def classes_of(net: Flat, component: int) -> range:
    """Return a component's classes."""
    return range(net.components[component].first_class, net.components[component + 1].first_class)


@index
def outputs_of(net: Flat, component: int) -> range:
    """Return a component's outputs."""
    return range(net.components[component].first_output, net.components[component + 1].first_output)


@index
def streams_of(net: Flat, component: int) -> range:
    """Return where in ``subscribers`` the streams are that leave a component."""
    first, last = net.components[component].first_output, net.components[component + 1].first_output
    return range(net.outputs[first].first_subscriber, net.outputs[last].first_subscriber)


@index
def subscribers_of(net: Flat, output: int) -> range:
    """Return where in ``subscribers`` an output's streams are."""
    return range(net.outputs[output].first_subscriber, net.outputs[output + 1].first_subscriber)


@index
def ackers_of(net: Flat) -> range:
    """Return the ackers, as executors."""
    return range(net.first_acker, net.executors.size)


@index
def executor_count(net: Flat, component: int) -> int:
    """Return the number of a component's executors."""
    return int(net.components[component + 1].first_executor - net.components[component].first_executor)


@index
def task_count(net: Flat, component: int) -> int:
    """Return the number of a component's tasks."""
    return int(net.components[component + 1].first_task - net.components[component].first_task)


@index
def senders_of(net: Flat, stream: int) -> range:
    """Return the senders of a stream."""
    return range(executor_count(net, net.streams[stream].source))


@index
def receivers_of(net: Flat, stream: int) -> range:
    """Return the receivers of a stream."""
    return range(executor_count(net, net.streams[stream].target))


@index
def sender_at(net: Flat, stream: int, sender: int) -> int:
    """Return the executor that is a sender of a stream."""
    return int(net.components[net.streams[stream].source].first_executor + sender)


@index
def receiver_at(net: Flat, stream: int, receiver: int) -> int:
    """Return the executor that is a receiver of a stream."""
    return int(net.components[net.streams[stream].target].first_executor + receiver)


@index
def port_at(net: Flat, stream: int, sender: int) -> int:
    """Return the port by which a sender sends on a stream."""
    return int(net.outputs[net.streams[stream].output].first_port + sender)


@index
def share_at(net: Flat, stream: int, sender: int, receiver: int) -> float:
    """Return the share of a sender's tuples on a stream that a receiver gets."""
    edge = net.streams[stream]
    return float(net.share[edge.first_share + sender * edge.share_step + receiver])


@index
def route_at(net: Flat, stream: int, sender: int, task: int) -> float:
    """Return the same of one of the target's tasks, by its number within the component."""
    edge = net.streams[stream]
    return float(net.route[edge.first_route + sender * edge.route_step + task])


@index
def cell_at(net: Flat, cls: int, place: int) -> int:
    """Return the cell of a class at one of its component's executors."""
    return int(net.classes[cls].first_cell + place)


@index
def fan_at(net: Flat, cls: int, output: int) -> int:
    """Return the fan of a class on an output of its component."""
    first = net.components[net.classes[cls].component].first_output
    return int(net.classes[cls].first_fan + output - first)


@index
def place_of(net: Flat, component: int, seat: int) -> int:
    """Return the place of the executor that a component's seat is at: its task's where it holds windows."""
    if net.components[component].kind >= COUNT_WINDOW:
        return int(net.tasks[net.components[component].first_task + seat].executor)
    return seat


@index
def hop_between(net: Flat, executor: int, other: int) -> int:
    """Return the kind of hop from one executor to another."""
    return int(net.kind_between[net.executors[executor].worker, net.executors[other].worker])


@index
def cells_of(net: Flat, cls: int) -> range:
    """Return the cells of a class."""
    return range(net.classes[cls].first_cell, net.classes[cls + 1].first_cell)


@index
def numbers_of(net: Flat, fan: int) -> range:
    """Return where in ``fan`` the probabilities of a fan's numbers are."""
    return range(net.first_fan[fan], net.first_fan[fan + 1])


@index
def atoms_of(net: Flat, kind: int) -> range:
    """Return the atoms of a kind of hop."""
    return range(net.first_hop[kind], net.first_hop[kind + 1])


@index
def seats_of(first_seat: IntArray, cls: int) -> range:
    """Return the seats of a class, which begin where ``first_seat`` says (``groups``)."""
    return range(first_seat[cls], first_seat[cls + 1])


@index
def seat_count(first_seat: IntArray, cls: int) -> int:
    """Return the number of a class's seats."""
    return int(first_seat[cls + 1] - first_seat[cls])


@index
def chance(net: Flat, stream: int, sender: int, seat: int) -> float:
    """Return the probability that a sender's tuple goes to one of the target's seats."""
    if net.components[net.streams[stream].target].kind >= COUNT_WINDOW:
        return route_at(net, stream, sender, seat)
    return share_at(net, stream, sender, seat)


@index
def kind_of(net: Flat, stream: int, sender: int, seat: int) -> int:
    """Return the kind of hop from a sender to one of the target's seats."""
    place = place_of(net, net.streams[stream].target, seat)
    return hop_between(net, sender_at(net, stream, sender), receiver_at(net, stream, place))
