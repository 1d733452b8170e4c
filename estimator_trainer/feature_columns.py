"""The features of `feature_description` as `tf.feature_column`s, for canned Estimators.

experiment.estimator = @DNNLinearCombinedClassifier
DNNLinearCombinedClassifier.linear_feature_columns = @wide_columns()
DNNLinearCombinedClassifier.dnn_feature_columns = @deep_columns()
"""

from typing import Any

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.feature_description import feature_description
from estimator_trainer.features import Cross, Description, Feature

_columns = tf.feature_column


@gin.configurable(module='estimator_trainer')
def wide_columns() -> list[Any]:
    """Returns what a linear model, or the wide part of one, weighs: numbers, categories and crosses.

    Raises:
        UserError: `feature_description` is not bound, or names a text that has no id and is in no cross.
    """
    description = _description('wide_columns')
    crosses = [_cross(cross, description) for cross in description.crosses.values()]
    return [*_numbers(description), *map(_category, description.categories), *crosses]


@gin.configurable(module='estimator_trainer')
def deep_columns() -> list[Any]:
    """Returns what a deep network is fed with: numbers, and categories as embeddings or ones and zeros.

    A category has an embedding where the description gives an embedding_size. Crosses take part with one only.

    Raises:
        UserError: `feature_description` is not bound, or names a text that has no id and is in no cross.
    """
    description = _description('deep_columns')
    made = [_dense(_category(feature), feature.embedding_size) for feature in description.categories]
    crosses = [cross for cross in description.crosses.values() if cross.embedding_size is not None]
    made += [_dense(_cross(cross, description), cross.embedding_size) for cross in crosses]
    return [*_numbers(description), *made]


def _description(name: str) -> Description:
    description = feature_description()
    if description is None:
        raise UserError(f'{name}: feature_description.features is not bound; expected a dict of name to entries')
    crossed = {part for cross in description.crosses.values() for part in cross.of}
    for feature in description.features.values():
        if feature.dtype == 'string' and not feature.is_category and feature.name not in crossed:
            raise UserError(
                f'feature_description.features[{feature.name!r}]: text that has no id; expected a vocabulary, '
                'hash_buckets, or a cross of it'
            )
    return description


def _numbers(description: Description) -> list[Any]:
    return [_number(feature) for feature in description.numbers]


def _number(feature: Feature) -> Any:
    def standardised(values):
        mean, deviation = feature.normalize
        # The column makes it float32, which a large number may not fit before.
        return (tf.cast(values, tf.float32 if values.dtype == tf.float32 else tf.float64) - mean) / deviation

    normalizer = standardised if feature.normalize is not None else None
    return _columns.numeric_column(feature.name, feature.shape or (1,), None, tf.as_dtype(feature.dtype), normalizer)


def _category(feature: Feature) -> Any:
    name, dtype = feature.name, tf.as_dtype(feature.dtype)
    if feature.boundaries is not None:
        return _columns.bucketized_column(_number(feature), list(feature.boundaries))
    if feature.hash_buckets is not None:
        return _columns.categorical_column_with_hash_bucket(name, feature.hash_buckets, dtype)
    # Not categorical_column_with_identity for num_buckets: it fails, or makes a known one of what is out of range.
    words = range(feature.num_buckets) if feature.vocabulary is None else feature.vocabulary
    others = feature.vocabulary is not None and feature.out_of_vocabulary == 'bucket'
    return _columns.categorical_column_with_vocabulary_list(
        name, list(words), dtype, **({'num_oov_buckets': 1} if others else {'default_value': -1})
    )


def _cross(cross: Cross, description: Description) -> Any:
    parts = [description.features[name] for name in cross.of]
    # Of what is hashed, the values themselves: hashed twice, they would share an id more often.
    keys = [part.name if part.hash_buckets or not part.is_category else _category(part) for part in parts]
    return _columns.crossed_column(keys, cross.hash_buckets)


def _dense(column: Any, embedding_size: int | None) -> Any:
    if embedding_size is None:
        return column if hasattr(column, 'source_column') else _columns.indicator_column(column)
    return _columns.embedding_column(column, embedding_size)
