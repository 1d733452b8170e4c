"""What is found out of the records of an input, before training and after an error of TensorFlow."""

import itertools

import pytest

from estimator_trainer import input_checks
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError

TRAIN, EVAL = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL


class Records:
    """An input of records, each None where it is good, else what is wrong with it."""

    files = 'a.csv'

    def __init__(self, *records, max_bad_records=0):
        self.max_bad_records = max_bad_records
        self._records = records

    def examine(self):
        return iter(self._records)

    def remarks(self):
        return [f'{self.files} was seen']


class Endless(Records):
    def examine(self):
        return itertools.repeat(None)


def collected(*checks, mode=TRAIN):
    with input_checks.collecting(mode):
        for check in checks:
            assert input_checks.register(check) == mode


@pytest.mark.parametrize(
    ('records', 'max_bad_records', 'want_mistake'),
    [
        ([None, None], 0, None),
        ([None, 'a.csv:2: bad'], 0, 'a.csv:2: bad'),
        (['a.csv:1: bad', None, 'a.csv:3: bad'], 0, 'a.csv:1: bad (and 1 more bad record)'),
        ([None, *'abcd'], 0, 'a (and 3 more bad records)'),
        ([None, 'a.csv:2: bad'], 1, None),
        ([None, *'abcd'], 3, 'a (and 3 more bad records); max_bad_records = 3 allows no more'),
        ([], 0, 'a.csv: no record'),
        (['a.csv:1: bad'], 1, 'a.csv:1: bad; no record is good'),
    ],
)
def test_examine(records, max_bad_records, want_mistake):
    collected(Records(*records, max_bad_records=max_bad_records))
    found = input_checks.examine(TRAIN, 10.0)
    assert (found.mistake, found.complete) == (want_mistake, True)
    assert list(found.remarks) == ([] if want_mistake else ['a.csv was seen'])


def test_the_first_of_several_inputs_with_a_mistake_is_named():
    collected(Records(None), Records('x: bad', None), Records('y: bad', None))
    assert input_checks.examine(TRAIN, 10.0).mistake == 'x: bad'


def test_each_mode_has_its_own_and_a_new_call_replaces_them():
    collected(Records('x: bad', None))
    collected(Records(None), mode=EVAL)
    assert input_checks.examine(EVAL, 10.0).mistake is None
    assert input_checks.examine(TRAIN, 10.0).mistake == 'x: bad'
    collected(Records(None))
    assert input_checks.examine(TRAIN, 10.0).mistake is None


def test_there_is_a_deadline():
    collected(Endless())
    found = input_checks.examine(TRAIN, 0.05)
    assert (found.mistake, found.complete) == (None, False)


def input_error(op=None):
    return tf.errors.InvalidArgumentError(None, op, 'bad cell\n\t [[{{node IteratorGetNext}}]]')


@pytest.mark.parametrize(
    ('check', 'want'),
    [
        (Records(None, 'a.csv:2: bad'), 'a.csv:2: bad'),
        (Records(None), 'a.csv: InvalidArgumentError: bad cell; no record is known to be bad'),
    ],
)
def test_an_error_of_the_input_names_the_record_or_the_files(check, want):
    collected(check)
    with pytest.raises(TrainerError) as error, input_checks.explained(TRAIN):
        raise input_error()
    assert str(error.value) == want


@pytest.mark.parametrize(
    'error',
    [tf.errors.InvalidArgumentError(None, None, 'Nan in a layer'), KeyError('x')],
    ids=lambda error: type(error).__name__,
)
def test_another_error_stays_what_it_is(error):
    collected(Records('a.csv:1: bad', None))
    with pytest.raises(type(error)) as raised, input_checks.explained(TRAIN):
        raise error
    assert raised.value is error


def test_an_error_of_an_input_without_checks_stays_what_it_is():
    collected()
    with pytest.raises(tf.errors.InvalidArgumentError), input_checks.explained(TRAIN):
        raise input_error()


def test_what_python_code_in_the_input_said_is_told_until_the_input_is_made_anew():
    collected(Records(None))
    with pytest.raises(TrainerError, match=r'^b\.csv:7: too many$'), input_checks.explained(TRAIN):
        input_checks.fail(TRAIN, 'b.csv:7: too many')
        raise input_error()
    collected(Records(None))
    with pytest.raises(TrainerError, match='no record is known to be bad'), input_checks.explained(TRAIN):
        raise input_error()


def test_skipped_records_are_told_once_and_not_all():
    skipped, said = input_checks.Skipped(), []
    skipped.say = said.append
    for number in [*range(13), *range(13)]:
        skipped.add(f'a.csv:{number}')
    assert len(skipped.places) == 13
    assert said[:10] == [f'skipped a.csv:{number}' for number in range(10)]
    assert said[10:] == ['skipped further bad records; their number is told at the end']
