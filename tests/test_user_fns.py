"""What the user's functions are called with, in which gin scope, with which seed, and which batch sizes are counted."""

import json
import random

import gin
import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.topology import Task, Topology
from estimator_trainer.user_fns import BATCH_SIZES, bind_input_fn, bind_model_fn, takes_input_context
from tests.compat import fresh

v1 = tf.compat.v1
TRAIN, PREDICT = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.PREDICT
CLUSTER = {'chief': ('a:1',), 'worker': ('b:1', 'b:2'), 'ps': ('c:1',)}


@gin.configurable(module='user_fns_test')
def scoped(value='unscoped'):
    return value


class CallableObject:
    def __call__(self, features, labels, mode):
        return features, labels, mode


@pytest.mark.parametrize(
    ('model_fn', 'want'),
    [
        (lambda features, labels: (features, labels), ('f', 'l')),
        (lambda features, labels, mode: (features, labels, mode), ('f', 'l', TRAIN)),
        (lambda labels, features, config: (features, labels, config), ('f', 'l', 'c')),
        (lambda features, labels, mode, params, config: (features, mode, params, config), ('f', TRAIN, 'p', 'c')),
        (lambda features, labels, params=None, other=7: (params, other), ('p', 7)),
        (CallableObject(), ('f', 'l', TRAIN)),
        (CallableObject().__call__, ('f', 'l', TRAIN)),
    ],
)
def test_model_fn_takes_what_it_names(model_fn, want):
    with tf.Graph().as_default():
        assert bind_model_fn(model_fn, None)('f', 'l', TRAIN, 'p', 'c') == want


def test_input_fn_must_create_its_dataset():
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(3)
    with tf.Graph().as_default(), pytest.raises(UserError, match='must create the Dataset when it is called'):
        bind_input_fn(lambda: dataset, None)(TRAIN, 'p', 'c')


@pytest.mark.parametrize('made', [lambda: tf.data.Dataset.from_tensors((1, 2, 3)), lambda: (1, 2, 3)])
def test_input_fn_returns_features_and_labels(made):
    with tf.Graph().as_default(), pytest.raises(UserError, match=r'returned 3 parts; expected \(features, labels\)'):
        bind_input_fn(made, None)(TRAIN, 'p', 'c')


def test_iterators_of_the_input_fn_are_initialised():
    def input_fn():
        return v1.data.make_initializable_iterator(tf.data.Dataset.range(3)).get_next()

    with tf.Graph().as_default(), v1.Session() as session:
        data = bind_input_fn(input_fn, None)(TRAIN, 'p', 'c')
        session.run(v1.tables_initializer())
        assert [session.run(data) for _ in range(3)] == [0, 1, 2]


def test_labels_are_not_dropped_silently():
    def unlabelled(features, mode):
        return features

    with tf.Graph().as_default():
        bound = bind_model_fn(unlabelled, None)
        assert bound('f', None, TRAIN, 'p', 'c') == 'f'
        with pytest.raises(UserError, match='unlabelled takes no labels, but the input_fn returns some'):
            bound('f', 'l', TRAIN, 'p', 'c')


@pytest.mark.parametrize(
    ('input_fn', 'want'),
    [
        (lambda: 'data', 'data'),
        (lambda mode: mode, TRAIN),
        (lambda params, config: (params, config), ('p', 'c')),
        (lambda input_context, mode, params, config: (mode, input_context), (TRAIN, 'i')),
        (lambda batch_size=3, params=None: (batch_size, params), (3, 'p')),
    ],
)
def test_input_fn_takes_what_it_names(input_fn, want):
    assert bind_input_fn(input_fn, None)(TRAIN, 'p', 'c', 'i') == want


@pytest.mark.parametrize(
    ('topology', 'want_shard'),
    [
        (Topology(), (1, 0)),
        (Topology(CLUSTER, Task('chief', 0)), (3, 0)),
        (Topology(CLUSTER, Task('worker', 1)), (3, 2)),
    ],
)
def test_input_context_comes_from_the_topology(topology, want_shard):
    context = bind_input_fn(lambda input_context: input_context, None, topology)(TRAIN, 'p', 'c')
    assert (context.num_input_pipelines, context.input_pipeline_id) == want_shard
    assert context.num_replicas_in_sync == 1


def test_the_fields_of_the_input_context_can_be_asked_for():
    def input_fn(num_input_pipelines, input_pipeline_id, num_replicas_in_sync):
        return {'shard': (num_input_pipelines, input_pipeline_id, num_replicas_in_sync)}

    topology = Topology(CLUSTER, Task('worker', 1))
    assert bind_input_fn(input_fn, None, topology)(TRAIN, 'p', 'c') == {'shard': (3, 2, 1)}
    assert bind_input_fn(input_fn, None)(TRAIN, 'p', 'c') == {'shard': (1, 0, 1)}  # evaluation
    assert takes_input_context(input_fn)


def test_the_strategys_input_context_wins():
    topology = Topology(CLUSTER, Task('worker', 1))
    assert bind_input_fn(lambda input_context: input_context, None, topology)(TRAIN, 'p', 'c', 'i') == 'i'


def test_evaluation_input_is_not_sharded():
    assert bind_input_fn(lambda input_context=None: {'c': input_context}, None)(TRAIN, 'p', 'c') == {'c': None}


def test_takes_input_context():
    @gin.configurable(module='user_fns_test')
    def sharded_input_fn(input_context=None):
        pass

    assert takes_input_context(sharded_input_fn)
    assert not takes_input_context(lambda mode: None)


