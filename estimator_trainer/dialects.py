"""The shapes in which launchers write TF_CONFIG. No TensorFlow.

The only place that reads the environment variable. So far the plain shape: `{"cluster": {"chief": [..], "worker": [..],
"ps": [..], "evaluator": [..]}, "task": {"type": .., "index": ..}}`, with `master` for `chief`.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from estimator_trainer.errors import UserError, nearest
from estimator_trainer.topology import JOBS, Task, Topology


def from_environment(environ: Mapping[str, str] = os.environ) -> Topology:
    """Returns the topology that TF_CONFIG describes; unset, empty or without a cluster it is one local process.

    Raises:
        UserError: TF_CONFIG is not JSON, or what it describes is no cluster.
    """
    text = _text(environ)
    if not text:
        return Topology()
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f'TF_CONFIG is not JSON: {error}; it starts with {text[:60]!r}') from None
    if not isinstance(config, dict):
        raise UserError(f'TF_CONFIG: expected a JSON object with "cluster" and "task", found {text[:60]!r}')
    cluster, task = _cluster(config.get('cluster') or {}), config.get('task')
    # Several launchers leave the evaluator out of the cluster: it has a peer that trains, whatever "cluster" holds.
    has_evaluator = 'evaluator' in cluster or (isinstance(task, dict) and task.get('type') == 'evaluator')
    if sum(map(len, cluster.values())) <= 1 and not has_evaluator:
        return Topology()  # One task has no peers: it runs as a local process.
    return Topology(cluster, _task(task, cluster), run_id=str(config.get('run_id') or ''))


def _text(environ: Mapping[str, str]) -> str:
    return environ.get('TF_CONFIG', '').strip()


def given(environ: Mapping[str, str] = os.environ) -> Any:
    """Returns the content of TF_CONFIG, which `from_environment` has checked, or None where there is none."""
    text = _text(environ)
    return json.loads(text) if text else None


def _cluster(cluster: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(cluster, dict):
        raise UserError(f'TF_CONFIG: "cluster": expected job names with lists of addresses, found {cluster!r}')
    result = {}
    for job, addresses in cluster.items():
        name = 'chief' if job == 'master' else job
        if name not in JOBS:
            raise UserError(
                f'TF_CONFIG: "cluster": unknown job {job!r}; expected {", ".join(JOBS)}{nearest(job, JOBS)}'
            )
        if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
            raise UserError(f'TF_CONFIG: "cluster": {job!r}: expected a list of "host:port", found {addresses!r}')
        for address in addresses:
            host, _, port = address.rpartition(':')
            if not host or not (_is_number(port) and 0 < int(port) < 65536):
                raise UserError(f'TF_CONFIG: "cluster": {job!r}: expected "host:port", found {address!r}')
        if addresses and name in result:
            raise UserError("TF_CONFIG: 'cluster': expected one of 'chief' and 'master', found both")
        if addresses:
            result[name] = tuple(addresses)
    return result


def _task(task: Any, cluster: Mapping[str, tuple[str, ...]]) -> Task:
    if not isinstance(task, dict) or 'type' not in task:
        raise UserError(f'TF_CONFIG: "task": expected {{"type": .., "index": ..}}, found {json.dumps(task)}')
    job = 'chief' if task['type'] == 'master' else task['type']
    if job not in (*cluster, 'evaluator'):
        raise UserError(f'TF_CONFIG: "task": "type": {job!r} is not in "cluster"; expected {", ".join(cluster)}')
    index = task.get('index', 0)
    if not _is_number(str(index)):
        raise UserError(f'TF_CONFIG: "task": "index": expected a number from 0, found {index!r}')
    size = len(cluster.get(job, ['evaluator']))
    if int(index) >= size:
        raise UserError(
            f'TF_CONFIG: "task": "index": {job} {index} does not exist; "cluster" has {job} 0 to {size - 1}'
        )
    return Task(job, int(index))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
