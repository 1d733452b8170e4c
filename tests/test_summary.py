"""The summary's file: JSON that every reader takes, and never a part of it."""

import json
import math
import os
import pathlib

import pytest

from estimator_trainer.summary import DONE, RUNNING, Summary


def written(summary, directory):
    path = directory / 'run' / 'summary.json'
    summary.write(str(path))

    def refuse(constant):
        raise AssertionError(f'{constant} is not JSON')

    return json.loads(path.read_text(), parse_constant=refuse)


def test_what_is_not_finite_becomes_null(tmp_path):
    metrics = {'loss': math.nan, 'rate': math.inf, 'low': -math.inf, 'accuracy': 0.5, 'count': 3}
    evaluation = {'name': 'eval', 'step': 1, 'metrics': metrics, 'examples': None}
    summary = written(Summary('train', evaluations=[evaluation]), tmp_path)
    assert summary['evaluations'][0]['metrics'] == {
        'loss': None,
        'rate': None,
        'low': None,
        'accuracy': 0.5,
        'count': 3,
    }
    assert math.isnan(metrics['loss'])


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    summary = Summary('train')
    assert written(summary, tmp_path)['status'] == RUNNING
    summary.status = DONE
    assert written(summary, tmp_path)['status'] == DONE
    assert os.listdir(tmp_path / 'run') == ['summary.json']

    # The old text stays until the new one is whole.
    def break_off(path, text):
        pathlib.Path(path).write_text(text[:9])
        raise OSError

    monkeypatch.setattr('estimator_trainer.files.write', break_off)
    with pytest.raises(OSError):
        summary.write(str(tmp_path / 'run' / 'summary.json'))
    assert json.loads((tmp_path / 'run' / 'summary.json').read_text())['status'] == DONE


@pytest.mark.parametrize(
    ('first_step', 'final_step', 'seconds', 'want_steps', 'want_rate'),
    [
        (None, None, 0.0, 0, None),
        (100, 100, 0.0, 0, None),
        (100, 100, 2.0, 0, None),
        (0, 10, 0.0, 10, None),
        (100, 110, 2.0, 10, 5.0),
    ],
)
def test_steps_per_second(tmp_path, first_step, final_step, seconds, want_steps, want_rate):
    summary = Summary('train', first_step=first_step, final_step=final_step, seconds=seconds)
    assert (summary.steps, summary.steps_per_second) == (want_steps, want_rate)
    assert written(summary, tmp_path)['steps_per_second'] == want_rate
