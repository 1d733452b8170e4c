"""Makes the tf.distribute strategy that a name stands for, and applies what topology decided. No TensorFlow at import.

The names are checked before TensorFlow is imported; the devices must be set up before anything runs an op.
"""

import json
import os
import re
from typing import Any

import gin

from estimator_trainer.errors import UserError, nearest
from estimator_trainer.gin_config import Config
from estimator_trainer.topology import Topology

LOCAL_STRATEGIES = ('none', 'one_device', 'mirrored', 'central_storage')
CLUSTER_STRATEGIES = ('parameter_server',)
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
    if topology.is_distributed and not topology.has_ps:
        raise UserError(f'{topology.origin} needs at least one ps (parameter server); found {topology.counts}')
    if value == 'auto':
        return 'parameter_server' if topology.is_distributed else 'none'
    if not topology.is_distributed and value in CLUSTER_STRATEGIES:
        raise UserError(
            f'{where}: {value!r} needs a cluster with a ps; set TF_CONFIG or try --local_cluster=chief:1,worker:1,ps:1'
        )
    if topology.is_distributed and value in LOCAL_STRATEGIES:
        raise UserError(
            f'{where}: {value!r} is for one process, but {topology.origin} has {topology.counts}; expected '
            "'parameter_server'"
        )
    return value


def set_up_devices(name: Any, config: Config) -> None:
    """Divides the CPU into as many logical CPUs as mirrored strategies need. Must run before the first op does."""
    from estimator_trainer.compat import tf

    cpus = 1
    names = (name, config.literal('RunConfig.eval_distribute'))
    if 'mirrored' in names and not tf.config.list_physical_devices('GPU'):
        cpus = config.literal('mirrored.cpu_replicas', 2)
        if isinstance(cpus, bool) or not isinstance(cpus, int) or cpus < 1:
            raise UserError(f'mirrored.cpu_replicas: expected a number of at least 1, found {cpus!r}')
    elif not all(isinstance(one, str) for one in names):  # a reference to a strategy class
        indices = re.findall(r'cpu:(\d+)', str(config.literal('MirroredStrategy.devices')).lower())
        cpus = max([1, *(int(index) + 1 for index in indices)])
    if cpus > 1:
        cpu = tf.config.list_physical_devices('CPU')[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * cpus)


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
        if topology.is_distributed and not value.extended.experimental_between_graph:
            raise UserError(
                f'{where}: {type(value).__name__} is for one process, but {topology.origin} has {topology.counts}; '
                "expected 'parameter_server'"
            )
        return value
    if value == 'mirrored':
        return mirrored()
    if value == 'one_device':
        return tf.distribute.OneDeviceStrategy('/gpu:0' if tf.config.list_physical_devices('GPU') else '/cpu:0')
    if value == 'central_storage':
        return tf.distribute.experimental.CentralStorageStrategy()
    return None


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


def export_tf_config(topology: Topology) -> None:
    """Sets TF_CONFIG to what Estimator and the strategies of this process get to see of the cluster.

    The only place that writes the environment variable.
    """
    config = topology.tf_config()
    if config is None:
        os.environ.pop('TF_CONFIG', None)
    else:
        os.environ['TF_CONFIG'] = json.dumps(config)


def cpu_count(strategy: Any) -> int:
    """Returns on how many CPU devices of this process a strategy (or None) places replicas."""
    devices = strategy.extended.worker_devices if strategy is not None else ()
    return sum('CPU:' in device.upper() for device in devices)
