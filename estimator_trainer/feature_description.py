"""`feature_description`: what the features and the label are, said once for input_fns, models, exports and the plan."""

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest
from estimator_trainer.features import DTYPES, OUT_OF_VOCABULARY, Cross, Description, Feature, shown
from estimator_trainer.files import no_file, places

_LARGEST = 2**31 - 1  # rows of a variable that TensorFlow can make
_FEATURE = 'feature_description.features'
_CROSS = 'feature_description.crosses'
_LABEL = 'feature_description.label'
_ENTRIES = {
    _FEATURE: (
        *('dtype', 'shape', 'default', 'vocabulary', 'out_of_vocabulary', 'hash_buckets', 'num_buckets', 'boundaries'),
        *('normalize', 'embedding_size'),
    ),
    _CROSS: ('of', 'hash_buckets', 'embedding_size'),
    _LABEL: ('dtype', 'vocabulary', 'num_buckets'),
}
_A_CROSS = "{'a_b': {'of': ['a', 'b'], 'hash_buckets': 1000}}"


@gin.configurable(module='estimator_trainer')
def feature_description(
    features: dict[str, Any] | None = None,
    crosses: dict[str, Any] | None = None,
    label: dict[str, Any] | None = None,
) -> Description | None:
    """Says what the features and the label are, for input_fns, models, exports and the plan.

    Args:
        features: name -> entries, all optional:
            dtype: 'float32' (default), 'float64', 'int32', 'int64' or 'string', which a vocabulary of texts and
                hash_buckets imply; num_buckets implies 'int64'.
            shape: of one example's value, default [].
            default: stands for a missing value; without it a missing value is a mistake.
            vocabulary: the values as a list, or a text file with one a line (in UTF-8).
            out_of_vocabulary: for any other value 'bucket' (default: one id for all of these), 'ignore' (zeros) or
                'error' (a bad record).
            hash_buckets: number of ids that values are hashed to.
            num_buckets: number of ids, where the values are ids, 0 and up.
            boundaries: of ranges of a number, each of which is an id.
            normalize: (mean, standard deviation) that a number is standardised by.
            embedding_size: number of columns of a table of embeddings.
        crosses: name -> entries: `of`, names of features that are categories or text; `hash_buckets`; and optionally
            `embedding_size`.
        label: {name: entries} with `dtype`, `vocabulary` or `num_buckets`: both make it a class; a number without them.

    Returns:
        The description, or None where nothing is bound.

    Raises:
        UserError: an entry that cannot be as bound.
    """
    if features is None and crosses is None and label is None:
        return None
    made = {name: _feature(_FEATURE, name, entries) for name, entries in _named(_FEATURE, features)}
    # Images are no values that could be described, but their label is.
    if not made and (label is None or features is not None):
        raise UserError(f'{_FEATURE}: names no feature; expected a dict of name to entries')
    targets = [_feature(_LABEL, name, entries) for name, entries in _named(_LABEL, label)]
    if label is not None and len(targets) != 1:
        raise UserError(f'{_LABEL}: {len(targets)} labels; expected one')
    target = targets[0] if targets else None
    if target is not None and target.name in made:
        raise UserError(f'{_FEATURE}: holds the label {target.name!r}; expected other features')
    return Description(made, {name: _cross(name, entries, made) for name, entries in _named(_CROSS, crosses)}, target)


def _named(binding: str, entries: Any) -> list[tuple[str, dict[str, Any]]]:
    """Checks the names of what is described, and those of its entries; returns both, less entries that are None.

    Raises:
        UserError: one cannot be as bound.
    """
    example = "{'name': {'dtype': 'float32'}}" if binding != _CROSS else _A_CROSS
    if not isinstance(entries, Mapping | None):
        raise UserError(f'{binding}: {shown(entries)}; expected a dict such as {example}')
    result = []
    for name, fields in (entries or {}).items():
        if not isinstance(name, str) or not name:
            raise UserError(f'{binding}: {name!r}; expected names')
        where = f'{binding}[{name!r}]'
        if not isinstance(fields, Mapping):
            raise UserError(f'{where}: {shown(fields)}; expected a dict, as in {example}')
        for key in fields:
            if key not in _ENTRIES[binding]:
                names = ', '.join(_ENTRIES[binding])
                raise UserError(f'{where}: no entry {key!r}; expected {names}{nearest(str(key), _ENTRIES[binding])}')
        for key in ('hash_buckets', 'num_buckets', 'embedding_size'):
            count = fields.get(key)
            if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
                raise UserError(f'{where}: {key} is {shown(count)}; expected a whole number of at least 1')
            if count is not None and count > _LARGEST:
                raise UserError(f'{where}: {key} is {count}; expected at most {_LARGEST}')
        result.append((name, {key: value for key, value in fields.items() if value is not None}))
    return result


