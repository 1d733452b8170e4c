"""What a model_fn has forgotten, or counts twice: it shows in the graph that it has built."""

import re

from estimator_trainer.compat import exact_evaluation, tf

# How TensorFlow names the ops of `tf.summary` where there is no default writer: they record nothing.
_SUMMARY_WITHOUT_WRITER = re.compile(r'(^|/)write_summary(_\d+)?/Const$')
_MOVING_AVERAGE = re.compile(r'(^|/)AssignMovingAvg')
_LISTED = 3  # of the names found, so many are told


def forgotten_updates(train_op: tf.Operation | tf.Tensor, graph: tf.Graph) -> list[tf.Operation]:
    """Returns the updates of moving averages that a training step leaves out: they are no dependencies of `train_op`.

    Layers of v1 put theirs into the UPDATE_OPS collection, Keras's put theirs nowhere.
    """
    updates = [getattr(update, 'op', update) for update in graph.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)]
    updates += [op for op in graph.get_operations() if 'Assign' in op.type and _MOVING_AVERAGE.search(op.name)]
    reached = _dependencies(getattr(train_op, 'op', train_op))
    return [op for op in dict.fromkeys(updates) if op not in reached]


def _dependencies(op: tf.Operation) -> set[tf.Operation]:
    reached, left = {op}, [op]
    while left:
        op = left.pop()
        new = {tensor.op for tensor in op.inputs}.union(op.control_inputs) - reached
        reached |= new
        left += new
    return reached


def with_updates(spec: tf.estimator.EstimatorSpec) -> tf.estimator.EstimatorSpec:
    """Returns a TRAIN spec whose train_op also runs the updates that it had left out."""
    updates = forgotten_updates(spec.train_op, tf.compat.v1.get_default_graph())
    return spec._replace(train_op=tf.group(spec.train_op, *updates)) if updates else spec


def with_losses(spec: tf.estimator.EstimatorSpec, size: tf.Tensor | None) -> tf.estimator.EstimatorSpec:
    """Returns an EVAL spec that also reports the loss as the mean over all examples.

    Estimator's own, the mean over batches, depends on how examples fall into batches; it is kept as `loss/batch_mean`.
    A model_fn may well have no loss, NaN, for a batch without examples, which counts in neither.

    Args:
        spec: what the model_fn returned.
        size: number of examples, int64 scalar; None where batches have no batch dimension: `loss` stays Estimator's.
    """
    if size is None:
        return spec
    mean, loss = tf.compat.v1.metrics.mean, tf.reshape(spec.loss, [])
    loss, size = tf.where(size > 0, loss, tf.zeros_like(loss)), tf.cast(size, tf.float32)
    losses = {
        exact_evaluation.LOSS_BY_EXAMPLES: mean(loss, size, name='loss_by_examples'),
        'loss/batch_mean': mean(loss, tf.sign(size), name='loss_batch_mean'),
    }
    return spec._replace(eval_metric_ops=losses | spec.eval_metric_ops)


def metric_names(spec: tf.estimator.EstimatorSpec) -> set[str]:
    """Returns the names of the metrics that the evaluation of an EVAL spec reports."""
    return {*(spec.eval_metric_ops or ()), 'loss'} - {exact_evaluation.LOSS_BY_EXAMPLES}


def collected_losses(spec: tf.estimator.EstimatorSpec) -> tuple[set[tf.Operation], set[tf.Operation]]:
    """Returns which entries of the collections LOSSES and REGULARIZATION_LOSSES are part of a spec's loss."""
    graph, reached = spec.loss.graph, _dependencies(spec.loss.op)
    keys = (tf.compat.v1.GraphKeys.LOSSES, tf.compat.v1.GraphKeys.REGULARIZATION_LOSSES)
    losses, regularization = ({loss.op for loss in graph.get_collection(key)} & reached for key in keys)
    return losses, regularization


def warnings(spec: tf.estimator.EstimatorSpec, graph: tf.Graph) -> list[str]:
    """Returns what is likely to be a mistake in a TRAIN spec, a line each."""
    found = []
    if updates := forgotten_updates(spec.train_op, graph):
        found.append(
            f'{len(updates)} update ops are no dependencies of train_op, so they never run ({_names(updates)}): use '
            'tf.control_dependencies, or bind experiment.attach_update_ops = True'
        )
    if summaries := [op for op in graph.get_operations() if _SUMMARY_WITHOUT_WRITER.search(op.name)]:
        found.append(
            f'tf.summary in the model_fn has no effect ({_names(summaries)}): Estimator '
            'writes those of tf.compat.v1.summary'
        )
    return found


def _names(ops: list[tf.Operation]) -> str:
    names = [re.sub(r'/write_summary(_\d+)?/Const$', '', op.name) for op in ops]
    return ', '.join([*names[:_LISTED], *['...'] * (len(names) > _LISTED)])
