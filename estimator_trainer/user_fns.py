"""Wraps the user's model_fn and input_fns in what Estimator does not do for them.

The wrapped functions run in the gin scope that was active when they were given (replica threads start without one),
with seeded generators, with an input shard in every topology, and leave the batch sizes in the graph to be counted.
"""

import contextlib
import inspect
from collections.abc import Callable, Collection
from typing import Any

import gin

from estimator_trainer import input_checks, partitioning, serving, sync_replicas
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.topology import Topology

# What an input_fn can ask for instead of an input_context: its fields.
_CONTEXT_FIELDS = ('num_input_pipelines', 'input_pipeline_id', 'num_replicas_in_sync')
# Graph collection with one int64 scalar a replica: the number of examples in its batch.
BATCH_SIZES = 'estimator_trainer/batch_sizes'


def bind_model_fn(
    model_fn: Callable, seed: int | None, finish: Callable | None = None, unwrap: Callable = lambda it: (it, True)
) -> Callable:
    """Returns model_fn with Estimator's full signature, whatever part of it `model_fn` takes.

    Args:
        model_fn: the user's function.
        seed: seeds Python, NumPy, Keras and TensorFlow before the call, where given.
        finish: given the EstimatorSpec, the mode and the number of examples (int64 scalar, None without a batch
            dimension and in PREDICT), returns the EstimatorSpec to use.
        unwrap: given what the input has as features, returns the features, and whether their batch counts.

    Raises:
        UserError: `model_fn` cannot be called as Estimator calls it.
    """
    accepted = parameters(model_fn)
    if 'features' not in accepted:
        raise UserError(f'experiment.model_fn: {name_of(model_fn)} takes no `features`, so it is no model_fn')
    scope = gin.current_scope()

    def bound_model_fn(features, labels, mode, params, config):
        if labels is not None and 'labels' not in accepted:
            raise UserError(f'{name_of(model_fn)} takes no labels, but the input_fn returns some')
        optional = {'labels': labels, 'mode': mode, 'params': params, 'config': config}
        size = None
        if mode != tf.estimator.ModeKeys.PREDICT:
            features, counts = unwrap(features)
            size = _batch_size(features, labels)
            if size is not None:
                size = size if counts is True else tf.where(counts, size, 0)
                tf.compat.v1.add_to_collection(BATCH_SIZES, size)
        sync_replicas.tell(config)
        with scope_and_seed(scope, seed), partitioning.divided_variables(config):
            try:
                spec = model_fn(features=features, **{name: optional[name] for name in optional if name in accepted})
            except (TypeError, ValueError) as error:
                spec = serving.refused_spec(error) if mode == tf.estimator.ModeKeys.PREDICT else None
                if spec is None or not serving.explain(error):
                    raise
        if hasattr(spec, 'as_estimator_spec'):  # a TPUEstimatorSpec
            spec = spec.as_estimator_spec()
        if finish is None:
            return spec
        if not isinstance(spec, tf.estimator.EstimatorSpec):
            raise UserError(f'{name_of(model_fn)} returned {spec!r}; expected a tf.estimator.EstimatorSpec')
        return finish(spec, mode, size)

    return bound_model_fn


