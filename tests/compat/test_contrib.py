"""What is defined in compat.contrib does what tf.contrib did."""

import json

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.compat.contrib import functions, initializers, layers
from estimator_trainer.compat.contrib.hparam import HParams, parse_values
from estimator_trainer.errors import UserError

pytestmark = [pytest.mark.xdist_group('compat_tf1'), pytest.mark.once('newest')]

v1 = tf.compat.v1


def test_hparams():
    hparams = HParams(rate=0.1, units=10, names=['a', 'b'], on=True, nothing=None)
    hparams.add_hparam('text', 'x')
    assert hparams.parse('rate=1e-2,units=3, names=[c,d,e],on=false,text=some_text') is hparams
    assert hparams.values() == {
        **{'rate': 0.01, 'units': 3, 'names': ['c', 'd', 'e'], 'on': False, 'nothing': None, 'text': 'some_text'}
    }
    assert (hparams.rate, 'rate' in hparams, hparams.get('no', 3), hparams.get('units', 5)) == (0.01, True, 3, 3)
    assert json.loads(hparams.to_json(sort_keys=True)) == hparams.values()
    hparams.override_from_dict({'rate': 2, 'nothing': 'x'}).parse_json('{"on": true}')
    hparams.del_hparam('names')
    assert str(hparams) == 'rate=2.0,units=3,on=True,nothing=x,text=some_text'
    assert repr(HParams(b=1, a='x')) == "HParams([('a', 'x'), ('b', 1)])"


@pytest.mark.parametrize(
    'change, want_error',
    [
        (lambda h: h.parse('units=1.5'), ValueError),
        (lambda h: h.parse('units=1,units=2'), ValueError),
        (lambda h: h.parse('other=1'), ValueError),
        (lambda h: h.parse('units'), ValueError),
        (lambda h: h.parse('on=maybe'), ValueError),
        (lambda h: h.set_hparam('units', 1.5), ValueError),
        (lambda h: h.set_hparam('units', True), ValueError),
        (lambda h: h.set_hparam('units', [1]), ValueError),
        (lambda h: h.set_hparam('names', 'a'), ValueError),
        (lambda h: h.set_hparam('text', 3), ValueError),
        (lambda h: h.set_hparam('on', 1), ValueError),
        (lambda h: h.set_hparam('other', 1), KeyError),
        (lambda h: h.override_from_dict({'other': 1}), KeyError),
        (lambda h: h.add_hparam('units', 1), ValueError),
        (lambda h: h.add_hparam('values', 1), ValueError),
        (lambda h: h.add_hparam('empty', []), ValueError),
        (lambda h: h.get('units', 'x'), ValueError),
        (lambda h: h.get('units', [1]), ValueError),
    ],
)
def test_hparams_keep_their_types(change, want_error):
    hparams = HParams(units=10, names=['a'], on=True, text='x')
    with pytest.raises(want_error):
        change(hparams)
    assert hparams.values() == {'units': 10, 'names': ['a'], 'on': True, 'text': 'x'}


@pytest.mark.parametrize(
    'text, want',
    [
        ('', {}),
        ('a=1,b[2]=3,b[0]=4', {'a': 1, 'b': {2: 3, 0: 4}}),
        ('a=[]', {'a': []}),
        ('unknown=x,a=-1', {'a': -1}),
    ],
)
def test_parse_values(text, want):
    assert parse_values(text, {'a': int, 'b': int}, ignore_unknown=True) == want


@pytest.mark.parametrize('text', ['a[0]=[1]', 'a=1,a[0]=2', 'a[0]=1,a[0]=2', 'a=1,a=[2]', '=1'])
def test_parse_values_refuses(text):
    with pytest.raises(ValueError, match=r'Malformed|Multiple|Assignment of a list'):
        parse_values(text, {'a': int})


X = np.random.RandomState(0).rand(6, 5, 4).astype('float32')

_COLLECTIONS = {'model_variables', 'out', 'regularization_losses', 'some', 'trainable_variables', 'update_ops'}


