"""What all tasks of a job must have in common, and how they find out that they have not. No TensorFlow.

Each task leaves its cluster and its bindings beside its record in the ledger, `<model_dir>/run/<job>-<index>.job.json`.
"""

import json
from collections.abc import Mapping
from typing import Any

from estimator_trainer.topology import Topology

# Where model_dir is mounted is a host's own affair: what matters is that it is the same directory, and there they meet.
_OWN = ('RunConfig.model_dir',)


def terms(topology: Topology, bindings: Mapping[str, str]) -> dict[str, Any]:
    """Returns what this task goes by: its bindings and its cluster, less the evaluator, of which some are not told."""
    cluster = {job: list(addresses) for job, addresses in topology.cluster.items() if job != 'evaluator'}
    return {'cluster': cluster, 'bindings': {name: value for name, value in bindings.items() if name not in _OWN}}


def difference(ours: Mapping[str, Any], text: str) -> str | None:
    """Returns the first difference between our terms and those that a peer has written, or None."""
    try:
        theirs = json.loads(text)
        jobs, bindings = theirs['cluster'], theirs['bindings']
    except (ValueError, KeyError, TypeError):  # half written
        return None
    for job in sorted({*ours['cluster'], *jobs}):
        here, there = ours['cluster'].get(job, []), jobs.get(job, [])
        if _contradict(here, there):
            return f'the cluster has {job} {", ".join(here) or "none"} here and {", ".join(there) or "none"} there'
    for name in sorted({*ours['bindings'], *bindings}):
        here, there = ours['bindings'].get(name), bindings.get(name)
        if here != there:
            return f'{name} is {_shown(here)} here and {_shown(there)} there'
    return None


def _contradict(here: list[str], there: list[str]) -> bool:
    if '' in here or '' in there:  # the launcher does not tell everybody of everybody
        return any(a != b for a, b in zip(here, there, strict=False) if a and b)
    return here != there


def _shown(value: str | None) -> str:
    return 'not bound' if value is None else ' '.join(value.split())[:80]
