"""The optimizer that is synchronous in a cluster and itself elsewhere; what it refuses."""

import types

import pytest

from estimator_trainer import sync_replicas
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError

v1 = tf.compat.v1
Adam = v1.train.AdamOptimizer


def build(tasks=None, strategy=None, with_step=True, times=1, **arguments):
    """Builds the training graph of a task in a cluster of `tasks` training tasks."""
    with tf.Graph().as_default() as graph:
        if tasks is not None:
            sync_replicas.tell(types.SimpleNamespace(num_worker_replicas=tasks, train_distribute=strategy))
        step = v1.train.get_or_create_global_step()
        loss = v1.get_variable('x', []) ** 2
        for _ in range(times):
            optimizer = sync_replicas.sync_replicas(**{'optimizer': Adam(0.1)} | arguments)
            op = optimizer.minimize(loss, step if with_step else None)
        variables = sorted(variable.op.name for variable in v1.global_variables())
        own = sorted(variable.op.name for variable in optimizer.variables())
        return sync_replicas.of(graph), op, variables, own


@pytest.mark.parametrize('tasks', [None, 1])
@pytest.mark.parametrize('optimizer', [Adam(0.1), Adam, lambda: Adam(0.1)], ids=['object', 'class', 'function'])
def test_alone_it_is_the_plain_optimizer(tasks, optimizer):
    synchronous, op, variables, own = build(tasks, optimizer=optimizer)
    assert synchronous is None
    assert variables == ['beta1_power', 'beta2_power', 'global_step', 'x', 'x/Adam', 'x/Adam_1']
    assert 'Accumulator' not in ''.join(node.op for node in op.graph.as_graph_def().node)
    assert own == ['beta1_power', 'beta2_power', 'x/Adam', 'x/Adam_1']


@pytest.mark.parametrize(
    ('aggregated', 'want', 'want_needs_all'), [(None, 3, True), (2, 2, False), (3, 3, True), (5, 5, True)]
)
def test_in_a_cluster_it_is_synchronous(aggregated, want, want_needs_all):
    synchronous, _, variables, _ = build(3, replicas_to_aggregate=aggregated)
    assert (synchronous.aggregated, synchronous.tasks, synchronous.needs_all) == (want, 3, want_needs_all)
    assert variables == ['beta1_power', 'beta2_power', 'global_step', 'x', 'x/Adam', 'x/Adam_1']


class NoStrategy(v1.distribute.experimental.ParameterServerStrategy):
    def __init__(self):
        pass


@pytest.mark.parametrize(
    ('arguments', 'want_text'),
    [
        ({'optimizer': 3}, 'sync_replicas.optimizer: expected an optimizer of tf.compat.v1.train, .*found 3'),
        ({'optimizer': tf.keras.optimizers.legacy.Adam}, 'expected an optimizer of tf.compat.v1.train'),
        ({'replicas_to_aggregate': 0}, 'replicas_to_aggregate: expected a number of at least 1, or None; found 0'),
        ({'replicas_to_aggregate': True}, 'replicas_to_aggregate: expected'),
        ({'with_step': False}, 'without global_step'),
        ({'times': 2}, 'found a second'),
        ({'strategy': NoStrategy()}, "is a ParameterServerStrategy; expected 'parameter_server'"),
    ],
)
def test_what_cannot_be(arguments, want_text):
    with pytest.raises(UserError, match=want_text):
        build(2, **arguments)


def test_an_update_that_fails_ends_training_with_its_error():
    """The chief's thread that applies the means fails: its error is what the end of the session raises."""
    error = tf.errors.InvalidArgumentError(None, None, 'NaN')
    hook = sync_replicas.SyncHook(None, True, lambda _: None)
    released = []

    def run(op):
        released.append(op)
        if op == 'apply':
            raise error

    hook._session, hook._apply, hook._close = types.SimpleNamespace(run=run), 'apply', 'close'
    hook._apply_means(hook._session)
    assert released == ['apply', 'close']
    with pytest.raises(tf.errors.InvalidArgumentError):
        hook.end(hook._session)
