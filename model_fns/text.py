"""Classifiers of text: the words are made in the graph, so an exported model takes text as it is."""

from collections.abc import Sequence

import gin
import numpy as np

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.features import Feature
from model_fns import inputs, layers, training
from model_fns.heads import head_of

_v1 = tf.compat.v1


@gin.configurable
def bag_of_embeddings_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    ngrams: int = 1,
    max_words: int = 256,
    embedding_size: int = 32,
    hidden_units: Sequence[int] = (),
    word_dropout: float = 0.0,
    dropout: float = 0.0,
) -> tf.estimator.EstimatorSpec:
    """Predicts by the mean of the embeddings of the words of a text (Joulin et al., 2017).

    Args:
        features: One text, string [batch]; its vocabulary or hash_buckets in `feature_description` are for its words.
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        ngrams: Up to so many words one after the other have an embedding of their own.
        max_words: What a text has beyond so many is left out.
        embedding_size: Columns of an embedding, where the description does not say.
        hidden_units: Width of each rectified linear layer between the mean and the logits.
        word_dropout: Share of the words left out in training (Iyyer et al., 2015, section 3.1).
        dropout: Share of the mean, and of the outputs of each such layer, set to 0 in training.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: The features are not a single text.
    """
    description = inputs.description_for('bag_of_embeddings_model_fn')
    head = head_of(description)
    feature, texts = inputs.only_text(features, description, 'bag_of_embeddings_model_fn')
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    ids = _ids(feature, words(texts), max_words, ngrams, word_dropout if is_training else 0.0)
    category = inputs.Category(feature.name, ids, feature.ids)
    net = inputs.embedding(category, feature.embedding_size or embedding_size)
    net = layers.hidden(layers.drop(net, dropout, is_training), hidden_units, dropout, is_training)
    return head.spec(mode, layers.dense(net, head.size, 'logits'), labels, training.minimize)


@gin.configurable
def transformer_model_fn(
    features: dict[str, tf.Tensor],
    labels: tf.Tensor | None,
    mode: str,
    max_words: int = 64,
    size: int = 64,
    encoder_layers: int = 2,
    heads: int = 4,
    inner_size: int = 128,
    word_dropout: float = 0.0,
    dropout: float = 0.1,
) -> tf.estimator.EstimatorSpec:
    """Predicts from a text by a small encoder of Vaswani et al., 2017, section 3, and the mean of what it makes.

    Each layer is normalised before it, not after, which needs no warm-up (Xiong et al., 2020, figure 1b).

    Args:
        features: One text, string [batch]; its vocabulary or hash_buckets in `feature_description` are for its words.
        labels: Classes, int32 [batch], or numbers; None in PREDICT mode.
        mode: A `tf.estimator.ModeKeys`.
        max_words: What a text has beyond so many is left out.
        size: Columns of an embedding, where the description does not say, and of what each layer makes.
        encoder_layers: Number of layers, each of an attention and a feed-forward network.
        heads: Number of attention heads, a divisor of the size.
        inner_size: Width of the feed-forward networks.
        word_dropout: Share of the words left out in training (Iyyer et al., 2015, section 3.1).
        dropout: Share of the embeddings, and of what each attention and network adds, set to 0 in training.

    Returns:
        The spec of the head for the label, see `heads.head_of`.

    Raises:
        UserError: The features are not a single text, or the size cannot be divided.
    """
    name = 'transformer_model_fn'
    description = inputs.description_for(name)
    head = head_of(description)
    feature, texts = inputs.only_text(features, description, name)
    size = feature.embedding_size or size
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    ids = _ids(feature, words(texts), max_words, 1, word_dropout if is_training else 0.0)
    initializer = _v1.truncated_normal_initializer(stddev=size**-0.5)
    rows, known = inputs.lookup(inputs.Category(feature.name, ids, feature.ids), size, 'embeddings', initializer)
    # Section 3.4: the embeddings are multiplied by the root of their size, which makes them as large as the positions.
    net = rows * size**0.5 + _positions(max_words, size)[: tf.shape(ids)[1]]
    net = layers.drop(net, dropout, is_training)
    for i in range(encoder_layers):
        with _v1.variable_scope(f'encoder_{i}'):
            attended = _attention(layers.layer_normalization(net, 'normalised_0'), known[..., 0], heads)
            net += layers.drop(attended, dropout, is_training)
            inner = layers.dense(layers.layer_normalization(net, 'normalised_1'), inner_size, 'inner')
            net += layers.drop(layers.dense(tf.nn.relu(inner), size, 'outer'), dropout, is_training)
    # Normalised only now: a word that says nothing has little weight in the mean.
    mean = tf.reduce_sum(net * known, axis=1) / tf.maximum(tf.reduce_sum(known, axis=1), 1.0)
    mean = layers.layer_normalization(mean, 'normalised')
    return head.spec(mode, layers.dense(mean, head.size, 'logits'), labels, training.minimize)


