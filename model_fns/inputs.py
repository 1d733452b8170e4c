"""From the features of an input_fn to what a network computes with: numbers, ids and embeddings.

What a feature is says `feature_description`; nothing here is bound by itself. The features are a dict from name to
[batch, *shape] in the feature's own dtype, as the input_fns that ship return them.
"""

import dataclasses
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest
from estimator_trainer.feature_description import feature_description
from estimator_trainer.features import Cross, Description, Feature

_v1 = tf.compat.v1
# A batch of 512 has 20 MB of zeros and ones then; a table of embeddings has a few kB of what is looked up.
_MOST_ONE_HOT = 10_000
# Between the values of a cross, so that 'a', 'bc' and 'ab', 'c' differ.
_SEPARATOR = '\x1f'


@dataclasses.dataclass(frozen=True)
class Category:
    """What a batch holds of one feature, or cross of features, that has ids.

    Attributes:
        name: its name in the description.
        ids: int64 [batch, values]; -1 for a value that has none.
        count: number of ids.
        embedding_size: as the description says, or None.
    """

    name: str
    ids: tf.Tensor
    count: int
    embedding_size: int | None = None


def description_for(model: str, features: bool = True) -> Description:
    """Returns what `feature_description` is bound to.

    Args:
        model: asks, and is named by the error.
        features: whether those are needed, and not only the label.

    Raises:
        UserError: it is not bound.
    """
    description = feature_description()
    if description is None and not features:
        raise UserError(
            f"{model}: feature_description.label is not bound; expected e.g. {{'kind': {{'vocabulary': ['a', 'b']}}}}"
        )
    if description is None or (features and not description.features):
        raise UserError(
            f'{model}: feature_description.features is not bound; expected e.g. '
            "feature_description.features = {'age': {'normalize': [38.6, 13.7]}}"
        )
    return description


def column(features: Mapping[str, tf.Tensor], name: str, binding: str) -> tf.Tensor:
    """Returns the feature `name`.

    Raises:
        UserError: the input_fn does not give it; the error names the Gin `binding` that asks for it.
    """
    if name not in features:
        raise UserError(f'{binding}: no feature {name!r} among {", ".join(features)}{nearest(name, features)}')
    return features[name]


def numbers(features: Mapping[str, tf.Tensor], description: Description) -> tf.Tensor | None:
    """Returns the numbers, standardised where the description says how, float32 [batch, n]; None where there are none.

    A number of more than 24 bits is standardised in its own precision, and only then made a float32.
    """
    columns = []
    for feature in description.numbers:
        values = tf.reshape(_described(features, feature), [-1, feature.size])
        if feature.normalize is not None:
            mean, deviation = feature.normalize
            values = tf.cast(values, tf.float32 if values.dtype == tf.float32 else tf.float64)
            values = (values - mean) / deviation
        columns.append(tf.cast(values, tf.float32))
    return tf.concat(columns, axis=1) if columns else None


def categories(
    features: Mapping[str, tf.Tensor], description: Description, all_crosses: bool = False
) -> list[Category]:
    """Returns the features that have ids, then the crosses.

    Args:
        features: of a batch.
        description: of the features.
        all_crosses: whether also crosses without an embedding_size: those are for what looks up a weight each.

    Raises:
        UserError: a text that has neither a vocabulary nor hash_buckets, nor is part of a cross.
    """
    crossed = {part for cross in description.crosses.values() for part in cross.of}
    found = []
    for name, feature in description.features.items():
        if feature.is_category:
            ids = tf.reshape(ids_of(feature, _described(features, feature)), [-1, feature.size])
            found.append(Category(name, ids, feature.ids, feature.embedding_size))
        elif feature.dtype == 'string' and name not in crossed:
            raise UserError(
                f'feature_description.features[{name!r}]: text that has no id; expected a vocabulary, hash_buckets, '
                'or a cross of it'
            )
    for name, cross in description.crosses.items():
        if all_crosses or cross.embedding_size is not None:
            ids = _cross_ids(cross, features, description)[:, tf.newaxis]
            found.append(Category(name, ids, cross.hash_buckets, cross.embedding_size))
    return found


def ids_of(feature: Feature, values: tf.Tensor) -> tf.Tensor:
    """Returns the ids of a category's values, int64 in the shape of `values`; -1 for a value that has none.

    No value is an error here, whatever the description says of those out of the vocabulary: input_fns refuse them, and
    an exported model has to answer.
    """
    if feature.vocabulary is not None:
        text = feature.dtype == 'string'
        words = tf.constant(list(feature.vocabulary), tf.string if text else tf.int64)
        numbered = tf.range(len(feature.vocabulary), dtype=tf.int64)
        unknown = len(feature.vocabulary) if feature.out_of_vocabulary == 'bucket' else -1
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(words, numbered), unknown)
        return table.lookup(values if text else tf.cast(values, tf.int64))
    if feature.boundaries is not None:
        # Compared in the number's own precision; a whole number reaches 2.5 when it reaches 3.
        limits = map(math.ceil, feature.boundaries) if values.dtype.is_integer else feature.boundaries
        reached = values[..., tf.newaxis] >= tf.constant(list(limits), values.dtype)
        return tf.reduce_sum(tf.cast(reached, tf.int64), axis=-1)
    if feature.hash_buckets is not None:
        return tf.strings.to_hash_bucket_fast(_text(values), feature.hash_buckets)
    ids = tf.cast(values, tf.int64)
    return tf.where((ids >= 0) & (ids < feature.num_buckets), ids, -tf.ones_like(ids))


