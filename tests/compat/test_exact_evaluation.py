"""An evaluation on several replicas counts each example once, or says why it could not."""

import json

import pytest

from tests.compat import fresh


@pytest.fixture(scope='module')
def found():
    process = fresh.start('evaluation_cases.py', 'counts', 'twenty_times', 'effects', CUDA_VISIBLE_DEVICES='')
    return json.loads(fresh.last_line(process))


def want(examples, first=0):
    """The count and the mean of the numbers from `first` on."""
    return [examples, first + (examples - 1) / 2]


@pytest.mark.parametrize(
    ('name', 'want_counts'),
    [
        ('12 on 0', want(12)),
        ('13 on 2', want(13)),  # the last batch is odd
        ('1 on 2', want(1)),
        ('13 on 3', want(13)),
        ('5 on 3', want(5)),  # fewer batches than replicas
        ('2 steps of 1 on 2', want(4)),
        ('all kinds on 2', want(5, first=1)),
    ],
)
def test_every_example_counts_once(found, name, want_counts):
    assert found['counts'][name] == want_counts


def test_that_is_no_chance(found):
    assert found['twenty_times'] == [want(12)] * 20


@pytest.mark.parametrize(
    ('name', 'want_text'),
    [
        ('constant', "a batch without examples changes metric 'constant' from "),
        ('all', "a batch without examples changes metric 'all' from "),
        ('mean of means', "a batch without examples changes metric 'mean of means' from "),
        ('of its own', "metric 'of its own' does not sum up replicas: it is "),
        ('assertion', 'with a batch without examples: InvalidArgumentError: '),
        ('static', 'with a batch without examples: TypeError: '),
        ('unknown rank', 'ValueError: there is no empty TensorSpec(shape=<unknown>'),
        ('no batch dimension', 'ValueError: the batches have no batch dimension'),
    ],
)
def test_what_an_empty_batch_changes(found, name, want_text):
    assert want_text in found['effects'][name]
    assert '\n' not in found['effects'][name]


@pytest.mark.parametrize('name', ['nothing wrong', 'all kinds', 'static batch'])
def test_what_an_empty_batch_does_not_change(found, name):
    assert found['effects'][name] is None
