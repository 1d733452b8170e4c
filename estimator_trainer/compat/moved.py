"""Names that were there once: where they are now, or which version was the last with them.

A line counts only where the name is missing, so the same lines serve all versions. What TensorFlow 1.15 had, and what
2.15 had, was compared with 2.15 to 2.21; here is what public Estimator programs use of the difference.
"""

from estimator_trainer.compat import views

_ESTIMATOR = 'tensorflow_estimator.python.estimator'
_OLD = 'estimator_trainer.compat.old_python'

_KERAS_OPTIMIZERS = {
    'Adadelta': 'adadelta',
    'Adagrad': 'adagrad',
    'Adam': 'adam',
    'Adamax': 'adamax',
    'Ftrl': 'ftrl',
    'Nadam': 'nadam',
    'RMSprop': 'rmsprop',
    'SGD': 'gradient_descent',
}
_KERAS_UTILS = {
    'data_utils': 'GeneratorEnqueuer OrderedEnqueuer Sequence SequenceEnqueuer get_file',
    'generic_utils': (
        'CustomObjectScope Progbar custom_object_scope deserialize_keras_object get_custom_objects '
        'register_keras_serializable serialize_keras_object'
    ),
    'layer_utils': 'get_source_inputs',
    'np_utils': 'normalize to_categorical',
    'vis_utils': 'model_to_dot plot_model',
}