def one_hot(category: Category) -> tf.Tensor:
    """Returns how often each id occurs, float32 [batch, ids]: a one, and zeros, for a feature of a single value.

    Raises:
        UserError: there are too many ids.
    """
    if category.count > _MOST_ONE_HOT:
        raise UserError(
            f'feature_description: {category.name!r} has {category.count:,} ids, and no embedding_size; expected one '
            f'for more than {_MOST_ONE_HOT:,} ids'
        )
    return tf.reduce_sum(tf.one_hot(category.ids, category.count), axis=1)


def embedding(category: Category, size: int, scope: str = 'embeddings') -> tf.Tensor:
    """Returns the mean of the embeddings of an example's values, float32 [batch, size]; zeros where none has an id.

    The embeddings start normal with deviation 1/sqrt(size), cut off at two deviations, and several values have their
    mean, as in `tf.feature_column.embedding_column`.
    """
    initializer = _v1.truncated_normal_initializer(stddev=size**-0.5)
    rows, known = lookup(category, size, scope, initializer)
    return tf.reduce_sum(rows, axis=1) / tf.maximum(tf.reduce_sum(known, axis=1), 1.0)


def lookup(category: Category, size: int, scope: str, initializer: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Looks the ids up in a table of a row each, which `estimator_trainer.partitioning` divides where it is large.

    Args:
        category: whose ids.
        size: number of columns.
        scope: of the table's variable, `<scope>/<name>`.
        initializer: of the table.

    Returns:
        The rows, float32 [batch, values, size], zeros for a value that has no id; and which of the values have one,
        ones and zeros, float32 [batch, values, 1].
    """
    with _v1.variable_scope(scope):
        table = _v1.get_variable(scope_of(category.name), [category.count, size], initializer=initializer)
    known = tf.cast(category.ids >= 0, tf.float32)[..., tf.newaxis]
    # tf.nn's, not v1's, which deals out the rows of a divided table differently.
    return tf.nn.embedding_lookup(table, tf.maximum(category.ids, 0)) * known, known


def matrix(features: Mapping[str, tf.Tensor], description: Description) -> tf.Tensor:
    """Returns all features side by side, float32 [batch, n]: what a deep network is fed with.

    First the numbers, then the categories: an embedding where there is an embedding_size, else ones and zeros. Crosses
    take part with an embedding_size only.
    """
    parts = [numbers(features, description)]
    for category in categories(features, description):
        size = category.embedding_size
        parts.append(one_hot(category) if size is None else embedding(category, size))
    return tf.concat([part for part in parts if part is not None], axis=1)


def linear(features: Mapping[str, tf.Tensor], description: Description, units: int, scope: str = 'linear') -> tf.Tensor:
    """Returns a linear function of all features, float32 [batch, units]: a weight for each number, id and cross.

    Weights start at 0. Those of a feature with several values add up.
    """
    zeros = _v1.zeros_initializer()
    given = numbers(features, description)
    with _v1.variable_scope(scope):
        total = _v1.get_variable('bias', [units], initializer=zeros)[tf.newaxis, :]
        if given is not None:
            total += tf.matmul(given, _v1.get_variable('numbers', [given.shape[1], units], initializer=zeros))
    for category in categories(features, description, all_crosses=True):
        total += tf.reduce_sum(lookup(category, units, f'{scope}/ids', zeros)[0], axis=1)
    return total


def scope_of(name: str) -> str:
    """Returns a name that a variable can have: with a checksum of what it stands for where that has other signs."""
    plain = re.sub(r'[^\w.-]', '_', name, flags=re.ASCII)
    return plain if plain == name and name[0] not in '_-' else f'x{plain}_{zlib.crc32(name.encode()):08x}'


def _described(features: Mapping[str, tf.Tensor], feature: Feature) -> tf.Tensor:
    return column(features, feature.name, 'feature_description.features')


def _cross_ids(cross: Cross, features: Mapping[str, tf.Tensor], description: Description) -> tf.Tensor:
    """Returns the ids of the combinations, int64 [batch]; -1 where one of the values has none."""
    texts, known = [], []
    for part in (description.features[name] for name in cross.of):
        values = tf.reshape(_described(features, part), [-1])
        # Hashed twice, values would share an id more often.
        if part.is_category and part.hash_buckets is None:
            values = ids_of(part, values)
            known.append(values >= 0)
        texts.append(_text(values))
    ids = tf.strings.to_hash_bucket_fast(tf.strings.join(texts, _SEPARATOR), cross.hash_buckets)
    return tf.where(tf.reduce_all(known, axis=0), ids, -tf.ones_like(ids)) if known else ids


def _text(values: tf.Tensor) -> tf.Tensor:
    return values if values.dtype == tf.string else tf.strings.as_string(values)


def only_text(features: Mapping[str, tf.Tensor], description: Description, model: str) -> tuple[Feature, tf.Tensor]:
    """Returns the one feature that is text, and its values, string [batch].

    Raises:
        UserError: it is not the only one, or its words have no ids.
    """
    found: Sequence[Feature] = list(description.features.values())
    if len(found) != 1 or found[0].dtype != 'string' or found[0].shape:
        names = ', '.join(f'{feature.name} ({feature})' for feature in found)
        raise UserError(f'{model}: feature_description.features has {names}; expected a single text')
    (feature,) = found
    if feature.ids is None:
        raise UserError(
            f'{model}: feature_description.features[{feature.name!r}] has neither a vocabulary nor hash_buckets; '
            'expected one of them, for its words'
        )
    return feature, _described(features, feature)