def bind_input_fn(
    input_fn: Callable,
    seed: int | None,
    topology: Topology | None = None,
    skip: int = 0,
    wrap: Callable[[tf.data.Dataset], tf.data.Dataset] = lambda dataset: dataset,
) -> Callable:
    """Returns input_fn with Estimator's full signature, whatever part of it `input_fn` takes.

    Args:
        input_fn: the user's function; it may take the fields of the input_context as arguments instead.
        seed: seeds Python, NumPy, Keras and TensorFlow before the call, where given.
        topology: for training input; where no strategy hands out an input_context, the shard comes from here, so
            that the workers of a parameter-server cluster do not all read everything.
        skip: number of batches to leave out at the beginning.
        wrap: given the dataset, returns the one to use.
    """
    accepted = parameters(input_fn)
    scope = gin.current_scope()

    def bound_input_fn(mode, params, config, input_context=None):
        if input_context is None and topology is not None:
            pipelines, index = topology.input_shard
            input_context = tf.distribute.InputContext(pipelines, index)
        optional = {'mode': mode, 'params': params, 'config': config, 'input_context': input_context}
        context = input_context or tf.distribute.InputContext()
        optional |= {name: getattr(context, name) for name in _CONTEXT_FIELDS if name in accepted}
        with scope_and_seed(scope, seed), input_checks.collecting(mode):
            data = input_fn(**{name: optional[name] for name in optional if name in accepted})
        _check_data(data, name_of(input_fn))
        _initialise_iterators()
        if not isinstance(data, tf.data.Dataset | tf.compat.v1.data.Dataset):
            if skip:
                raise UserError(f'{name_of(input_fn)} returned tensors; trainer.resume_input needs a tf.data.Dataset')
            return data
        return wrap(data.skip(skip) if skip else data)

    return bound_input_fn


def _check_data(data: Any, name: str) -> None:
    if data is None or inspect.isgenerator(data) or isinstance(data, bool | int | float):
        raise UserError(f'{name} returned {data!r}; expected a tf.data.Dataset of (features, labels)')
    if isinstance(data, tf.data.Dataset | tf.compat.v1.data.Dataset):
        variant = tf.data.experimental.to_variant(data)
        if getattr(variant, 'graph', None) is not tf.compat.v1.get_default_graph():
            raise UserError(
                f'{name} returned a Dataset made before; an input_fn must create the Dataset when it is called'
            )
        data = data.element_spec
    if isinstance(data, list | tuple) and len(data) != 2:
        raise UserError(f'{name} returned {len(data)} parts; expected (features, labels), or features alone')


def _initialise_iterators() -> None:
    """Has the session initialise the iterators that the input_fn has made itself, as Estimator does with its own."""
    graph = tf.compat.v1.get_default_graph()
    initializers = graph.get_collection_ref(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
    initializers += [op for op in graph.get_operations() if op.type == 'MakeIterator' and op not in initializers]


def takes_input_context(input_fn: Callable) -> bool:
    """Returns whether an input_fn can be told which part of the input to read."""
    return not {'input_context', 'num_input_pipelines', 'input_pipeline_id'}.isdisjoint(parameters(input_fn))


@contextlib.contextmanager
def scope_and_seed(scope: list[str], seed: int | None):
    """Runs the block in a gin scope, with Python's, NumPy's, Keras's and TensorFlow's generators seeded."""
    if seed is not None:
        # tf_random_seed does not reach the initialisers of v1.layers, which draw from Keras's own generator.
        tf.keras.utils.set_random_seed(seed)
    # A list takes the place of the scope that is active now; a string would open one inside it.
    with gin.config_scope(scope):
        yield


def parameters(function: Callable) -> Collection[str]:
    """Returns the names of the arguments that a function can be called with."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        raise UserError(f'{name_of(function)} does not tell its parameters; expected a Python function') from None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return ('features', 'labels', 'mode', 'params', 'config', 'input_context')
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in named]


def name_of(function: Callable) -> str:
    """Returns a function's name for a message."""
    return getattr(function, '__name__', repr(function))


@tf.autograph.experimental.do_not_convert
def _batch_size(features: Any, labels: Any) -> Any:
    """Returns the number of examples (int64 scalar), or None where no feature or label has a batch dimension."""
    values = tf.nest.flatten([features, labels])
    for value in values:
        if isinstance(value, tf.SparseTensor | tf.compat.v1.SparseTensorValue):
            return value.dense_shape[0]
        if isinstance(value, tf.RaggedTensor):
            return tf.cast(value.nrows(), tf.int64)
        if tf.is_tensor(value) and value.shape.rank:  # neither a scalar nor of unknown rank
            return tf.shape(value, out_type=tf.int64)[0]
    for value in values:
        if tf.is_tensor(value) and value.shape.rank is None:
            # Its first dimension where it has one; the sum of nothing, 0, for a scalar.
            return tf.reduce_sum(tf.shape(value, out_type=tf.int64)[:1])
    return None
