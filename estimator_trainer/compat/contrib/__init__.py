"""The part of `tf.contrib` that Estimator programs used, as TensorFlow 1.15 had it.

`NAMES` says what each name is: most are elsewhere in TensorFlow, the others are defined in this package. Any other name
is a `StandIn`.
"""

from typing import Any

from estimator_trainer.errors import UserError

ROOT = 'tensorflow.contrib'
_HERE = 'estimator_trainer.compat.contrib'
_V1 = 'tensorflow.compat.v1'
_TPU = 'tensorflow_estimator.python.estimator.tpu'
_SUMMARY = 'tensorflow.python.ops.summary_ops_v2'

# Module of contrib: where its names are now, and the names.
_SAME_NAME = {
    'autograph': {
        f'{_V1}.autograph': 'to_code to_graph',
        f'{_V1}.autograph.experimental': 'do_not_convert',
    },
    'cluster_resolver': {
        f'{_V1}.distribute.cluster_resolver': (
            'ClusterResolver GCEClusterResolver KubernetesClusterResolver SimpleClusterResolver SlurmClusterResolver '
            'TFConfigClusterResolver TPUClusterResolver'
        ),
    },
    'data': {
        f'{_V1}.data.experimental': (
            'AUTOTUNE Counter CsvDataset Optional RandomDataset Reducer SqlDataset TFRecordWriter '
            'bucket_by_sequence_length choose_from_datasets copy_to_device dense_to_sparse_batch enumerate_dataset '
            'get_next_as_optional get_single_element group_by_reducer group_by_window ignore_errors '
            'make_batched_features_dataset make_csv_dataset make_saveable_from_iterator map_and_batch '
            'parallel_interleave parse_example_dataset prefetch_to_device rejection_resample sample_from_datasets scan '
            'shuffle_and_repeat unbatch unique'
        ),
        f'{_HERE}.functions': 'batch_and_drop_remainder padded_batch_and_drop_remainder sloppy_interleave',
    },
    'distribute': {
        f'{_V1}.distribute': (
            'InputContext ReduceOp ReplicaContext get_loss_reduction get_replica_context get_strategy has_strategy '
            'in_cross_replica_context'
        ),
        f'{_V1}.distribute.experimental': 'TPUStrategy',
        'tensorflow.python.distribute.cross_device_ops': 'AllReduceCrossDeviceOps CrossDeviceOps ReductionToOneDevice',
        'tensorflow.python.distribute.distribute_config': 'DistributeConfig',
        f'{_HERE}.functions': (
            'CollectiveAllReduceStrategy MirroredStrategy OneDeviceStrategy ParameterServerStrategy'
        ),
    },
    'estimator': {
        f'{_V1}.estimator': 'DNNEstimator DNNLinearCombinedEstimator LinearEstimator add_metrics',
        f'{_V1}.estimator.experimental': (
            'InMemoryEvaluatorHook make_early_stopping_hook make_stop_at_checkpoint_step_hook stop_if_higher_hook '
            'stop_if_lower_hook stop_if_no_decrease_hook stop_if_no_increase_hook'
        ),
    },
    'framework': {
        f'{_V1}.train': (
            'checkpoints_iterator create_global_step get_global_step get_or_create_global_step init_from_checkpoint '
            'list_variables load_checkpoint load_variable'
        ),
        _V1: 'TensorSpec argsort sort',
        'tensorflow.python.util': 'nest',
    },
    'layers': {
        f'{_HERE}.layers': 'batch_norm dropout embed_sequence flatten fully_connected layer_norm one_hot_encoding',
        f'{_HERE}.initializers': (
            'l1_l2_regularizer l1_regularizer l2_regularizer variance_scaling_initializer xavier_initializer'
        ),
    },
    'lookup': {
        'tensorflow.python.ops.lookup_ops': (
            'KeyValueTensorInitializer TextFileIdTableInitializer TextFileInitializer index_table_from_file '
            'index_to_string_table_from_file'
        ),
        f'{_HERE}.functions': 'index_table_from_tensor index_to_string_table_from_tensor',
    },
    'rnn': {
        f'{_V1}.nn.rnn_cell': (
            'BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper GRUCell LSTMCell LSTMStateTuple MultiRNNCell '
            'RNNCell ResidualWrapper'
        ),
        f'{_V1}.nn': 'static_bidirectional_rnn static_rnn static_state_saving_rnn',
    },
    'summary': {
        _SUMMARY: (
            'always_record_summaries create_file_writer create_summary_file_writer flush generic histogram image '
            'initialize never_record_summaries record_summaries_every_n_global_steps scalar should_record_summaries '
            'summary_writer_initializer_op'
        ),
    },
    'tpu': {
        f'{_V1}.estimator.tpu': 'InputPipelineConfig RunConfig TPUConfig TPUEstimator TPUEstimatorSpec',
        f'{_V1}.tpu': (
            'CrossShardOptimizer batch_parallel bfloat16_scope core cross_replica_sum initialize_system '
            'outside_compilation replicate rewrite shard shutdown_system'
        ),
        f'{_V1}.tpu.experimental': 'DeviceAssignment',
        'tensorflow.python.tpu.training_loop': 'repeat while_loop',
    },
    'tpu.python.tpu': {
        _TPU: 'tpu_config tpu_context tpu_estimator',
        'tensorflow.python.tpu': 'bfloat16 tpu tpu_function tpu_optimizer',
    },
    'training': {
        f'{_V1}.train': 'checkpoints_iterator',
        f'{_HERE}.hparam': 'HParams parse_values',
    },
    'training.python.training': {
        _HERE: 'hparam',
    },
}