def _feature(binding: str, name: str, fields: dict[str, Any]) -> Feature:
    where = f'{binding}[{name!r}]'
    kinds = [key for key in ('vocabulary', 'hash_buckets', 'num_buckets', 'boundaries') if key in fields]
    if len(kinds) > 1:
        raise UserError(f'{where}: both {kinds[0]} and {kinds[1]}; expected one of them')
    if isinstance(fields.get('vocabulary'), str):
        fields['vocabulary'] = _words(where, fields['vocabulary'], fields.get('dtype'))
    for key in ('vocabulary', 'boundaries', 'normalize', 'shape'):
        if key in fields:
            if not isinstance(fields[key], list | tuple):
                raise UserError(f'{where}: {key} is {shown(fields[key])}; expected a list')
            fields[key] = tuple(fields[key])
    if 'out_of_vocabulary' in fields and 'vocabulary' not in fields:
        raise UserError(f'{where}: out_of_vocabulary without vocabulary')
    fields.setdefault('dtype', _implied_dtype(fields))
    feature = Feature(name, **fields, is_label=binding == _LABEL)
    for look in (_mistake, _mistake_of_category, _mistake_of_number, _mistake_of_default):
        if mistake := look(feature):
            raise UserError(f'{where}: {mistake}')
    if feature.is_whole and feature.default is not None:
        feature = dataclasses.replace(feature, default=int(feature.default))  # bound as 1.0, say
    return feature


def _implied_dtype(fields: Mapping[str, Any]) -> str:
    words = fields.get('vocabulary')
    if words is not None:
        return 'int64' if words and all(isinstance(word, int) for word in words) else 'string'
    return 'string' if 'hash_buckets' in fields else 'int64' if 'num_buckets' in fields else 'float32'


def _mistake(feature: Feature) -> str | None:
    """Returns what is wrong with dtype or shape, or None."""
    if feature.dtype not in DTYPES:
        return f'no dtype {feature.dtype!r}; expected {", ".join(DTYPES)}{nearest(str(feature.dtype), DTYPES)}'
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in feature.shape):
        return f'shape is {list(feature.shape)}; expected sizes of at least 1'
    if feature.is_label and feature.dtype == 'string' and feature.vocabulary is None:
        return 'text without a vocabulary; expected that of its classes'
    return None


def _mistake_of_category(feature: Feature) -> str | None:
    """Returns what is wrong with vocabulary, buckets or embedding, or None."""
    if feature.out_of_vocabulary not in OUT_OF_VOCABULARY:
        expected = ', '.join(OUT_OF_VOCABULARY)
        hint = nearest(str(feature.out_of_vocabulary), OUT_OF_VOCABULARY)
        return f'out_of_vocabulary is {feature.out_of_vocabulary!r}; expected {expected}{hint}'
    if feature.vocabulary is not None:
        if feature.dtype.startswith('float'):
            return f'dtype is {feature.dtype}; a vocabulary needs string, int32 or int64'
        if not feature.vocabulary:
            return 'the vocabulary is empty'
        value = dataclasses.replace(feature, vocabulary=None)
        for word in feature.vocabulary:
            # A float that is a whole number is one as a value, but no constant of a graph.
            if (problem := value.problem(word)) or isinstance(word, float):
                return f'the vocabulary holds {shown(word)}; {problem or "expected a whole number"}'
        if repeated := [word for word, count in collections.Counter(feature.vocabulary).items() if count > 1]:
            return f'the vocabulary holds {shown(repeated[0])} twice'
    if feature.num_buckets is not None:
        if not feature.is_whole:
            return f'dtype is {feature.dtype}; num_buckets needs int32 or int64'
        if problem := Feature('', feature.dtype).problem(feature.num_buckets):
            return f'num_buckets is {feature.num_buckets}; {problem}'
    if feature.hash_buckets is not None and feature.dtype.startswith('float'):
        return f'dtype is {feature.dtype}; hash_buckets needs string, int32 or int64'
    if feature.embedding_size is not None and not feature.is_category:
        return 'embedding_size without vocabulary, hash_buckets, num_buckets or boundaries'
    return None


