"""An Estimator whose evaluation under a strategy counts every example once, and may weight the loss by examples.

Where batches are not enough for all replicas, Estimator's own drops them, or counts some of them: that depends on
timing. Here empty batches fill the last round up, so what is dropped, or counted by some replicas only, is empty.
"""

import contextlib
import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from estimator_trainer.compat import tf
from estimator_trainer.errors import tensorflow_message

v1 = tf.compat.v1
_EVAL = tf.estimator.ModeKeys.EVAL
LOSS = 'loss'
# Estimator refuses a metric called `loss` from a model_fn: one of this name takes the place of Estimator's.
LOSS_BY_EXAMPLES = 'loss/by_examples'


class Estimator(tf.estimator.Estimator):
    """See the module. A model_fn may give the `loss` to be reported as its metric `LOSS_BY_EXAMPLES`."""

    def _assert_members_are_not_overridden(self):
        """Estimator refuses subclasses that override its members, which is what this one is for."""

    def _call_input_fn(self, input_fn, mode, input_context=None):
        data = super()._call_input_fn(input_fn, mode, input_context)
        if mode == _EVAL and input_context is not None and input_context.num_replicas_in_sync > 1:
            return fill_up(data, input_context.num_replicas_in_sync - 1)
        return data

    def _evaluate_build_graph(self, *args, **kwargs):
        scaffold, update_op, eval_dict, hooks = super()._evaluate_build_graph(*args, **kwargs)
        if LOSS_BY_EXAMPLES in eval_dict:
            eval_dict[LOSS] = eval_dict.pop(LOSS_BY_EXAMPLES)
        return scaffold, update_op, eval_dict, hooks

    def effect_of_replicas(self, input_fn: Callable) -> str | None:
        """Builds the evaluation graph, of one replica and of all, and runs it once with an empty batch on each.

        Args:
            input_fn: the evaluation input, with Estimator's full signature; nothing of it is read.

        Returns:
            Why the metrics would not be those of one replica; None where they are.
        """

        def empty_input_fn(mode, params, config, input_context=None):
            return fill_up(input_fn(mode, params, config, input_context).take(0), None)

        try:
            one, _ = self._run_once(empty_input_fn, None)
            before, after = self._run_once(empty_input_fn, self._eval_distribution)
        except Exception as error:  # Whatever a model does with what it does not expect.
            return f'with a batch without examples: {tensorflow_message(error) or _last_line(error)}'
        for name in before:
            if not _equal(before[name], after[name]):
                return f'a batch without examples changes metric {name!r} from {before[name]} to {after[name]}'
            if not _equal(one[name], before[name]):
                return f'metric {name!r} does not sum up replicas: it is {before[name]}, that of one {one[name]}'
        return None

    def _run_once(self, input_fn: Callable, strategy: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the values of the metrics before and after one run of their updates.

        They begin as if there had been other batches before, the same with and without a strategy.
        """
        with tf.Graph().as_default(), strategy.scope() if strategy else contextlib.nullcontext():
            v1.set_random_seed(self.config.tf_random_seed)
            v1.train.get_or_create_global_step()
            call = self._call_model_fn_eval_distributed if strategy else self._call_model_fn_eval
            scaffold, _, input_hooks, update_op, metrics = call(input_fn, self.config)
            metrics.pop(LOSS)  # a mean over batches, empty ones too: it is not reported
            replicas = self._eval_distribution.num_replicas_in_sync
            moved = [
                moved
                for variable in v1.local_variables()
                if variable.dtype.is_floating or variable.dtype.is_integer
                for moved in _move(variable, replicas, strategy)
            ]
            creator = v1.train.ChiefSessionCreator(scaffold, config=self.config.session_config)
            with v1.train.MonitoredSession(creator, input_hooks) as session:
                session.run(moved)
                before = session.run(metrics)
                session.run(update_op)
                return before, session.run(metrics)


def _move(variable: Any, replicas: int, strategy: Any) -> list[Any]:
    """Adds to a variable numbers that no metric comes by easily, to its part on each replica a different one."""
    # The name is what two graphs have in common, not the order; but Keras goes on counting names in the second graph.
    index = zlib.crc32(re.sub(r'(_\d+)?:0$', '', variable.name).encode()) % 89
    numbers = [1.0 + 0.37 * index + replica * (3 + index % 5) for replica in range(replicas)]
    parts = strategy.experimental_local_results(variable) if strategy else [variable]
    if variable.dtype.is_integer:
        numbers = [int(number) for number in numbers]
    if not strategy or variable.aggregation != tf.VariableAggregation.SUM:
        numbers = [sum(numbers)] * len(parts)
    return [
        part.assign_add(tf.cast(tf.fill(tf.shape(part), number), part.dtype.base_dtype))
        for part, number in zip(parts, numbers, strict=True)
    ]


def _last_line(error: Exception) -> str:
    # AutoGraph tells the error at the end of a call stack.
    return f'{type(error).__name__}: {str(error).strip()}'.splitlines()[-1].strip()


def _equal(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == b.dtype.kind == 'f':
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)
    return np.array_equal(a, b)


def fill_up(data: tf.data.Dataset, batches: int | None) -> tf.data.Dataset:
    """Returns a dataset of batches with so many empty ones at its end, None for any number of them.

    Raises:
        ValueError: there is nothing that can be empty.
    """
    specs = tf.nest.flatten(data.element_spec)
    if not any(getattr(spec, 'shape', None) is not None and spec.shape.rank for spec in specs):
        raise ValueError('the batches have no batch dimension')
    empty = tf.data.Dataset.from_tensors(tf.nest.map_structure(_empty, data.element_spec))
    return data.concatenate(empty.repeat(batches))


def _empty(spec: Any) -> Any:
    """Returns a value without examples; what has no batch dimension is a zero."""
    if spec.value_type is type(None):
        return None
    kinds = tf.TensorSpec | tf.SparseTensorSpec | tf.RaggedTensorSpec
    if not isinstance(spec, kinds) or spec.shape.rank is None:
        raise ValueError(f'there is no empty {spec}')
    ragged_rank = getattr(spec, 'ragged_rank', 0)
    sizes = [0, *(size or 0 for size in spec.shape[ragged_rank + 1 :])] if spec.shape.rank else []
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensor(tf.zeros([0, len(sizes)], tf.int64), tf.zeros([0], spec.dtype), sizes)
    values = tf.zeros(sizes, spec.dtype)
    if not ragged_rank:
        return values
    return tf.RaggedTensor.from_nested_row_splits(values, [tf.zeros([1], spec.row_splits_dtype)] * ragged_rank)
