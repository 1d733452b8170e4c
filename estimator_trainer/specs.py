"""What a model_fn has forgotten: it shows in the graph that it has built."""

import re

from estimator_trainer.compat import tf

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
