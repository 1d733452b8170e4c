"""Makes the tf.distribute strategy that a name stands for, and applies what topology decided. No TensorFlow at import.

The names are checked before TensorFlow is imported; the devices must be set up before anything runs an op.
"""

import contextlib
import json
import os
import re
from typing import Any

import gin

from estimator_trainer import tpu
from estimator_trainer.errors import UserError, nearest
from estimator_trainer.gin_config import Config
from estimator_trainer.topology import EVALUATOR, Topology

LOCAL_STRATEGIES = ('none', 'one_device', 'mirrored', 'central_storage', 'tpu')
CLUSTER_STRATEGIES = ('multi_worker_mirrored', 'parameter_server')
NAMES = ('auto', *LOCAL_STRATEGIES, *CLUSTER_STRATEGIES)


def choose(value: Any, topology: Topology, where: str) -> Any:
    """Returns the strategy's name with `auto` resolved; an object is returned as it is.

    Args:
        value: a name, None (which is `auto`), a tf.distribute.Strategy, or a gin reference to one.
        topology: the cluster for which the strategy is meant.
        where: the flag or binding that `value` comes from.

    Raises:
        UserError: no such name, or not one for this topology.
    """
    if value is None:
        value = 'auto'
    if not isinstance(value, str):
        return value
    if value not in NAMES:
        raise UserError(
            f'{where}: unknown strategy {value!r}; expected one of {", ".join(NAMES)}{nearest(value, NAMES)}'
        )
    if topology.is_distributed:
        return _for_cluster(value, topology, where)
    if value == 'multi_worker_mirrored' and not topology.is_local:
        return 'auto'  # a job that has been scaled down to its chief
    if value in CLUSTER_STRATEGIES:
        kind, jobs = ('', 'worker:1') if value == 'multi_worker_mirrored' else (' with a ps', 'worker:1,ps:1')
        raise UserError(
            f'{where}: {value!r} needs a cluster{kind}; set TF_CONFIG or try --local_cluster=chief:1,{jobs}'
        )
    return value


def _for_cluster(value: str, topology: Topology, where: str) -> str:
    expected = 'parameter_server' if topology.has_ps else 'multi_worker_mirrored'
    if topology.is_collective and len(topology.tasks) - topology.has_evaluator < len(topology.training_tasks):
        raise UserError(
            f'{topology.origin} does not tell the addresses of all workers, and {expected!r} needs them, as each step '
            'takes all tasks'
        )
    if value in ('auto', expected):
        return expected
    what = {'parameter_server': 'needs a ps', 'multi_worker_mirrored': 'works without a ps'}
    raise UserError(
        f'{where}: {value!r} {what.get(value, "is for one process")}, but {topology.origin} has {topology.counts}; '
        f'expected {expected!r}'
    )


def reason(topology: Topology) -> str:
    """Returns why `auto` chooses what it does."""
    from estimator_trainer.compat import tf

    if topology.is_distributed:
        return f'{topology.origin} has {topology.counts}'
    count = len(tf.config.list_physical_devices('GPU'))
    return f'one process, {count or "no"} GPU{"s" * (count > 1)}'


def set_up_devices(value: Any, config: Config, topology: Topology) -> None:
    """Prepares TensorFlow for the strategy that `choose` returned, before anything runs an op.

    Divides the CPU into as many logical CPUs as a mirrored strategy needs. The training tasks of multi_worker_mirrored
    leave eager mode: else the strategy's constructor waits for the peers, holds the interpreter lock meanwhile, and
    takes the signal handlers.

    Raises:
        UserError: something has run an op already.
    """
    from estimator_trainer.compat import tf

    if topology.is_collective and topology.task in topology.training_tasks:
        tf.compat.v1.disable_eager_execution()
    cpus = 1
    names = (value, config.literal('RunConfig.eval_distribute'))
    if 'mirrored' in names and not tf.config.list_physical_devices('GPU'):
        cpus = config.literal('mirrored.cpu_replicas', 2)
        if isinstance(cpus, bool) or not isinstance(cpus, int) or cpus < 1:
            raise UserError(f'mirrored.cpu_replicas: expected a number of at least 1, found {cpus!r}')
    elif not all(isinstance(one, str | None) for one in names):  # a reference to a strategy class
        indices = re.findall(r'cpu:(\d+)', str(config.literal('MirroredStrategy.devices')).lower())
        cpus = max([1, *(int(index) + 1 for index in indices)])
    if topology.task == EVALUATOR and names[1] in (None, 'none'):
        # Those of the same machine are for training, unless the evaluation was given a strategy.
        tf.config.set_visible_devices([], 'GPU')
    if cpus > 1:
        cpu = tf.config.list_physical_devices('CPU')[0]
        try:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * cpus)
        except RuntimeError as error:
            raise UserError(
                f'cannot divide the CPU for {value}: a module has run a TensorFlow op when it was imported ({error})'
            ) from None