def _mistake_of_number(feature: Feature) -> str | None:
    """Returns what is wrong with boundaries or normalize, or None."""
    number = Feature('', 'float64')
    for key, values in (('boundaries', feature.boundaries), ('normalize', feature.normalize)):
        if values is None:
            continue
        if feature.dtype == 'string':
            return f'dtype is string; {key} needs a number'
        for value in values:
            if problem := number.problem(value):
                return f'{key} holds {shown(value)}; {problem}'
    if feature.boundaries is not None and (
        not feature.boundaries or list(feature.boundaries) != sorted(set(feature.boundaries))
    ):
        return f'boundaries is {shown(list(feature.boundaries))}; expected numbers that grow'
    if feature.normalize is not None:
        if len(feature.normalize) != 2 or feature.normalize[1] <= 0:
            return f'normalize is {list(feature.normalize)}; expected (mean, standard deviation above 0)'
        if feature.is_category:
            return 'normalize is for a number; expected no vocabulary, buckets or boundaries'
    return None


def _mistake_of_default(feature: Feature) -> str | None:
    problem = None if feature.default is None else feature.problem(feature.default)
    return f'default is {shown(feature.default)}; {problem}' if problem else None


def _cross(name: str, fields: dict[str, Any], features: Mapping[str, Feature]) -> Cross:
    where = f'{_CROSS}[{name!r}]'
    for key in ('of', 'hash_buckets'):
        if key not in fields:
            raise UserError(f'{where}: no {key}; expected e.g. {_A_CROSS}')
    of = fields['of']
    if not isinstance(of, list | tuple) or len(of) < 2:
        raise UserError(f'{where}: of is {shown(of)}; expected a list of at least two features')
    for index, part in enumerate(of):
        if not isinstance(part, str) or part not in features:
            raise UserError(f'{where}: no feature {part!r} among {", ".join(features)}{nearest(str(part), features)}')
        if part in of[:index]:
            raise UserError(f'{where}: of holds {part!r} twice')
        feature = features[part]
        if feature.shape or not (feature.is_category or feature.dtype == 'string'):
            raise UserError(f'{where}: {part!r} is {feature}; expected one category: give it boundaries, say')
    if name in features:
        raise UserError(f'{where}: there is a feature {name!r}; expected another name')
    return Cross(name, tuple(of), fields['hash_buckets'], fields.get('embedding_size'))


def _words(where: str, path: str, dtype: str | None) -> tuple[str | int, ...]:
    """Returns the lines of a vocabulary file, as numbers for an int dtype.

    Args:
        where: the place of the feature, for errors.
        path: of the file: found as given or beside the installed packages.
        dtype: of the feature.
    """
    looked_at = places(path)
    found = next((place for place in looked_at if tf.io.gfile.exists(place) and not tf.io.gfile.isdir(place)), None)
    if what := no_file(found or path):
        raise UserError(f'{where}: the vocabulary file {found or path!r} is {what}; expected a file')
    if found is None:
        raise UserError(f'{where}: no vocabulary file {" or ".join(map(repr, looked_at))}')
    try:
        with tf.io.gfile.GFile(found, 'rb') as file:
            lines = file.read().decode('utf-8-sig').split('\n')
    except tf.errors.OpError as error:
        raise UserError(f'{where}: cannot read the vocabulary file {found}: {error.message}') from None
    except UnicodeDecodeError as error:
        raise UserError(f'{where}: {found} is no UTF-8 text at byte {error.start + 1}') from None
    words = [line.rstrip('\r') for line in lines]
    while words and not words[-1]:
        words.pop()
    if dtype not in ('int32', 'int64'):
        return tuple(words)
    kind = Feature('', dtype)
    for number, word in enumerate(words, 1):
        try:
            words[number - 1] = kind.from_text(word)
        except ValueError as error:
            raise UserError(f'{found}:{number}: {error}, as dtype of {where} says') from None
    return tuple(words)
