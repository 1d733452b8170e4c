"""feature_description: what it takes, what it says of it, and what it refuses."""

import pytest

from estimator_trainer.errors import UserError
from estimator_trainer.feature_description import feature_description

FEATURE = "feature_description.features['x']: "


@pytest.mark.parametrize(
    ('entries', 'want_text', 'want_ids'),
    [
        ({}, 'float32', None),
        ({'shape': [2, 3], 'default': 0.5}, 'float32 [2, 3], default 0.5', None),
        ({'normalize': (3.0, 2.0)}, 'float32, (3, 2) standardised', None),
        ({'boundaries': [1.0, 2.0]}, 'float32, 3 ranges', 3),
        (
            {'vocabulary': ['a', 'b'], 'embedding_size': 4},
            'string, vocabulary of 2 and one for others, embedding of 4',
            3,
        ),
        ({'vocabulary': [5, 7], 'out_of_vocabulary': 'error'}, 'int64, vocabulary of 2, others refused', 2),
        ({'hash_buckets': 1000}, 'string, 1,000 hash buckets', 1000),
        ({'num_buckets': 7}, 'int64, ids below 7', 7),
    ],
)
def test_entries(entries, want_text, want_ids):
    feature = feature_description({'x': entries}).features['x']
    assert (str(feature), feature.ids) == (want_text, want_ids)


@pytest.mark.parametrize(
    ('entries', 'want_error'),
    [
        (5, "5; expected a dict, as in {'name': {'dtype': 'float32'}}"),
        ({'vocabulry': []}, "no entry 'vocabulry'; expected dtype, shape, "),
        ({'vocabulary': [], 'hash_buckets': 3}, 'both vocabulary and hash_buckets; expected one of them'),
        ({'vocabulary': []}, 'the vocabulary is empty'),
        ({'vocabulary': ['a', 'a']}, "the vocabulary holds 'a' twice"),
        ({'vocabulary': 'nowhere.txt'}, "no vocabulary file 'nowhere.txt' or "),
        ({'vocabulary': '/dev/null'}, "the vocabulary file '/dev/null' is a device; expected a file"),
        ({'dtype': 'flot32'}, "no dtype 'flot32'; expected float32, "),
        ({'shape': [0]}, 'shape is [0]; expected sizes of at least 1'),
        ({'hash_buckets': 0}, 'hash_buckets is 0; expected a whole number of at least 1'),
        ({'hash_buckets': 2**31}, 'hash_buckets is 2147483648; expected at most 2147483647'),
        ({'num_buckets': 3 * 10**9, 'dtype': 'int64'}, 'num_buckets is 3000000000; expected at most 2147483647'),
        ({'boundaries': [2, 1]}, 'boundaries is [2, 1]; expected numbers that grow'),
        ({'normalize': (1.0, 0.0)}, 'normalize is [1.0, 0.0]; expected (mean, standard deviation above 0)'),
        ({'embedding_size': 3}, 'embedding_size without vocabulary, '),
        ({'default': 'a'}, "default is 'a'; expected a number"),
        (
            {'out_of_vocabulary': 'eror', 'vocabulary': ['a']},
            "out_of_vocabulary is 'eror'; expected bucket, ignore, error",
        ),
    ],
)
def test_bad_entries(entries, want_error):
    with pytest.raises(UserError) as error:
        feature_description({'x': entries})
    assert str(error.value).splitlines()[0].startswith(FEATURE + want_error)


@pytest.mark.parametrize(
    ('arguments', 'want_error'),
    [
        ({'features': {}}, 'feature_description.features: names no feature'),
        ({'label': {'x': {}}}, "feature_description.features: holds the label 'x'"),
        ({'label': {'y': {}, 'z': {}}}, 'feature_description.label: 2 labels; expected one'),
        ({'crosses': {'c': {'of': ['w', 'v'], 'hash_buckets': 3}}}, "feature_description.crosses['c']: no feature 'v'"),
        ({'crosses': {'c': {'of': ['x', 'w'], 'hash_buckets': 3}}}, "feature_description.crosses['c']: 'x' is float32"),
        ({'crosses': {'c': {'of': ['w', 'w']}}}, "feature_description.crosses['c']: no hash_buckets"),
    ],
)
def test_bad_descriptions(arguments, want_error):
    features = {'x': {}, 'w': {'vocabulary': ['a']}}
    with pytest.raises(UserError) as error:
        feature_description(**({'features': features} | arguments))
    assert str(error.value).startswith(want_error)


def test_nothing_bound():
    assert feature_description() is None