# Reason: names below tensorflow.python, each with the name below tensorflow.python that it has now.
_PRIVATE = {
    'tracking became trackable, and what saves went to checkpoint': {
        'training.tracking': 'trackable',
        'training.tracking.base.CheckpointPosition': 'checkpoint.restore.CheckpointPosition',
        'training.tracking.graph_view': 'checkpoint.graph_view',
        'training.tracking.tracking.Asset': 'trackable.asset.Asset',
        'training.tracking.tracking.AutoTrackable': 'trackable.autotrackable.AutoTrackable',
        'training.tracking.tracking.CapturableResource': 'trackable.resource.CapturableResource',
        'training.tracking.tracking.ResourceTracker': 'trackable.resource.ResourceTracker',
        'training.tracking.tracking.TrackableResource': 'trackable.resource.TrackableResource',
        'training.tracking.tracking.resource_tracker_scope': 'trackable.resource.resource_tracker_scope',
        'training.tracking.util': 'checkpoint.checkpoint',
    },
    'distribute has one module for what a strategy is and which one is active': {
        'distribute.distribution_strategy_context': 'distribute.distribute_lib',
        'training.distribute': 'distribute.distribute_lib',
        'training.distribution_strategy_context': 'distribute.distribute_lib',
    },
    'distribute has one module for what works on distributed values': {
        'distribute.values.AggregatingVariable': 'distribute.ps_values.AggregatingVariable',
        'distribute.values.is_distributed_variable': 'distribute.distribute_utils.is_distributed_variable',
        'distribute.values.regroup': 'distribute.distribute_utils.regroup',
        'distribute.values.select_replica': 'distribute.distribute_utils.select_replica',
    },
    'ops are generated below ops': {
        'training.gen_training_ops': 'ops.gen_training_ops',
        'training.training_ops': 'ops.gen_training_ops',
    },
    'ops was taken apart: tensors, their conversion and the session stack are modules of their own': {
        'framework.ops.IndexedSlices': 'framework.indexed_slices.IndexedSlices',
        'framework.ops.IndexedSlicesValue': 'framework.indexed_slices.IndexedSlicesValue',
        'framework.ops.Tensor': 'framework.tensor.Tensor',
        'framework.ops.convert_n_to_tensor_or_indexed_slices': (
            'framework.indexed_slices.convert_n_to_tensor_or_indexed_slices'
        ),
        'framework.ops.convert_to_tensor_or_indexed_slices': (
            'framework.indexed_slices.convert_to_tensor_or_indexed_slices'
        ),
        'framework.ops.convert_to_tensor_v2': 'framework.tensor_conversion.convert_to_tensor_v2',
        'framework.ops.default_session': 'framework.stack.default_session',
        'framework.ops.disable_tensor_equality': 'framework.tensor.disable_tensor_equality',
        'framework.ops.enable_tensor_equality': 'framework.tensor.enable_tensor_equality',
        'framework.ops.internal_convert_to_tensor_or_indexed_slices': (
            'framework.indexed_slices.internal_convert_to_tensor_or_indexed_slices'
        ),
        'framework.ops.register_tensor_conversion_function': (
            'framework.tensor_conversion_registry.register_tensor_conversion_function'
        ),
        'framework.tensor_util.maybe_set_static_shape': 'ops.shape_util.maybe_set_static_shape',
        'framework.tensor_util.shape_tensor': 'ops.shape_util.shape_tensor',
    },
    'control flow has a module for each statement': {
        'ops.control_flow_ops.Assert': 'ops.control_flow_assert.Assert',
        'ops.control_flow_ops.case': 'ops.control_flow_case.case',
        'ops.control_flow_ops.case_v2': 'ops.control_flow_case.case_v2',
        'ops.control_flow_ops.cond': 'ops.cond.cond',
        'ops.control_flow_ops.cond_for_tf_v2': 'ops.cond.cond_for_tf_v2',
        'ops.control_flow_ops.switch_case': 'ops.control_flow_switch_case.switch_case',
        'ops.control_flow_ops.while_loop': 'ops.while_loop.while_loop',
        'ops.control_flow_ops.while_loop_v2': 'ops.while_loop.while_loop_v2',
    },
    'large op modules gave away what others wait for': {
        'ops.array_ops.stack': 'ops.array_ops_stack.stack',
        'ops.array_ops.unstack': 'ops.array_ops_stack.unstack',
        'ops.nn_impl.compute_average_loss': 'ops.nn_impl_distribute.compute_average_loss',
        'ops.nn_impl.scale_regularization_loss': 'ops.nn_impl_distribute.scale_regularization_loss',
        'ops.resource_variable_ops._from_proto_fn': 'ops.ref_variable._from_proto_fn',
        'ops.resource_variable_ops._to_proto_fn': 'ops.ref_variable._to_proto_fn',
        'ops.random_ops.random_crop': 'ops.random_crop_ops.random_crop',
        'ops.variable_scope.default_variable_creator': 'ops.ref_variable.default_variable_creator',
        'ops.variable_scope.disable_resource_variables': 'ops.resource_variables_toggle.disable_resource_variables',
        'ops.variable_scope.enable_resource_variables': 'ops.resource_variables_toggle.enable_resource_variables',
        'ops.variable_scope.resource_variables_enabled': 'ops.resource_variables_toggle.resource_variables_enabled',
        'ops.variable_scope.variable': 'ops.variable_v1.VariableV1',
        'ops.variables.RefVariable': 'ops.ref_variable.RefVariable',
        'ops.variables.VariableV1': 'ops.variable_v1.VariableV1',
        'ops.variables.is_variable_initialized': 'ops.variable_v1.is_variable_initialized',
    },
    'resource variables are switched on and off in a module that 2.15 has not yet': {
        'ops.resource_variables_toggle': 'ops.variable_scope',
    },
    'freezing a graph is one of the ways to make constants of its variables': {
        'framework.graph_util.convert_variables_to_constants': (
            'framework.convert_to_constants.convert_variables_to_constants'
        ),
    },
    'the copy of Keras in TensorFlow no longer gathers what its modules hold': {
        **{f'keras.layers.{name}': f'keras.layers.recurrent.{name}' for name in ('GRU', 'GRUCell', 'LSTM', 'LSTMCell')},
        **{
            f'keras.optimizers.{name}': f'keras.optimizer_v2.{module}.{name}'
            for name, module in _KERAS_OPTIMIZERS.items()
        },
        **{
            f'keras.utils.{name}': f'keras.utils.{module}.{name}'
            for module, names in _KERAS_UTILS.items()
            for name in names.split()
        },
    },
    'the tape of eager mode was split': {
        'eager.tape.could_possibly_record': 'eager.record.could_possibly_record',
        'eager.tape.record_operation': 'eager.record.record_operation',
        'eager.tape.stop_recording': 'eager.record.stop_recording',
    },
    'options of a dataset are in one module': {
        'data.experimental.ops.distribute_options': 'data.ops.options',
        'data.experimental.ops.optimization_options': 'data.ops.options',
        'data.experimental.ops.threading_options': 'data.ops.options',
        'data.ops.dataset_ops.Options': 'data.ops.options.Options',
    },
    'sequences are called nested': {
        'data.util.nest.is_sequence': 'data.util.nest.is_nested',
        'util.nest.is_sequence': 'util.nest.is_nested',
    },
    'paths of a SavedModel have their own module': {
        'saved_model.utils_impl.get_assets_dir': 'saved_model.path_helpers.get_assets_dir',
        'saved_model.utils_impl.get_or_create_assets_dir': 'saved_model.path_helpers.get_or_create_assets_dir',
        'saved_model.utils_impl.get_or_create_variables_dir': 'saved_model.path_helpers.get_or_create_variables_dir',
        'saved_model.utils_impl.get_variables_dir': 'saved_model.path_helpers.get_variables_dir',
        'saved_model.utils_impl.get_variables_path': 'saved_model.path_helpers.get_variables_path',
    },
    'outside compilation is part of replication': {
        'tpu.tpu.TPUReplicateContext': 'tpu.tpu_replication.TPUReplicateContext',
        'tpu.tpu.outside_compilation': 'tpu.tpu_replication.outside_compilation',
    },
    'the wrapper of everything in C++ was split': {
        'pywrap_tensorflow.NewCheckpointReader': 'training.py_checkpoint_reader.NewCheckpointReader',
    },
}

