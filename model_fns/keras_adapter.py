"""tf.keras models and layers as model_fns: the network is Keras's; head, optimization and metrics are those of all."""

import inspect
import warnings
from collections.abc import Callable, Collection, Sequence

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns import inputs, training
from model_fns.heads import head_of

_v1 = tf.compat.v1


@gin.configurable
def keras_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    network: Callable = gin.REQUIRED,
    as_matrix: bool = True,
) -> tf.estimator.EstimatorSpec:
    """Predicts by a Keras model or layer that makes logits of features.

    What the layers add to the loss (regularisers, activity, `add_loss`) is part of the training loss, and what they
    update (batch normalisation) is updated at each step.

    Args:
        features: Name to [batch, *shape].
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        network: A function that returns a tf.keras model or layer, uncompiled, anew at each call. If it has a parameter
            `size`, it is given the number of logits: 1 for two classes and for a number, else that of the classes.
        as_matrix: Whether the network takes the features of `feature_description` as `inputs.matrix` has them, float32
            [batch, n]; else it takes the dict of the input_fn as it is.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: The features are not as described, or the network is no Keras layer, or has other logits.
    """
    description = inputs.description_for('keras_model_fn', features=as_matrix)
    head = head_of(description)
    given = inputs.matrix(features, description) if as_matrix else features
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    # A functional model calls its layers once on symbolic inputs: moving averages are not to be updated by those.
    _set_learning_phase(False)
    made = _made(network, head.size)
    # For layers inside of one whose `call` hands on no `training`; those would do as in an evaluation.
    _set_learning_phase(is_training)
    graph = _v1.get_default_graph()
    older = set(graph.get_operations())
    logits = made(given, **({'training': is_training} if 'training' in _parameters(made.call) else {}))
    if not tf.is_tensor(logits) or not logits.shape.is_compatible_with([None, head.size]):
        found = f'shape {logits.shape}' if tf.is_tensor(logits) else type(logits).__name__
        raise UserError(f'keras_model_fn.network: returned logits of {found}; expected [batch, {head.size}]')

    def train(loss):
        # A functional model also has penalties of its symbolic inputs, which nothing feeds.
        for update in made.updates:
            if getattr(update, 'op', update) not in older:
                _v1.add_to_collection(_v1.GraphKeys.UPDATE_OPS, update)
        return training.minimize(tf.add_n([loss, *(added for added in made.losses if added.op not in older)]))

    return head.spec(mode, logits, labels, train)


def _set_learning_phase(training: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(
            'ignore'
        )  # It is deprecated in favour of `training`, which layers inside others may miss.
        tf.keras.backend.set_learning_phase(training)


def _made(network: Callable, size: int) -> tf.keras.layers.Layer:
    made = network(size=size) if 'size' in _parameters(network) else network()
    if not isinstance(made, tf.keras.layers.Layer):
        keras_3 = '; it is of Keras 3: build it with tf.keras' if type(made).__module__.startswith('keras.') else ''
        raise UserError(f'keras_model_fn.network: returned {made!r}; expected a tf.keras model or layer{keras_3}')
    return made


def _parameters(function: Callable) -> Collection[str]:
    return inspect.signature(function).parameters


@gin.configurable
def dense_network(
    size: int, units: Sequence[int] = (16,), dropout: float = 0.0, batch_normalization: bool = False, l2: float = 0.0
) -> tf.keras.Model:
    """Returns a Keras model of rectified linear layers, an example of a `network`.

    Args:
        size: number of logits.
        units: width of each hidden layer.
        dropout: share of the outputs of each hidden layer set to 0 in training.
        batch_normalization: whether what each hidden layer makes is normalised before it is rectified.
        l2: the sum of all squared weights, times this, is added to the loss.
    """
    keras, penalty = tf.keras.layers, tf.keras.regularizers.L2(l2) if l2 else None
    stack = []
    for width in units:
        stack.append(keras.Dense(width, kernel_regularizer=penalty))
        stack += [keras.BatchNormalization()] if batch_normalization else []
        stack.append(keras.ReLU())
        stack += [keras.Dropout(dropout)] if dropout else []
    return tf.keras.Sequential([*stack, keras.Dense(size, kernel_regularizer=penalty)])
