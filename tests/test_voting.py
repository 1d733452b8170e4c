"""A dataset that tells one round ahead that it ends."""

import pytest

from estimator_trainer import voting
from estimator_trainer.compat import tf
from estimator_trainer.topology import Task

TASKS = (Task('chief', 0), Task('worker', 0), Task('worker', 1))


def dataset(count):
    def batch(n):
        return {
            'dense': tf.fill([2, 3], n),
            'sparse': tf.sparse.from_dense(tf.fill([2, 2], n)),
            'ragged': tf.RaggedTensor.from_row_lengths(tf.fill([3], n), [1, 2]),
        }

    return tf.data.Dataset.range(1, count + 1).map(lambda n: (batch(n), tf.fill([2], n)))


def read(data, at_most=100):
    """Returns, for each element, the number in its batch, the votes whether the input ends, and whether it is new."""
    rows = []
    for features, labels in data.take(at_most):
        ends, is_new = features[voting._NEWS]
        batch = features[voting._FEATURES]
        number = int(labels[0])
        assert {int(n) for n in tf.reshape(batch['dense'], [-1])} == {number}
        assert tf.reduce_all(tf.sparse.to_dense(batch['sparse']) == number)
        assert batch['ragged'].to_list() == [[number], [number, number]]
        rows.append((number, [int(vote) for vote in ends], bool(is_new)))
    return rows


GOES_ON, ENDS = [0, 0, 0], [0, 1, 0]


@pytest.mark.parametrize(
    ('count', 'replicas', 'want'),
    [
        (3, 1, [GOES_ON, GOES_ON, ENDS]),
        (1, 1, [ENDS]),
        (4, 2, [GOES_ON, GOES_ON, ENDS, ENDS]),
        # After the first round there is a batch for one replica only.
        (3, 2, [GOES_ON, ENDS, ENDS]),
        (0, 1, []),
    ],
)
def test_an_input_tells_one_round_ahead_that_it_ends(count, replicas, want):
    group = voting.Group(TASKS, 1, replicas, pad=False)
    assert read(group.wrap(dataset(count))) == [(n + 1, votes, True) for n, votes in enumerate(want)]


def test_an_input_that_is_read_again():
    group = voting.Group(TASKS, 1, 1, pad=True)
    want = [(1, GOES_ON, True), (2, ENDS, True), (1, ENDS, False), (2, ENDS, False), (1, ENDS, False)]
    assert read(group.wrap(dataset(2)), at_most=5) == want


def test_features_without_labels_come_back_as_they_were():
    group = voting.Group(TASKS, 0, 1, pad=False)
    for data in (tf.data.Dataset.from_tensors({'x': [1.0]}), tf.data.Dataset.from_tensors([1.0])):
        (element,) = group.wrap(data)
        tf.nest.assert_same_structure(element[voting._FEATURES], data.element_spec)


def test_what_no_group_has_wrapped_is_left_alone():
    assert voting.unwrap({'x': 1}) == ({'x': 1}, True)
    assert voting.unwrap(3) == (3, True)