# What the copy of Keras in TensorFlow has lost.
_KERAS_ONLY = (
    'applications datasets layers.AlphaDropout layers.BatchNormalization layers.Bidirectional layers.GaussianDropout '
    'layers.GaussianNoise layers.LayerNormalization layers.LocallyConnected1D layers.LocallyConnected2D '
    'layers.TimeDistributed layers.Wrapper preprocessing'
)
_ABSTRACT = (
    'Callable Container Generator Hashable ItemsView Iterable Iterator KeysView Mapping MappingView MutableMapping '
    'MutableSequence MutableSet Sequence Set Sized ValuesView'
)

# Reason: names with the name they have now.
_MOVED = {
    'Estimator left TensorFlow': {
        'tensorflow.python.tpu.tpu_config': f'{_ESTIMATOR}.tpu.tpu_config',
        'tensorflow.python.tpu.tpu_estimator': f'{_ESTIMATOR}.tpu.tpu_estimator',
        'tensorflow.python.tpu.util': f'{_ESTIMATOR}.tpu.util',
        'tensorflow.python.util.tf_export.estimator_export': f'{_ESTIMATOR}.estimator_export.estimator_export',
    },
    'Keras left TensorFlow, with the layers built on it': {
        'tensorflow.python.feature_column.dense_features.DenseFeatures': (
            'tensorflow.compat.v1.keras.layers.DenseFeatures'
        ),
        'tensorflow.python.feature_column.dense_features_v2.DenseFeatures': 'tensorflow.keras.layers.DenseFeatures',
        **{f'tensorflow.python.keras.{name}': f'tensorflow.keras.{name}' for name in _KERAS_ONLY.split()},
        'tensorflow.python.layers.layers.BatchNormalization': 'tensorflow.compat.v1.layers.BatchNormalization',
        'tensorflow.python.layers.layers.batch_normalization': 'tensorflow.compat.v1.layers.batch_normalization',
        'tensorflow.python.layers.normalization.BatchNormalization': 'tensorflow.compat.v1.layers.BatchNormalization',
        'tensorflow.python.layers.normalization.batch_normalization': (
            'tensorflow.compat.v1.layers.batch_normalization'
        ),
    },
    'gone since Python 3.12': {
        'distutils.dir_util.copy_tree': f'{_OLD}.copy_tree',
        'distutils.dir_util.mkpath': f'{_OLD}.mkpath',
        'distutils.spawn.find_executable': 'shutil.which',
        'distutils.util.strtobool': f'{_OLD}.strtobool',
        'distutils.version.LooseVersion': f'{_OLD}.LooseVersion',
        'distutils.version.StrictVersion': f'{_OLD}.StrictVersion',
        'imp.load_source': f'{_OLD}.load_source',
        'imp.new_module': 'types.ModuleType',
        'imp.reload': 'importlib.reload',
    },
    'gone since Python 3.11': {
        'inspect.ArgSpec': f'{_OLD}.ArgSpec',
        'inspect.getargspec': f'{_OLD}.getargspec',
    },
    'gone since Python 3.10': {f'collections.{name}': f'collections.abc.{name}' for name in _ABSTRACT.split()},
    'second names for Python types, gone since numpy 1.24 and partly back in 2': {
        'numpy.bool': 'builtins.bool',
        'numpy.complex': 'builtins.complex',
        'numpy.float': 'builtins.float',
        'numpy.int': 'builtins.int',
        'numpy.object': 'builtins.object',
        'numpy.str': 'builtins.str',
    },
    'second names, gone since numpy 2': {
        'numpy.Inf': 'numpy.inf',
        'numpy.Infinity': 'numpy.inf',
        'numpy.NINF': f'{_OLD}.NINF',
        'numpy.NaN': 'numpy.nan',
        'numpy.PINF': 'numpy.inf',
        'numpy.alltrue': 'numpy.all',
        'numpy.complex_': 'numpy.complex128',
        'numpy.cumproduct': 'numpy.cumprod',
        'numpy.float_': 'numpy.float64',
        'numpy.in1d': f'{_OLD}.in1d',
        'numpy.infty': 'numpy.inf',
        'numpy.mat': 'numpy.asmatrix',
        'numpy.product': 'numpy.prod',
        'numpy.round_': 'numpy.round',
        'numpy.row_stack': 'numpy.vstack',
        'numpy.sometrue': 'numpy.any',
        'numpy.string_': 'numpy.bytes_',
        'numpy.trapz': 'numpy.trapezoid',
        'numpy.unicode_': 'numpy.str_',
    },
}

