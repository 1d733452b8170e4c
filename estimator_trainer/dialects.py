"""The ways in which launchers describe a cluster to each of its tasks, all read into one `Topology`. No TensorFlow.

Asked in this order, the first that says something wins: cluster flags, TF_CONFIG, SLURM's variables. The only place
that reads the environment variable TF_CONFIG. Its common shape is `{"cluster": {"chief": [..], "worker": [..], "ps":
[..], "evaluator": [..]}, "task": {"type": .., "index": ..}}`; what launchers make of it, and what is done about it:

* `master` is an older name of `chief`. In a cluster with neither, worker 0 is the chief, and the workers after it
  move up by one (Spark, Kubeflow jobs without a chief, Keras-style templates).
* An evaluator may be in "cluster" or not (Kubeflow, TonY); it has a peer that trains in either case.
* A job may be a map from index to address instead of a list, perhaps without the other workers' (Kubeflow's dynamic
  workers); an index may be text (Vertex AI).
* "environment", "job" and other keys are for other readers. `task.trial` is a trial's number (Vertex AI).
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from estimator_trainer import slurm
from estimator_trainer.errors import UserError, nearest
from estimator_trainer.topology import JOBS, LOCAL_CLUSTER, Task, Topology


class Flags(NamedTuple):
    """The flags that describe a cluster, None where not given.

    Attributes:
        cluster: 'chief=host:port;worker=host:port,host:port;ps=host:port'.
        task_type, task_index: this task.
        ps_hosts, worker_hosts, job_name: the same as scripts from before TF_CONFIG have it; worker 0 is the chief.
    """

    cluster: str | None = None
    task_type: str | None = None
    task_index: int | None = None
    ps_hosts: str | None = None
    worker_hosts: str | None = None
    job_name: str | None = None


def read(flags: Flags = Flags(), environ: Mapping[str, str] = os.environ) -> Topology:  # noqa: B008
    """Returns the topology that this process was given; a local process where nothing describes a cluster.

    Raises:
        UserError: what describes the cluster is contradictory, or describes none that can train.
    """
    if any(value is not None for value in flags):
        return _from_flags(flags)
    if _text(environ):
        return _from_tf_config(environ)
    if found := slurm.tasks(environ):
        return _topology('SLURM', {'worker': tuple(found.addresses)}, Task('worker', found.rank), found.run_id)
    return Topology()


def _text(environ: Mapping[str, str]) -> str:
    return environ.get('TF_CONFIG', '').strip()


def given(environ: Mapping[str, str] = os.environ) -> Any:
    """Returns the content of TF_CONFIG, which `read` has checked, or None where there is none."""
    text = _text(environ)
    return json.loads(text) if text else None


def _from_flags(flags: Flags) -> Topology:
    legacy = {'--ps_hosts': flags.ps_hosts, '--worker_hosts': flags.worker_hosts, '--job_name': flags.job_name}
    if flags.cluster is not None:
        wrong = [name for name, value in legacy.items() if value is not None]
        if wrong:
            raise UserError(f'--cluster and {wrong[0]} both describe the cluster; expected one of them')
        cluster, job, source, job_flag = _cluster_flag(flags.cluster), flags.task_type, '--cluster', '--task_type'
    else:
        if flags.task_type is not None:
            raise UserError('--task_type is for --cluster=chief=host:port;..., which is not given')
        missing = [name for name, value in legacy.items() if not value]
        if missing:
            raise UserError(f'{missing[0]} is not given; expected {", ".join(legacy)} and --task_index')
        cluster = {
            job: _addresses(f'--{job}_hosts', [address.strip() for address in hosts.split(',') if address.strip()])
            for job, hosts in (('worker', flags.worker_hosts), ('ps', flags.ps_hosts))
        }
        job, source, job_flag = flags.job_name, '--worker_hosts', '--job_name'
    if job is None or flags.task_index is None:
        raise UserError(f'{source} needs {job_flag} and --task_index: which of its tasks is this process?')
    return _topology(source, cluster, _task(job, flags.task_index, cluster, job_flag, '--task_index'))


def _cluster_flag(text: str) -> dict[str, tuple[str, ...]]:
    cluster: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.split(';'))):
        job, equals, addresses = part.partition('=')
        if not equals:
            raise UserError(f'--cluster: expected job=host:port,... separated by semicolons, found {part!r}')
        if job.strip() in cluster:
            raise UserError(f'--cluster: {job.strip()} is given twice')
        cluster[job.strip()] = [address.strip() for address in addresses.split(',')]
    if not cluster:
        raise UserError('--cluster: names no task; expected chief=host:port;worker=host:port,host:port;ps=host:port')
    return _cluster(cluster, '--cluster')


def _from_tf_config(environ: Mapping[str, str]) -> Topology:
    text = _text(environ)
    try:
        config = json.loads(text, object_pairs_hook=_without_repetition)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f'TF_CONFIG is not JSON: {error}; it starts with {text[:60]!r}') from None
    if not isinstance(config, dict):
        raise UserError(f'TF_CONFIG: expected a JSON object with "cluster" and "task", found {text[:60]!r}')
    if config.get('sparseCluster'):
        raise UserError(
            'TF_CONFIG: "sparseCluster" tells no task of all its peers: set enableDynamicWorker: false in the TFJob, '
            'which makes it "cluster"'
        )
    cluster = _cluster(config.get('cluster') or {}, 'TF_CONFIG: "cluster"')
    task = config.get('task')
    trial = _trial(task)
    if config.get('cluster') and not cluster:
        raise UserError(f'TF_CONFIG: "cluster": names no address; found {json.dumps(config["cluster"])}')
    if not cluster and not (isinstance(task, dict) and task.get('type') == 'evaluator'):
        return Topology(trial=trial)
    if not isinstance(task, dict) or 'type' not in task:
        raise UserError(f'TF_CONFIG: "task": expected {{"type": .., "index": ..}}, found {json.dumps(task)}')
    where = 'TF_CONFIG: "task": '
    found = _task(task['type'], task.get('index'), cluster, f'{where}"type":', f'{where}"index":')
    source = LOCAL_CLUSTER if config.get('environment') == LOCAL_CLUSTER else 'TF_CONFIG'
    return _topology(source, cluster, found, str(config.get('run_id') or ''), trial)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UserError(f'TF_CONFIG: {json.dumps(repeated)} is given twice')
    return dict(pairs)


def _trial(task: Any) -> str:
    trial = task.get('trial') if isinstance(task, dict) else None
    if trial is None or trial == '':
        return ''
    if isinstance(trial, int) and not isinstance(trial, bool):
        trial = str(trial)
    if not isinstance(trial, str) or not re.fullmatch(r'\w[\w.-]*', trial):
        raise UserError(f'TF_CONFIG: "task": "trial": expected a number or a name of a directory, found {trial!r}')
    return trial


def _topology(
    source: str,
    cluster: Mapping[str, tuple[str, ...]],
    task: Task,
    run_id: str = '',
    trial: str = '',
) -> Topology:
    if sum(map(len, cluster.values())) <= 1 and task.job in ('chief', 'worker'):
        return Topology(run_id=run_id, trial=trial)  # One task has no peers: it runs as a local process.
    launched_as, task, cluster = task, *_with_chief(task, cluster)
    return Topology(cluster, task, run_id, trial, source, launched_as if launched_as != task else None)


def _with_chief(task: Task, cluster: Mapping[str, tuple[str, ...]]) -> tuple[Task, Mapping[str, tuple[str, ...]]]:
    """Makes worker 0 the chief of a cluster that has none, since Estimator needs one."""
    workers = cluster.get('worker', ())
    if cluster.get('chief') or not workers:
        return task, cluster
    others = {job: addresses for job, addresses in cluster.items() if job not in ('chief', 'worker')}
    if task.job == 'worker':
        task = Task('worker', task.index - 1) if task.index else Task('chief', 0)
    return task, {'chief': workers[:1], **({'worker': workers[1:]} if workers[1:] else {}), **others}


def _cluster(cluster: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(cluster, dict):
        raise UserError(f'{where}: expected job names with lists of addresses, found {cluster!r}')
    result = {}
    for job, addresses in cluster.items():
        name = 'chief' if job == 'master' else job
        if name not in JOBS:
            raise UserError(f'{where}: unknown job {job!r}; expected {", ".join(JOBS)}{nearest(job, JOBS)}')
        found = _addresses(f'{where}: {job!r}', addresses)
        if found and name in result:
            raise UserError(f"{where}: expected one of 'chief' and 'master', found both")
        if found:
            result[name] = found
    return result


def _addresses(where: str, addresses: Any) -> tuple[str, ...]:
    if isinstance(addresses, dict):
        addresses = _by_index(where, addresses)
    elif isinstance(addresses, list) and '' in addresses:
        raise UserError(f'{where}: expected "host:port", found an empty address')
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise UserError(f'{where}: expected a list of "host:port", found {addresses!r}')
    for address in filter(None, addresses):
        match = re.fullmatch(r'(?:[\w.-]+|\[[0-9A-Fa-f:.%\w]+\]):([0-9]{1,5})', address)
        if not match or not 0 < int(match[1]) < 65536:
            raise UserError(f'{where}: expected "host:port", found {address!r}')
    return tuple(addresses)


def _by_index(where: str, addresses: Mapping[str, Any]) -> list[Any]:
    """Returns the addresses of a map by index as a list, with '' for workers that it leaves out."""
    wrong = [index for index in addresses if not (_is_number(index) and int(index) < 10_000)]
    if wrong:
        raise UserError(f'{where}: expected a list of "host:port", or a map from index to it; found index {wrong[0]!r}')
    by_index = {int(index): address for index, address in addresses.items()}
    if len(by_index) <= max(by_index, default=-1) and 'worker' not in where:
        raise UserError(
            f'{where}: expected addresses of all tasks, found only those of {", ".join(map(str, by_index))}'
        )
    return [by_index.get(index, '') for index in range(max(by_index, default=-1) + 1)]


def _task(job: Any, index: Any, cluster: Mapping[str, tuple[str, ...]], job_where: str, index_where: str) -> Task:
    name = 'chief' if job == 'master' else job
    if name not in (*cluster, 'evaluator'):
        present = ', '.join(f'{job}[{len(addresses)}]' for job, addresses in cluster.items())
        hint = nearest(name, [*cluster, 'evaluator']) if isinstance(name, str) else ''
        raise UserError(f'{job_where} {job!r} is not in "cluster" (jobs present: {present}){hint}')
    if index is None:
        raise UserError(f'{index_where} missing; expected which {name} of the cluster this is, from 0')
    if isinstance(index, bool) or not _is_number(str(index)):
        raise UserError(f'{index_where} expected a number from 0, found {index!r}')
    addresses = cluster.get(name, ['evaluator'])
    if int(index) >= len(addresses) or not addresses[int(index)]:
        raise UserError(f'{index_where} {name} {index} does not exist; "cluster" has {name} 0 to {len(addresses) - 1}')
    return Task(name, int(index))


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit()
