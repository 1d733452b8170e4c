"""The tasks of a SLURM job step, from the variables that `srun` sets. No TensorFlow.

SLURM gives every task the names of the nodes, in order, and how many tasks each of them runs. The tasks listen on port
8888 of their node, or as many ports above it as there are tasks before them on the node.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from estimator_trainer.errors import UserError

_FIRST_PORT = 8888


class Step(NamedTuple):
    """A job step: its tasks' addresses, which of them this process is, and what names this run of the step."""

    addresses: list[str]
    rank: int
    run_id: str


def tasks(environ: Mapping[str, str]) -> Step | None:
    """Returns the step of which this process is a task; None outside a step of several tasks.

    Raises:
        UserError: the variables contradict each other.
    """
    rank = _number(environ, 'SLURM_PROCID')
    count = _number(environ, 'SLURM_STEP_NUM_TASKS', 'SLURM_NTASKS')
    if rank is None or count is None or count < 2:
        return None
    nodes_name = 'SLURM_STEP_NODELIST' if environ.get('SLURM_STEP_NODELIST') else 'SLURM_JOB_NODELIST'
    nodes = expand(environ.get(nodes_name, ''), nodes_name)
    counts_name = 'SLURM_STEP_TASKS_PER_NODE' if environ.get('SLURM_STEP_TASKS_PER_NODE') else 'SLURM_TASKS_PER_NODE'
    counts = _counts(environ.get(counts_name, ''), counts_name)
    if not counts:  # one for each node, the rest on the first ones, as SLURM deals them out
        counts = [count // len(nodes) + (index < count % len(nodes)) for index in range(len(nodes))]
    addresses = [
        f'{node}:{_FIRST_PORT + index}' for node, here in zip(nodes, counts, strict=False) for index in range(here)
    ]
    if len(addresses) != count or len(nodes) != len(counts):
        raise UserError(
            f'SLURM: {count} tasks, but {nodes_name}={environ.get(nodes_name)!r} and {counts_name}='
            f'{environ.get(counts_name)!r} make {len(addresses)}'
        )
    if rank >= count:
        raise UserError(f'SLURM: SLURM_PROCID={rank} is outside 0 to {count - 1}')
    # A script may run several steps, and a requeued job counts its steps anew.
    names = ('SLURM_JOB_ID', 'SLURM_RESTART_COUNT', 'SLURM_STEP_ID')
    run_id = '.'.join(environ.get(name, '0') for name in names) if environ.get('SLURM_STEP_ID') else ''
    return Step(addresses, rank, run_id)


def expand(nodes: str, name: str = 'nodes') -> list[str]:
    """Returns the host names of a node list such as `gpu[01-03,7],login`.

    Raises:
        UserError: it is not of that form; names `name`.
    """
    found, parts = [], re.findall(r'(?:\[[^]]*\]|[^,\[\]])+', nodes)
    for part in parts if ','.join(parts) == nodes else ():
        names = ['']
        for text, ranges in re.findall(r'([^\[\]]+)|\[([^\]]*)\]', part):
            names = [first + last for first in names for last in ([text] if text else _numbers(ranges, nodes, name))]
        found += names
    if not found or not all(re.fullmatch(r'[\w.-]+', node) for node in found):
        raise UserError(f'{name}: expected nodes such as gpu[01-03,7],login; found {nodes!r}')
    return found


def _numbers(ranges: str, nodes: str, name: str) -> list[str]:
    numbers = []
    for part in ranges.split(','):
        match = re.fullmatch(r'(\d+)(?:-(\d+))?', part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise UserError(f'{name}: expected nodes such as gpu[01-03,7],login; found {nodes!r}')
        first, last = match[1], match[2] or match[1]
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers


def _counts(text: str, name: str) -> list[int]:
    """Returns the numbers of `2(x3),1`: 2, 2, 2, 1."""
    counts = []
    for part in filter(None, text.split(',')):
        match = re.fullmatch(r'(\d+)(?:\(x(\d+)\))?', part)
        if not match:
            raise UserError(f'{name}: expected numbers of tasks such as 2(x3),1; found {text!r}')
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _number(environ: Mapping[str, str], *names: str) -> int | None:
    name = next((name for name in names if environ.get(name)), None)
    if name is None:
        return None
    if not environ[name].isdigit():
        raise UserError(f'SLURM: {name}: expected a number, found {environ[name]!r}')
    return int(environ[name])