_OTHER_NAME = {
    'distribute.DistributionStrategy': f'{_V1}.distribute.Strategy',
    'distribute.ReductionToOneDeviceCrossDeviceOps': (
        'tensorflow.python.distribute.cross_device_ops.ReductionToOneDevice'
    ),
    'layers.xavier_initializer_conv2d': f'{_HERE}.initializers.xavier_initializer',
    'lookup.HashTable': f'{_V1}.lookup.StaticHashTable',
    'lookup.MutableHashTable': f'{_V1}.lookup.experimental.MutableHashTable',
    'slim': 'tf_slim',  # the same code, if it is installed
    'summary.all_summary_ops': f'{_SUMMARY}.all_v2_summary_ops',
    'tensorboard.plugins.projector': 'tensorboard.plugins.projector',
}

NAMES = {
    f'{ROOT}.{module}.{name}': f'{target}.{name}'
    for module, targets in _SAME_NAME.items()
    for target, names in targets.items()
    for name in names.split()
} | {f'{ROOT}.{name}': target for name, target in _OTHER_NAME.items()}

# What there is instead; the longest name that fits counts.
_INSTEAD = {
    '': 'write what the program needs of it into the program',
    'crf': 'tensorflow_addons had it up to TensorFlow 2.15',
    'layers': 'tf.layers has layers and tf.feature_column feature columns; `pip install tf-slim` has all of it',
    'learn': 'tf.estimator has its Estimators',
    'metrics': 'tf.metrics has most of it, with labels before predictions',
    'opt': 'tf.train has optimizers',
    'predictor': 'estimator_trainer.predictor and tf.saved_model.load call exported models',
    'rnn': 'tf.nn.rnn_cell has cells',
    'seq2seq': 'tensorflow_addons had it up to TensorFlow 2.15',
    'slim': '`pip install tf-slim` brings it back',
}


class StandIn:
    """A name of contrib that is not here: can be imported and passed on, but not used."""

    def __init__(self, path: str):
        self._path = path

    def __getattr__(self, name: str) -> 'StandIn':
        if name.startswith('__'):  # Python asks for these to learn what it has before it
            raise AttributeError(f'{self!r} has no attribute {name!r}')
        return StandIn(f'{self._path}.{name}')

    def __repr__(self) -> str:
        return self._path.replace('tensorflow', 'tf', 1)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises the error that a use of the name is."""
        name = self._path[len(ROOT) + 1 :]
        while name not in _INSTEAD:
            name = name.rpartition('.')[0]
        raise UserError(f'{self!r} is gone: TensorFlow 1.15 was the last with it; {_INSTEAD[name]}')

    __mro_entries__ = __iter__ = __getitem__ = __call__

    def __instancecheck__(self, instance: Any) -> bool:
        return False
