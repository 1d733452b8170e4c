"""The models of text: words made in the graph, padding that counts for nothing, formulas, and that they learn."""

import gin
import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from model_fns import text
from model_fns.text import bag_of_embeddings_model_fn, transformer_model_fn
from tests.model_fns import harness

v1 = tf.compat.v1
MODELS = [bag_of_embeddings_model_fn, transformer_model_fn]
WORDS = "feature_description.features = {'text': {'vocabulary': ['a', 'b', 'b c'], 'out_of_vocabulary': 'ignore'}}"
HASHED = "feature_description.features = {'text': {'hash_buckets': 1000, 'embedding_size': 8}}"
LABEL = "feature_description.label = {'kind': {'vocabulary': ['x', 'y', 'z']}}"
NUMBER = "feature_description.label = {'number': {}}"


@pytest.mark.parametrize(
    ('given', 'want'),
    [
        ('Hello, world!', ['hello', 'world']),
        ("  don't  stop\t", ['don', 't', 'stop']),
        ('ÄÖ 漢字 naïve x_1', ['äö', '漢字', 'naïve', 'x_1']),
        ('3.14', ['3', '14']),
        ('...', []),
        ('', []),
    ],
)
def test_words(given, want):
    with tf.Graph().as_default(), v1.Session() as session:
        found = session.run(text.words(tf.constant([given, 'one'])))
    assert [[word.decode() for word in one] for one in found.to_list()] == [want, ['one']]


def test_words_of_what_is_no_utf8():
    with tf.Graph().as_default(), v1.Session() as session:
        found = session.run(text.words(tf.constant([b'A \xff\xfe OK'])))
    (one,) = found.to_list()
    assert (one[0], one[-1]) == (b'a', b'ok')


def predicted(model_fn, texts, *bindings, values=None, **arguments):
    with harness.bound(*bindings):
        return harness.run(model_fn, {'text': texts}, values=values, **arguments)


def test_bag_of_embeddings():
    table, kernel = np.array([[1.0, 2.0], [3.0, -4.0], [10.0, 20.0]]), np.array([[1.0], [2.0]])
    values = {'embeddings/text': table, 'logits/kernel': kernel, 'logits/bias': [0.5]}
    texts = ['A, b!', 'b', 'b c d', 'd', '']
    arguments = {'values': values, 'embedding_size': 2}
    got = predicted(bag_of_embeddings_model_fn, texts, WORDS, NUMBER, **arguments)['predictions']
    means = np.array([table[:2].mean(axis=0), table[1], table[1], [0, 0], [0, 0]])
    np.testing.assert_allclose(got, (means @ kernel)[:, 0] + 0.5, rtol=1e-6)
    got = predicted(bag_of_embeddings_model_fn, texts, WORDS, NUMBER, ngrams=2, **arguments)['predictions']
    means[2] = table[1:].mean(axis=0)
    np.testing.assert_allclose(got, (means @ kernel)[:, 0] + 0.5, rtol=1e-6)
    got = predicted(bag_of_embeddings_model_fn, texts, WORDS, NUMBER, max_words=1, **arguments)['predictions']
    np.testing.assert_allclose(got[0], (table[0] @ kernel)[0] + 0.5, rtol=1e-6)


def some(*shape):
    return np.cos(np.arange(np.prod(shape)) * 1.7).reshape(shape) / 2


def normalised(net):
    return (net - net.mean(axis=-1, keepdims=True)) / np.sqrt(net.var(axis=-1, keepdims=True) + 1e-6)


def test_transformer():
    """One layer of two heads against NumPy, text by text, so without any padding."""
    names = {'queries': 0.1, 'keys': 0.2, 'values': 0.3, 'attended': 0.4, 'inner': 0.5, 'outer': 0.6}
    shapes = {'inner': (4, 6), 'outer': (6, 4)}
    kernels = {name: some(*shapes.get(name, (4, 4))) + add for name, add in names.items()}
    values = {f'encoder_0/{name}/kernel': kernel for name, kernel in kernels.items()}
    values |= {'embeddings/text': some(3, 4), 'logits/kernel': some(4, 1)}
    texts = ['a b a a b', 'b', 'b a']
    arguments = {'size': 4, 'heads': 2, 'encoder_layers': 1, 'inner_size': 6, 'values': values}
    got = predicted(transformer_model_fn, texts, WORDS, NUMBER, **arguments)['predictions']
    for one, prediction in zip(texts, got, strict=True):
        ids = ['ab'.index(word) for word in one.split()]
        places = np.arange(len(ids))
        angles = np.stack([places, places, places / 100, places / 100], axis=1)
        net = 2 * some(3, 4)[ids] + np.where([0, 1, 0, 1], np.cos(angles), np.sin(angles))
        queries, keys, worth = (normalised(net) @ kernels[name] for name in ('queries', 'keys', 'values'))
        heads = []
        for head in (slice(0, 2), slice(2, 4)):
            scores = np.exp(queries[:, head] @ keys[:, head].T / np.sqrt(2))
            heads.append(scores / scores.sum(axis=1, keepdims=True) @ worth[:, head])
        net = net + np.concatenate(heads, axis=1) @ kernels['attended']
        net = net + np.maximum(normalised(net) @ kernels['inner'], 0) @ kernels['outer']
        assert prediction == pytest.approx((normalised(net.mean(axis=0)) @ some(4, 1))[0], rel=1e-3, abs=1e-5)