MOVED = {old: new for names in _MOVED.values() for old, new in names.items()} | {
    f'tensorflow.python.{old}': f'tensorflow.python.{new}' for names in _PRIVATE.values() for old, new in names.items()
}

_TPU_PARAMETERS = views.Gone('TensorFlow 2.15', 'only a TPU could use it')
GONE = {
    'tensorflow.contrib': views.Gone(
        'TensorFlow 1.15', 'run the program with `python -m estimator_trainer.compat --tf1`, which has parts of it'
    ),
    'tensorflow.data.experimental.CheckpointInputPipelineHook': views.Gone(
        'TensorFlow 2.15', 'without it a restart reads the input from its start again'
    ),
    'tensorflow.examples': views.Gone('TensorFlow 1.15', 'tf.keras.datasets has the data sets'),
    'tensorflow.python.tpu.async_checkpoint': views.Gone('TensorFlow 2.15', 'tf.estimator.CheckpointSaverHook saves'),
    'tensorflow_estimator.contrib': views.Gone('tensorflow-estimator 1.15', 'tf.estimator has heads'),
    'tensorflow.tpu.experimental.AdagradParameters': _TPU_PARAMETERS,
    'tensorflow.tpu.experimental.AdamParameters': _TPU_PARAMETERS,
    'tensorflow.tpu.experimental.FtrlParameters': _TPU_PARAMETERS,
    'tensorflow.tpu.experimental.StochasticGradientDescentParameters': _TPU_PARAMETERS,
}
# The same under the names of the v1 and the v2 API.
GONE |= {
    name.replace('tensorflow.', f'tensorflow.compat.{api}.', 1): gone
    for name, gone in GONE.items()
    for api in ('v1', 'v2')
    if '.experimental.' in name
}


def install() -> None:
    """Gives programs the names of this module: the level *program*."""
    views.Views(MOVED, GONE).install()
