"""What the values of a batch must be, checked in the graph at little cost, and the label as a class."""

from collections.abc import Mapping

from estimator_trainer.compat import tf
from estimator_trainer.features import Description, Feature

_BUCKETS = 2**62  # so many that no two words have a hash in common
# UTF-8, as Python has it: halves of characters are none.
_UTF8 = r'[^\x{D800}-\x{DFFF}]*'


def example(description: Description, values: Mapping[str, tf.Tensor]):
    """Returns what an input_fn gives of a batch: features, or (features, labels) where a label is described.

    To be called in a function of a dataset, which runs the checks.

    Args:
        description: of the features and the label.
        values: of each of them, [batch, *shape], in its dtype, or int64 for any integer.

    Raises:
        tf.errors.InvalidArgumentError: when the batch is read, where a value cannot be; `Feature.problem` says which.
    """
    ids, checks = {}, []
    given = dict(values)
    for feature in description.all:
        value = values[feature.name]
        if feature.num_buckets is not None:
            checks.append(tf.reduce_all((value >= 0) & (value < tf.constant(feature.num_buckets, value.dtype))))
        if feature.vocabulary is not None and feature.must_be_known:
            ids[feature.name] = _ids(feature, value)
            checks.append(tf.reduce_all(ids[feature.name] >= 0))
        elif value.dtype == tf.int64 and feature.given == 'int32':
            checks.append(tf.reduce_all((value >= tf.int32.min) & (value <= tf.int32.max)))
        given[feature.name] = tf.cast(value, feature.given)
    for dtype in ('float32', 'float64'):
        # One op for all columns, since each takes longer than what it does.
        floats = [_flat(feature, given[feature.name]) for feature in description.all if feature.given == dtype]
        if floats:
            checks.append(tf.reduce_all(tf.math.is_finite(tf.concat(floats, 0))))
    if checks:
        ensure(tf.reduce_all(checks) if len(checks) > 1 else checks[0], 'a bad value')
    features = {name: given[name] for name in description.features}
    label = description.label
    if label is None:
        return features
    return features, given[label.name] if label.vocabulary is None else tf.cast(ids[label.name], tf.int32)


def check_utf8(texts: tf.Tensor) -> None:
    """Has the function of a dataset that this is called in fail where a text is not UTF-8."""
    ensure(tf.reduce_all(tf.strings.regex_full_match(texts, _UTF8)), 'a text that is not UTF-8')


def ensure(condition: tf.Tensor, text: str) -> None:
    """Has the function of a dataset that this is called in fail with a text unless a bool scalar holds."""
    # The raw op: tf.debugging.Assert puts it into a tf.cond, which takes longer than what is looked at here.
    tf.raw_ops.Assert(condition=condition, data=[tf.constant(text)])


def _flat(feature: Feature, value: tf.Tensor) -> tf.Tensor:
    return tf.reshape(value, [-1]) if feature.shape else value


def _ids(feature: Feature, value: tf.Tensor) -> tf.Tensor:
    """Returns the places of values in the vocabulary, int64 of the shape of `value`; -1 for a value that is not in it.

    No lookup table, which would need initialising on each replica's iterator.
    """
    words, flat = tf.constant(list(feature.vocabulary), value.dtype), tf.reshape(value, [-1])
    keys, wanted = words, flat
    if value.dtype == tf.string:
        keys, wanted = (tf.strings.to_hash_bucket_fast(it, _BUCKETS) for it in (words, flat))
    # TensorFlow works this out once, since it hangs on constants alone.
    order = tf.argsort(keys)
    place = tf.searchsorted(tf.gather(keys, order), wanted)
    ids = tf.gather(order, tf.minimum(place, len(feature.vocabulary) - 1))
    ids = tf.where(tf.equal(tf.gather(words, ids), flat), tf.cast(ids, tf.int64), tf.constant(-1, tf.int64))
    return tf.reshape(ids, tf.shape(value))