@pytest.mark.parametrize('model_fn', MODELS, ids=lambda model_fn: model_fn.__name__)
def test_padding_counts_for_nothing(model_fn):
    texts = ['one two three four five six', 'one', '', 'seven unknown']
    together = predicted(model_fn, texts, HASHED, LABEL)['probabilities']
    assert np.isfinite(together).all()
    for i, one in enumerate(texts):
        alone = predicted(model_fn, [one], HASHED, LABEL)['probabilities']
        np.testing.assert_allclose(alone[0], together[i], rtol=1e-4, atol=1e-6)
    assert predicted(model_fn, np.array([], object), HASHED, LABEL)['probabilities'].shape == (0, 3)


def test_word_order_matters_to_a_transformer_alone():
    for model_fn, want_same in zip(MODELS, (True, False), strict=True):
        got = predicted(model_fn, ['one two three', 'three two one'], HASHED, LABEL)['probabilities']
        assert np.allclose(got[0], got[1], rtol=1e-4) == want_same


@pytest.mark.parametrize('model_fn', MODELS, ids=lambda model_fn: model_fn.__name__)
def test_learns_and_serves_text(model_fn, tmp_path):
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 60).astype(np.int32)
    texts = [f'the {random.choice(["big", "small"])} {["cat", "dog", "cow"][label]} sat' for label in labels]

    def input_fn():
        data = tf.data.Dataset.from_tensors(({'text': texts}, labels))
        return data.repeat()

    def receiver_fn():
        placeholder = v1.placeholder(tf.string, [None])
        return tf.estimator.export.ServingInputReceiver({'text': placeholder}, {'text': placeholder})

    with harness.bound(HASHED, LABEL, 'optimization.learning_rate = 0.02'):
        estimator = harness.estimator(model_fn, tmp_path / 'model')
        estimator.train(input_fn, max_steps=40)
        assert estimator.evaluate(input_fn, steps=1)['accuracy'] == 1
        exported = estimator.export_saved_model(str(tmp_path / 'export'), receiver_fn).decode()
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ['serve'], exported).signature_def['serving_default']
        given = {signature.inputs['text'].name: ['A DOG, perhaps?', 'Some cow.']}
        assert session.run(signature.outputs['classes'].name, given).tolist() == [b'y', b'z']


@pytest.mark.parametrize('kind', ['dropout', 'word_dropout'])
def test_dropout_is_for_training_alone(kind):
    with harness.bound(HASHED, LABEL):
        for model_fn in MODELS:
            arguments = {'values': {'embeddings/text': some(1000, 8)}, 'fetch': lambda spec: spec.loss}
            arguments |= {'dropout': 0.0, 'word_dropout': 0.0}
            losses = [
                harness.run(model_fn, {'text': ['a b c']}, [1], mode, **arguments | {kind: share})
                for mode, share in (('eval', 0.9), ('eval', 0.0), ('train', 0.9))
            ]
            assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(
    ('features', 'arguments', 'want_error'),
    [
        (
            "{'text': {'hash_buckets': 9}, 'x': {}}",
            {},
            'has text (string, 9 hash buckets), x (float32); expected a single',
        ),
        ("{'x': {}}", {}, 'feature_description.features has x (float32); expected a single text'),
        (
            "{'text': {'dtype': 'string'}}",
            {},
            "['text'] has neither a vocabulary nor hash_buckets; expected one of them",
        ),
        (
            "{'text': {'hash_buckets': 9}}",
            {'heads': 3},
            'transformer_model_fn.heads: 3; expected a divisor of the size, 64',
        ),
    ],
)
def test_error(features, arguments, want_error):
    with harness.bound(LABEL), pytest.raises(UserError) as error:
        gin.parse_config(f'feature_description.features = {features}')
        harness.run(transformer_model_fn, {'text': ['a']}, **arguments)
    assert want_error in str(error.value)
