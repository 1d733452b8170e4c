"""memory_input_fn with real pandas.DataFrames."""

import gin
import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from input_fns.memory import memory_input_fn

pandas = pytest.importorskip('pandas')
pytestmark = pytest.mark.usefixtures('clean_gin')
DESCRIBED = {
    'mass': {'default': -1.0},
    'age': {'dtype': 'int64', 'default': 0},
    'kind': {'dtype': 'string', 'default': 'none'},
}


def frame(**columns):
    """Returns a table of three rows whose index does not begin at 0."""
    good = {'mass': [1.5, np.nan, 3], 'age': [1, 2, 3], 'kind': ['a', None, 'c'], 'label': ['x', 'y', 'x']}
    return pandas.DataFrame(good | columns, index=[7, 8, 9])


def read(data):
    gin.bind_parameter('feature_description.features', DESCRIBED)
    gin.bind_parameter('feature_description.label', {'label': {'vocabulary': ['x', 'y']}})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = memory_input_fn(data, batch_size=3, shuffle_buffer=0)
        features, labels = session.run(tf.compat.v1.data.make_one_shot_iterator(dataset).get_next())
    return {name: values.tolist() for name, values in features.items()} | {'label': labels.tolist()}


@pytest.mark.parametrize(
    'columns',
    [
        {},
        {'kind': pandas.array(['a', None, 'c'], dtype='string')},
        {'kind': pandas.Categorical(['a', None, 'c'])},
        {'mass': pandas.array([1.5, None, 3], dtype='Float64')},
        {'age': pandas.array([1, 2, 3], dtype='Int32')},
        {'label': pandas.Categorical(['x', 'y', 'x'], categories=['y', 'x'])},
    ],
    ids=lambda columns: ', '.join(columns) or 'plain',
)
def test_columns_of_pandas(columns):
    want = {'mass': [1.5, -1.0, 3.0], 'age': [1, 2, 3], 'kind': [b'a', b'none', b'c'], 'label': [0, 1, 0]}
    assert read(frame(**columns)) == want


@pytest.mark.parametrize(
    ('columns', 'want_error'),
    [
        ({'label': ['x', 'z', 'x']}, "memory_input_fn.data: column 'label', row 1: 'z'; expected one of x, y"),
        ({'age': [1.5, 2, 3]}, "memory_input_fn.data: column 'age', row 0: 1.5; expected a whole number"),
        ({'age': pandas.to_datetime(['2020-01-01'] * 3)}, "memory_input_fn.data: column 'age'"),
    ],
)
def test_mistakes(columns, want_error):
    with pytest.raises(UserError) as error:
        read(frame(**columns))
    assert str(error.value).startswith(want_error)