@pytest.mark.parametrize('bind', [bind_model_fn, bind_input_fn])
def test_the_scope_is_that_of_binding(clean_gin, bind):
    gin.bind_parameter('a/scoped.value', 'in a')
    gin.bind_parameter('b/scoped.value', 'in b')

    def function(features=None):
        return scoped()

    with gin.config_scope('a'):
        in_a = bind(function, None)
    unscoped = bind(function, None)
    arguments = ('f', None, TRAIN, 'p', 'c') if bind is bind_model_fn else (TRAIN, 'p', 'c')
    with tf.Graph().as_default():
        for scope in ('b', None):
            with gin.config_scope(scope):
                assert in_a(*arguments) == 'in a'
                assert unscoped(*arguments) == 'unscoped'


@pytest.mark.filterwarnings('ignore::UserWarning', 'ignore::DeprecationWarning')  # TensorFlow's own.
@pytest.mark.parametrize('bind', [bind_model_fn, bind_input_fn])
def test_a_seed_gives_each_call_the_same_numbers(bind):
    def function(features=None):
        v1.layers.dense(tf.zeros([1, 2]), 3)
        drawn = tf.random.uniform([2])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            kernel = v1.trainable_variables()[0]
            values = [random.random(), *np.random.rand(2), *session.run(drawn), *session.run(kernel).flat]
        return {'values': values}

    def call(seed):
        arguments = ('f', None, TRAIN, 'p', 'c') if bind is bind_model_fn else (TRAIN, 'p', 'c')
        with tf.Graph().as_default():
            return bind(function, seed)(*arguments)['values']

    first, again, other, unseeded = call(7), call(7), call(8), call(None)
    assert first == again
    assert len(set(first)) == len(first)
    for numbers in (other, unseeded):
        assert not set(numbers) & set(first)


def _sparse(rows):
    return tf.sparse.from_dense(np.eye(rows, 4))


@pytest.mark.parametrize(
    ('make', 'want_size'),
    [
        (lambda: (tf.zeros([5, 2]), None), 5),
        (lambda: ({'b': tf.zeros([5]), 'a': tf.zeros([5, 1])}, tf.zeros([5])), 5),
        (lambda: (v1.placeholder_with_default(np.zeros([6, 2]), [None, 2]), None), 6),
        (lambda: (v1.placeholder_with_default(np.zeros([6, 2]), None), None), 6),
        (lambda: ({'a': _sparse(7)}, None), 7),
        (lambda: ({'a': tf.ragged.constant([[1], [], [2, 3]])}, None), 3),
        (lambda: ({'a': tf.constant(1.0), 'b': tf.zeros([4])}, None), 4),
        (lambda: ((tf.zeros([0, 2]), tf.zeros([0])), None), 0),
        (lambda: (tf.constant(1.0), tf.zeros([8])), 8),
        (lambda: (tf.constant(['a', 'b']), None), 2),
        (lambda: (tf.constant(1.0), tf.constant(2.0)), None),
        (lambda: ({}, None), None),
        (lambda: (None, None), None),
    ],
)
def test_batch_size(make, want_size):
    with tf.Graph().as_default():
        features, labels = make()
        bind_model_fn(lambda features, labels: None, None)(features, labels, TRAIN, 'p', 'c')
        sizes = v1.get_collection(BATCH_SIZES)
        if want_size is None:
            assert sizes == []
            return
        (size,) = sizes
        assert (size.dtype, size.shape) == (tf.int64, [])
        with v1.Session() as session:
            assert session.run(size) == want_size


def test_batches_to_predict_are_not_counted():
    with tf.Graph().as_default():
        bind_model_fn(lambda features: None, None)(tf.zeros([5]), None, PREDICT, 'p', 'c')
        assert v1.get_collection(BATCH_SIZES) == []


# In a process of its own, for TensorFlow's devices cannot be divided once they have been used.
REPLICAS = """
import json
import sys
import gin
from estimator_trainer import gin_config, strategies
from estimator_trainer.compat import tf
from estimator_trainer.hooks import EvaluationHook
from estimator_trainer.run_config import RunConfig
from estimator_trainer.topology import Topology
from estimator_trainer.user_fns import bind_input_fn, bind_model_fn

seen = []

@gin.configurable
def width(value='unscoped'):
    return value

def model_fn(features, labels):
    seen.append(('model', width()))
    w = tf.compat.v1.get_variable('w', [])
    loss = tf.reduce_mean(tf.square(w * features - labels))
    step = tf.compat.v1.train.get_global_step()
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)
    return tf.estimator.EstimatorSpec('train', loss=loss, train_op=train_op)

def input_fn(input_context):
    seen.append(('input', width()))
    rows = 8 // input_context.num_replicas_in_sync
    return tf.data.Dataset.from_tensors((tf.ones([rows]), tf.ones([rows]))).repeat()

strategies.set_up_devices('mirrored', gin_config.read([], [], []), Topology())
gin.bind_parameter('my/width.value', 'scoped')
with gin.config_scope('my'):
    model_fn, input_fn = bind_model_fn(model_fn, 1), bind_input_fn(input_fn, 1, Topology())
config = RunConfig(topology=Topology(), train_distribute='mirrored', model_dir=sys.argv[1])
hook = EvaluationHook(lambda: False)
tf.estimator.Estimator(model_fn, config=config).train(input_fn, hooks=[hook], max_steps=2)
print(json.dumps([seen, hook.batches, hook.examples]))
"""


def test_replica_threads_run_in_the_scope_and_their_batches_are_counted(tmp_path):
    process = fresh.start('-c', REPLICAS, str(tmp_path), CUDA_VISIBLE_DEVICES='')
    seen, steps, examples = json.loads(fresh.last_line(process))
    assert sorted(map(tuple, seen)) == [('input', 'scoped'), ('model', 'scoped'), ('model', 'scoped')]
    assert (steps, examples) == (2, 16)  # Each of the two replicas has 4.
