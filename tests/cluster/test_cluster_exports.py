"""A cluster makes one final export, whoever evaluates, and every task ends well."""

import shutil

import pytest

from estimator_trainer.testing import LocalCluster
from tests import program
from tests.line_module import LINE_GIN

pytestmark = pytest.mark.once('oldest')

EXPORTERS = '--gin_param=experiment.exporters = [@FinalExporter(), @LatestExporter()]'


@pytest.mark.parametrize(
    ('tasks', 'mode', 'want_latest'),
    [
        ('chief:1,worker:1,ps:1', 'train_and_evaluate', 1),
        ('chief:1,worker:1,ps:1,evaluator:1', 'train_and_evaluate', 1),
        ('chief:1,ps:1', 'train', 0),
    ],
)
def test_one_final_export(tmp_path, tasks, mode, want_latest):
    shutil.copy(program.TESTS / 'line_module.py', tmp_path)
    (tmp_path / 'line.gin').write_text(LINE_GIN)
    arguments = ['--gin_file=line.gin', f'--mode={mode}', EXPORTERS]
    arguments += ['--gin_param=RunConfig.save_checkpoints_steps = 1000']
    with LocalCluster(tasks, *arguments, model_dir='M', cwd=tmp_path) as cluster:
        result = cluster.finish().check()
    assert set(result.exit_codes.values()) == {0}
    summary = program.summary(tmp_path / 'M')
    assert summary['status'] == 'done'
    exports = {name: [one for one in summary['exports'] if one['name'] == name] for name in ('final', 'latest')}
    (final,) = exports['final']
    assert final['step'] == summary['final_step']
    assert [str(path) for path in (tmp_path / 'M' / 'export' / 'final').iterdir()] == [str(tmp_path / final['path'])]
    assert (tmp_path / final['path'] / 'saved_model.pb').exists()
    # An evaluator may also meet the checkpoint of step 0.
    assert [one['step'] for one in exports['latest']][-1:] == [summary['final_step']] * want_latest