def _name_of(strategy: Any) -> str:
    """Returns the name that a strategy object has here, or that of its class where it is for one process."""
    name = type(strategy).__name__
    if not strategy.extended.experimental_between_graph:
        return name
    return 'parameter_server' if name.startswith('ParameterServer') else 'multi_worker_mirrored'


def make(value: Any, topology: Topology, where: str) -> Any:
    """Returns the tf.distribute.Strategy for what `choose` returned, or None where Estimator needs none.

    The classic parameter-server training of Estimator places variables on the ps tasks by itself, without a strategy.

    Raises:
        UserError: `value` is neither a name nor a strategy that Estimator can use.
    """
    from estimator_trainer.compat import tf

    if isinstance(value, tf.distribute.experimental.ParameterServerStrategy):
        raise UserError(
            f'{where}: Estimator cannot use the TF 2 class tf.distribute.experimental.ParameterServerStrategy; '
            f"expected the name 'parameter_server'"
        )
    if not isinstance(value, str):
        if not isinstance(value, tf.distribute.Strategy | tf.compat.v1.distribute.Strategy):
            raise UserError(f'{where}: expected a strategy or one of {", ".join(NAMES)}; found {value!r}')
        if topology.is_distributed:
            _for_cluster(_name_of(value), topology, where)
        return value
    if value == 'auto':
        value = 'mirrored' if len(tf.config.list_physical_devices('GPU')) > 1 else 'none'
    if value == 'mirrored':
        return mirrored()
    if value == 'multi_worker_mirrored':
        return multi_worker_mirrored()
    if value == 'one_device':
        return tf.distribute.OneDeviceStrategy('/gpu:0' if tf.config.list_physical_devices('GPU') else '/cpu:0')
    if value == 'central_storage':
        return tf.distribute.experimental.CentralStorageStrategy()
    return tpu.tpu() if value == 'tpu' else None


@gin.configurable(module='estimator_trainer')
def mirrored(cpu_replicas: int = 2) -> Any:
    """Returns a MirroredStrategy over all GPUs or, where there is none, over `cpu_replicas` logical CPUs."""
    from estimator_trainer.compat import tf

    if tf.config.list_physical_devices('GPU'):
        return tf.distribute.MirroredStrategy()
    # Collective reduction between CPUs of one process can hang; adding up on one device cannot.
    return tf.distribute.MirroredStrategy(
        [f'/cpu:{index}' for index in range(cpu_replicas)], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


@gin.configurable(module='estimator_trainer')
def multi_worker_mirrored(communication: str = 'auto') -> Any:
    """Returns a MultiWorkerMirroredStrategy for the cluster in TF_CONFIG.

    Args:
        communication: how the tasks exchange gradients: 'ring' (over gRPC), 'nccl' (between GPUs), or 'auto'.

    Raises:
        UserError: no such communication.
    """
    from estimator_trainer.compat import tf

    communications = tf.distribute.experimental.CommunicationImplementation
    names = [each.name.lower() for each in communications]
    if communication not in names:
        raise UserError(
            f'multi_worker_mirrored.communication: expected one of {", ".join(names)}, found {communication!r}'
            f'{nearest(str(communication), names)}'
        )
    options = tf.distribute.experimental.CommunicationOptions(implementation=communications[communication.upper()])
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def export_tf_config(topology: Topology) -> None:
    """Sets TF_CONFIG to what Estimator and the strategies of this process get to see of the cluster."""
    config = topology.tf_config()
    _replace_tf_config(None if config is None else json.dumps(config))


def _replace_tf_config(text: str | None) -> str | None:
    """Sets TF_CONFIG, or takes it away, and returns what it was: the only place that writes the variable."""
    before = os.environ.pop('TF_CONFIG', None)
    if text is not None:
        os.environ['TF_CONFIG'] = text
    return before


@contextlib.contextmanager
def cluster_hidden():
    """Has what is made in the block know of no cluster."""
    before = _replace_tf_config(None)
    try:
        yield
    finally:
        _replace_tf_config(before)


def server_config(config: Any) -> Any:
    """Returns the ConfigProto of the gRPC server of a task with this RunConfig."""
    from estimator_trainer.compat import tf

    strategy = config.train_distribute
    if strategy is None:
        return config.session_config
    made = strategy.update_config_proto(config.session_config or tf.compat.v1.ConfigProto())
    del made.device_filters[:]  # the session has them
    return made


def cpu_count(strategy: Any) -> int:
    """Returns on how many CPU devices of this process a strategy (or None) places replicas."""
    devices = strategy.extended.worker_devices if strategy is not None else ()
    return sum('CPU:' in device.upper() for device in devices)
