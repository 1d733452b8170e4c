"""Functions and classes of `tf.contrib` whose arguments are not those of what does the same today."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import lookup_ops

from estimator_trainer.errors import UserError

_v1 = tf.compat.v1


def batch_and_drop_remainder(batch_size: Any) -> Callable:
    """Returns a dataset transformation: batches, the last one only if it is full."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: Any, padded_shapes: Any, padding_values: Any = None) -> Callable:
    """Returns a dataset transformation: padded batches, the last one only if it is full."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def sloppy_interleave(map_func: Callable, cycle_length: int, block_length: int = 1) -> Callable:
    """Returns a dataset transformation: interleaves datasets in the order in which they are ready."""
    return _v1.data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = lookup_ops.FastHashSpec,
    dtype: tf.DType = tf.string,
    name: str | None = None,
) -> Any:
    """Returns a table from the elements of a tensor to their indexes."""
    return lookup_ops.index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, dtype, name)


def index_to_string_table_from_tensor(mapping: Any, default_value: str = 'UNK', name: str | None = None) -> Any:
    """Returns a table from indexes to the elements of a tensor of strings."""
    return lookup_ops.index_to_string_table_from_tensor(mapping, default_value, name)


class MirroredStrategy(_v1.distribute.MirroredStrategy):
    """The v1 strategy, told its devices or how many GPUs to use."""

    def __init__(
        self,
        devices: Any = None,
        num_gpus: int | None = None,
        num_gpus_per_worker: int | None = None,
        cross_device_ops: Any = None,
        auto_shard_dataset: bool = False,
        cross_tower_ops: Any = None,
    ):
        if auto_shard_dataset:
            raise UserError('tf.contrib.distribute.MirroredStrategy: auto_shard_dataset is gone: shard in the input_fn')
        count = num_gpus if num_gpus is not None else num_gpus_per_worker
        if count is not None:
            if devices is not None:
                raise ValueError('MirroredStrategy: give devices or a number of GPUs, not both')
            devices = [f'/device:GPU:{index}' for index in range(count)] or ['/device:CPU:0']
        super().__init__(devices, cross_device_ops=cross_device_ops or cross_tower_ops)


class OneDeviceStrategy(_v1.distribute.OneDeviceStrategy):
    """The v1 strategy."""


class ParameterServerStrategy(_v1.distribute.experimental.ParameterServerStrategy):
    """The v1 strategy, on CPUs unless told how many GPUs a worker has."""

    def __init__(self, num_gpus_per_worker: int = 0):
        super().__init__(_resolver(num_gpus_per_worker))


class CollectiveAllReduceStrategy(_v1.distribute.experimental.MultiWorkerMirroredStrategy):
    """The v1 strategy for several workers, on CPUs unless told how many GPUs a worker has."""

    def __init__(self, num_gpus_per_worker: int = 0, communication: Any = None):
        options = {'communication': communication} if communication else {}
        super().__init__(cluster_resolver=_resolver(num_gpus_per_worker), **options)


def _resolver(num_gpus: int) -> Any:
    """Returns what `TF_CONFIG` says of the cluster, with a number of GPUs instead of those that are there."""
    found = _v1.distribute.cluster_resolver.TFConfigClusterResolver()
    return _v1.distribute.cluster_resolver.SimpleClusterResolver(
        found.cluster_spec(),
        task_type=found.task_type,
        task_id=found.task_id,
        num_accelerators={'GPU': num_gpus},
        rpc_layer=found.rpc_layer,
    )