def _build(build, x=X[:, 0], steps=0):
    """Returns the value of what `build(x)` makes, the variables by name, and the graph's collections."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(1)
        outputs = build(tf.constant(x))
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for _ in range(steps):
            session.run(v1.get_collection('update_ops'))
        values = session.run({v.op.name: v for v in v1.global_variables()})
        collections = {
            name: [one.op.name for one in graph.get_collection(name)] for name in _COLLECTIONS & {*graph.collections}
        }
        return session.run(outputs), values, collections


def test_layer_norm():
    value, variables, collections = _build(lambda x: layers.layer_norm(x, begin_norm_axis=-1), X)
    want = (X - X.mean(-1, keepdims=True)) / X.std(-1, keepdims=True)
    np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-5)
    assert {name: value.shape for name, value in variables.items()} == {
        'LayerNorm/beta': (4,),
        'LayerNorm/gamma': (4,),
    }
    assert collections['model_variables'] == collections['trainable_variables'] == list(variables)
    over_all = _build(lambda x: layers.layer_norm(x, center=False, scale=False, activation_fn=tf.nn.relu), X)[0]
    np.testing.assert_allclose(over_all.mean((1, 2)), over_all.mean((1, 2)).mean(), atol=0.1)


def test_fully_connected():
    value, variables, collections = _build(
        lambda x: layers.fully_connected(
            x,
            3,
            weights_regularizer=initializers.l2_regularizer(0.5),
            variables_collections={'weights': ['some']},
            outputs_collections='out',
            scope='one',
        ),
        X,
    )
    assert list(variables) == ['one/weights', 'one/biases']
    np.testing.assert_allclose(value, np.maximum(X @ variables['one/weights'], 0), rtol=1e-5)
    assert np.abs(variables['one/weights']).max() <= np.sqrt(6 / 7)
    assert collections['some'] == ['one/weights'] and len(collections['out']) == 1
    assert len(collections['regularization_losses']) == 1
    options = {'normalizer_fn': layers.batch_norm, 'normalizer_params': {'scale': True}}
    names = list(_build(lambda x: layers.fully_connected(x, 3, **options))[1])
    start = 'fully_connected/BatchNorm'
    assert names == [
        *('fully_connected/weights', f'{start}/beta', f'{start}/gamma', f'{start}/moving_mean'),
        f'{start}/moving_variance',
    ]


@pytest.mark.parametrize('fused, want_divisor', [(None, 5), (False, 6)])
@pytest.mark.parametrize('is_training', [True, lambda: tf.constant(1) > 0])
def test_batch_norm_trains(fused, want_divisor, is_training):
    def build(x):
        training = is_training() if callable(is_training) else is_training
        return layers.batch_norm(x, decay=0.9, fused=fused, is_training=training)

    value, variables, collections = _build(build, steps=1)
    x = X[:, 0]
    np.testing.assert_allclose(value, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(variables['BatchNorm/moving_mean'], 0.1 * x.mean(0), rtol=1e-4)
    # The fused kernel estimates the variance of the population.
    np.testing.assert_allclose(
        variables['BatchNorm/moving_variance'], 0.9 + 0.1 * x.var(0) * 6 / want_divisor, rtol=1e-4
    )
    assert (len(collections['update_ops']), collections['trainable_variables']) == (2, ['BatchNorm/beta'])


@pytest.mark.parametrize('is_training', [False, lambda: tf.constant(1) < 0])
def test_batch_norm_infers(is_training):
    def build(x):
        training = is_training() if callable(is_training) else is_training
        return layers.batch_norm(x, is_training=training, updates_collections=None)

    value, _, collections = _build(build, X[:, :, None])
    np.testing.assert_allclose(value, X[:, :, None] / np.sqrt(1.001), rtol=1e-5)
    assert 'update_ops' not in collections


def test_batch_norm_updates_in_place():
    with tf.Graph().as_default(), v1.Session() as session:
        outputs = layers.batch_norm(tf.constant(X[:, 0]), decay=0.5, updates_collections=None)
        session.run(v1.global_variables_initializer())
        session.run(outputs)
        mean = session.run(v1.global_variables('BatchNorm/moving_mean')[0])
    np.testing.assert_allclose(mean, X[:, 0].mean(0) / 2, rtol=1e-4)


@pytest.mark.parametrize('option', [{'renorm': True}, {'data_format': 'NCHW'}, {'zero_debias_moving_mean': True}])
def test_batch_norm_says_what_it_cannot(option):
    with pytest.raises(UserError, match='none of which is supported'), tf.Graph().as_default():
        layers.batch_norm(tf.constant(X), **option)


def test_dropout():
    dropped = _build(lambda x: layers.dropout(x, 0.5, seed=1), np.ones([1000, 2], 'float32'))[0]
    assert set(np.unique(dropped)) == {0, 2} and 0.9 < dropped.mean() < 1.1
    assert np.array_equal(_build(lambda x: layers.dropout(x, is_training=False))[0], X[:, 0])


@pytest.mark.parametrize('unique', [False, True])
def test_embed_sequence(unique):
    ids = np.array([[1, 2, 1], [0, 2, 2]])
    value, variables, _ = _build(lambda x: layers.embed_sequence(x, 3, 4, unique=unique), ids)
    assert np.array_equal(value, variables['EmbedSequence/embeddings'][ids])


@pytest.mark.parametrize(
    'layer, x, want',
    [
        (layers.flatten, X, X.reshape(6, 20)),
        (lambda x: layers.one_hot_encoding(x, 3), np.array([2, 0]), [[0, 0, 1], [1, 0, 0]]),
        (initializers.l1_regularizer(0.5), X, np.abs(X).sum() / 2),
        (initializers.l2_regularizer(0.5), X, (X**2).sum() / 4),
        (initializers.l1_l2_regularizer(0.5, 0.0), X, np.abs(X).sum() / 2),
    ],
)
def test_functions_of_layers(layer, x, want):
    np.testing.assert_allclose(_build(layer, x)[0], want, rtol=1e-5)


@pytest.mark.parametrize(
    'options, want_limit, want_deviation',
    [
        ({'uniform': True, 'mode': 'FAN_IN', 'factor': 1.0}, np.sqrt(3 / 300), np.sqrt(1 / 300)),
        ({}, 2 * np.sqrt(1.3 * 2 / 300), np.sqrt(2 / 300)),
        ({'mode': 'FAN_OUT'}, 2 * np.sqrt(1.3 * 2 / 200), np.sqrt(2 / 200)),
    ],
)
def test_variance_scaling(options, want_limit, want_deviation):
    made = _build(lambda _: initializers.variance_scaling_initializer(seed=1, **options)([300, 200]))[0]
    assert want_limit * 0.9 < np.abs(made).max() <= want_limit
    assert made.std() == pytest.approx(want_deviation, rel=0.02)


@pytest.mark.parametrize('scale, want_error', [(1, 'integer'), (-0.1, 'negative')])
def test_a_wrong_scale(scale, want_error):
    with pytest.raises(ValueError, match=want_error):
        initializers.l2_regularizer(scale)


def test_datasets():
    dataset = tf.data.Dataset.range(5)
    assert [b.tolist() for b in dataset.apply(functions.batch_and_drop_remainder(2)).as_numpy_iterator()] == [
        *([0, 1], [2, 3])
    ]
    padded = dataset.map(lambda x: tf.fill([x], x)).apply(functions.padded_batch_and_drop_remainder(4, [None]))
    assert [b.shape for b in padded.as_numpy_iterator()] == [(4, 3)]
    interleaved = dataset.apply(functions.sloppy_interleave(lambda x: tf.data.Dataset.from_tensors(x), 2))
    assert sorted(interleaved.as_numpy_iterator()) == [0, 1, 2, 3, 4]


def test_lookup():
    def build(x):
        table = functions.index_table_from_tensor(mapping=tf.constant(['a', 'b']), num_oov_buckets=1)
        back = functions.index_to_string_table_from_tensor(mapping=tf.constant(['a', 'b']))
        return [table.lookup(tf.constant(['b', 'x'])), back.lookup(tf.constant([1, 7], tf.int64))]

    indexes, strings = _build(build)[0]
    assert (indexes.tolist(), strings.tolist()) == ([1, 2], [b'b', b'UNK'])


@pytest.mark.parametrize(
    'make, want_devices',
    [
        (lambda: functions.MirroredStrategy(num_gpus=0), ('CPU:0',)),
        (lambda: functions.OneDeviceStrategy('/cpu:0'), ('CPU:0',)),
        (lambda: functions.ParameterServerStrategy(), ('CPU:0',)),
        (lambda: functions.CollectiveAllReduceStrategy(), ('CPU:0',)),
    ],
)
def test_strategies(make, want_devices):
    strategy = make()
    assert isinstance(strategy, v1.distribute.Strategy)
    assert tuple(device[-5:] for device in strategy.extended.worker_devices) == want_devices