def words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the words of each text, string [batch, words]: letters, digits and marks in a row, in small letters."""
    small = tf.strings.lower(texts, encoding='utf-8')
    return tf.strings.split(tf.strings.regex_replace(small, r'[^\pL\pN\pM_]+', ' '))


def _ids(feature: Feature, found: tf.RaggedTensor, max_words: int, ngrams: int, left_out: float) -> tf.Tensor:
    """Returns the ids of the words, and of the n-grams after them, int64 [batch, longest]; -1 where there are none.

    Args:
        feature: with the vocabulary or the number of buckets.
        found: the words of each text.
        max_words: so many of them are taken.
        ngrams: how many words an n-gram has at most.
        left_out: share that gets no id, at random.
    """
    found = found[:, :max_words]
    if ngrams > 1:
        found = tf.concat([found, *(tf.strings.ngrams(found, n) for n in range(2, ngrams + 1))], axis=1)
    ids = found.with_values(inputs.ids_of(feature, found.values))
    # At least one column, even where no text has a word.
    width = tf.maximum(tf.reduce_max(found.row_lengths(), keepdims=True), 1)
    ids = ids.to_tensor(default_value=-1, shape=tf.concat([[-1], width], axis=0))
    return tf.where(tf.random.uniform(tf.shape(ids)) < left_out, -tf.ones_like(ids), ids) if left_out else ids


def _positions(count: int, size: int) -> tf.Tensor:
    """Returns the sines and cosines of section 3.5, float32 [count, size]."""
    columns = np.arange(size)
    angles = np.arange(count)[:, np.newaxis] / 10_000 ** (columns // 2 * 2 / size)
    return tf.constant(np.where(columns % 2, np.cos(angles), np.sin(angles)), tf.float32)


def _attention(net: tf.Tensor, known: tf.Tensor, heads: int) -> tf.Tensor:
    """Returns what the heads make of [batch, words, size], each word attending to those that are known."""
    size = net.shape[-1]
    if size % heads:
        raise UserError(f'transformer_model_fn.heads: {heads}; expected a divisor of the size, {size}')
    shape = tf.concat([tf.shape(net)[:2], [heads, size // heads]], axis=0)
    queries, keys, values = (
        tf.transpose(tf.reshape(layers.dense(net, size, name, bias=False), shape), [0, 2, 1, 3])
        for name in ('queries', 'keys', 'values')
    )
    # Equation 1. Large, but finite: a text without words has nothing to attend to, and must not become NaN.
    scores = tf.matmul(queries, keys, transpose_b=True) / (size // heads) ** 0.5
    scores -= 1e9 * (1 - known)[:, tf.newaxis, tf.newaxis, :]
    made = tf.transpose(tf.matmul(tf.nn.softmax(scores), values), [0, 2, 1, 3])
    made = tf.reshape(made, tf.shape(net))
    return layers.dense(tf.ensure_shape(made, net.shape), size, 'attended', bias=False)
