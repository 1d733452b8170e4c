"""Cases of bad input and of a model_dir that cannot be used (issue 7), through the whole program."""

import json
import shutil
import subprocess

import pytest

from estimator_trainer.compat import tf
from tests import program
from tests.conftest import MY_GIN, MY_MODEL
from tests.program import bind

pytestmark = pytest.mark.once('newest')

MODEL = """
import gin
import tensorflow as tf
from estimator_trainer.feature_description import feature_description


@gin.configurable
def data_case_model_fn(features, labels, mode, size=1):
    numbers = [tf.cast(features[it.name], tf.float32) for it in feature_description().numbers]
    weight = tf.compat.v1.get_variable('weight', [size], initializer=tf.compat.v1.zeros_initializer())
    logits = weight[0] + tf.add_n(numbers)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'logits': logits})
    loss = tf.reduce_mean(tf.square(logits - tf.cast(labels, tf.float32)))
    optimizer = tf.compat.v1.train.AdamOptimizer(0.01)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    )
"""
GIN = """
import data_case_model
import input_fns.csv
import input_fns.tfrecord
experiment.model_fn = @data_case_model_fn
experiment.train_input_fn = @csv_input_fn
experiment.max_steps = 6
feature_description.features = {'a': {}, 'b': {'default': 0.0}}
feature_description.label = {'y': {'num_buckets': 2}}
csv_input_fn.files = 'good.csv'
csv_input_fn.batch_size = 2
"""
HEADER = 'a,b,y\n'
GOOD = HEADER + '1,2,0\n3,4,1\n5,6,0\n'
CSV = {
    'good.csv': GOOD,
    'bom.csv': '\ufeff' + GOOD,
    'blank.csv': GOOD + '\n',
    'column.csv': HEADER + '1,2,0\n3,4,1,9\n5,6,0\n',
    'text.csv': HEADER + '1,2,0\n3,4,1\nlots,6,0\n',
    'break.csv': HEADER + '1,2,0\n"3\n",4,1\n',
    'missing.csv': HEADER + '1,,0\n3,,1\n5,6,0\n',
    'required.csv': HEADER + '1,2,0\n,4,1\n',
    'nan.csv': HEADER + 'nan,2,0\n',
    'bare.csv': '1,2,0\n3,4,1\n',
}
# name -> (statements, exit code, what is said)
CASES = {
    'B112 missing': (['csv_input_fn.files = ["nope.csv", "good.csv", "no.csv"]'], 2, "no file 'nope.csv' or "),
    'B112 two missing': (['csv_input_fn.files = ["nope.csv", "good.csv", "no.csv"]'], 2, '(nor 1 more: no.csv)'),
    'B112 directory': (['csv_input_fn.files = "/tmp"'], 2, "csv_input_fn.files: '/tmp' is a directory"),
    'B112 none': (['csv_input_fn.files = []'], 2, 'csv_input_fn.files: names no file'),
    'B112 glob': (['csv_input_fn.files = "*.tsv"'], 2, "csv_input_fn.files: no file '*.tsv' or "),
    'B113 byte order mark': (['csv_input_fn.files = "bom.csv"'], 0, ''),
    'B113 blank last line': (['csv_input_fn.files = "blank.csv"'], 0, ''),
    'B113 column count': (['csv_input_fn.files = "column.csv"'], 2, 'column.csv:3: 4 fields; expected 3'),
    'B113 text': (['csv_input_fn.files = "text.csv"'], 2, "text.csv:4: column 'a': 'lots'; expected a number"),
    'B113 no header': (
        ['csv_input_fn.files = "bare.csv"'], 2, "feature_description.features: no column 'a' among 1, 2, 0",
    ),
    'B113 columns named': (['csv_input_fn.files = "bare.csv"', 'csv_input_fn.columns = ["a", "b", "y"]'], 0, ''),
    'B114 line break': (['csv_input_fn.files = "break.csv"'], 2, 'break.csv:3: a quote that does not enclose a field'),
    'B114 defaults': (
        ['csv_input_fn.files = "missing.csv"'], 0, 'of 3 records some have no value, and take the default: b 2',
    ),
    'B114 required': (['csv_input_fn.files = "required.csv"'], 2, "required.csv:3: column 'a': no value; expected a"),
    'B114 nan': (['csv_input_fn.files = "nan.csv"'], 2, "nan.csv:2: column 'a': 'nan'; expected a number"),
    'B110 in training': (['experiment.train_input_fn = @tfrecord_input_fn'], 2, 'second.tfrecord: record 2: damaged: '),
    'B110 found late': (
        [
            'experiment.train_input_fn = @tfrecord_input_fn',
            'trainer.input_check_secs = 0.0',
            'experiment.max_steps = None',
        ],
        1,
        'second.tfrecord: record 2: damaged: ',
    ),
    'B110 left out': (
        ['experiment.train_input_fn = @tfrecord_input_fn', 'tfrecord_input_fn.max_bad_records = 1'], 0,
        'WARNING: skipped second.tfrecord: record 2: damaged: ',
    ),
}  # fmt: skip
RECORDS = bind('tfrecord_input_fn.files = "*.tfrecord"', 'tfrecord_input_fn.batch_size = 1')
LATE = bind('tfrecord_input_fn.repeat = False', 'tfrecord_input_fn.shuffle_buffer = 0')


def write_records(path):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(3):
            example = tf.train.Example()
            for name in 'ab':
                example.features.feature[name].float_list.value.append(number)
            example.features.feature['y'].int64_list.value.append(number % 2)
            writer.write(example.SerializeToString())


@pytest.fixture(scope='module')
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp('cases')
    (folder / 'data_case_model.py').write_text(MODEL)
    (folder / 'case.gin').write_text(GIN)
    for name, text in CSV.items():
        (folder / name).write_bytes(text.encode())
    for name in ('first', 'second'):
        write_records(folder / f'{name}.tfrecord')
    content = bytearray((folder / 'second.tfrecord').read_bytes())
    content[len(content) // 2] ^= 0xFF
    (folder / 'second.tfrecord').write_bytes(content)
    arguments = {
        name: [
            '--gin_file=case.gin',
            '--mode=train',
            f'--model_dir=M {name}',
            *(RECORDS if 'B110' in name else []),
            *(LATE if 'late' in name else []),
            *bind(*statements),
        ]
        for name, (statements, _, _) in CASES.items()
    }
    return folder, program.run_forked(arguments, folder)


@pytest.mark.parametrize('name', CASES)
def test_outcome(outcomes, name):
    folder, results = outcomes
    _, want_code, want_said = CASES[name]
    result = results[name].check(want_code)
    assert want_said in result.err + result.out
    assert 'Traceback' not in result.err
    if want_code == 2:
        assert len(result.err.splitlines()) == 1
        assert not (folder / f'M {name}').exists()


def test_what_was_learnt_before_the_bad_record_is_saved(outcomes):
    folder, _ = outcomes
    # Batches of 1: three of the first file, one of the second.
    assert tf.train.latest_checkpoint(str(folder / 'M B110 found late')).endswith('model.ckpt-4')
    summary = program.summary(folder / 'M B110 found late')
    assert (summary['status'], summary['final_step']) == ('failed', 4)
    assert 'second.tfrecord: record 2' in summary['error']


def test_what_was_left_out_is_counted(outcomes):
    folder, _ = outcomes
    summary = program.summary(folder / 'M B110 left out')
    assert summary['bad_records'] == 1  # not one in each epoch


PLAN = ['--mode=plan', '--plan_format=json']


def test_plan_tells_the_description(outcomes):
    folder, _ = outcomes
    result = program.run('--gin_file=case.gin', '--model_dir=P', *PLAN, cwd=folder).check()
    assert json.loads(result.out)['feature_description'] == {
        'features': {'a': 'float32', 'b': 'float32, default 0.0'},
        'crosses': {},
        'label': {'y': 'int64, ids below 2'},
    }


# name -> (size of the disk, exit code, steps of the checkpoints left). A checkpoint has 3 x 4 x `size` bytes.
DISKS = {'room for all': ('64m', 0, [0, 2, 4, 6]), 'room for two': ('10m', 1, [0, 2])}


@pytest.mark.parametrize('name', DISKS)
def test_full_disk(tmp_path, name):
    size, want_code, want_steps = DISKS[name]
    (tmp_path / 'data_case_model.py').write_text(MODEL)
    (tmp_path / 'case.gin').write_text(GIN)
    (tmp_path / 'good.csv').write_text(GOOD)
    (tmp_path / 'disk').mkdir()
    unshare = ['unshare', '--user', '--map-root-user', '--mount', 'bash', '-c']
    mount = f'mount -t tmpfs -o size={size} tmpfs disk'
    if shutil.which('unshare') is None or subprocess.run([*unshare, mount], cwd=tmp_path, check=False).returncode:
        pytest.skip('a file system of its own needs user namespaces')
    statements = bind('data_case_model_fn.size = 300_000', 'RunConfig.save_checkpoints_steps = 2')
    script = f'{mount} && "$@"; code=$?; cp -r disk/M left; exit $code'
    command = [
        *unshare,
        script,
        '-',
        *program.command('--gin_file=case.gin', '--mode=train', '--model_dir=disk/M', *statements),
    ]
    result = subprocess.run(
        command, cwd=tmp_path, env=program.environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == want_code, result.stderr[-3000:]
    if want_code:
        assert 'error: no space left on the device of disk/M' in result.stderr
        assert 'Traceback' not in result.stderr
    state = tf.train.get_checkpoint_state(str(tmp_path / 'left'))
    steps = [int(path.rpartition('-')[2]) for path in state.all_model_checkpoint_paths]
    assert steps == want_steps
    for step in steps:  # what is left can be read
        tf.train.load_checkpoint(str(tmp_path / 'left' / f'model.ckpt-{step}')).get_tensor('weight')


def test_another_models_checkpoint(tmp_path):
    (tmp_path / 'my_model.py').write_text(MY_MODEL)
    (tmp_path / 'my.gin').write_text(MY_GIN)
    (tmp_path / 'data_case_model.py').write_text(MODEL)
    (tmp_path / 'case.gin').write_text(GIN)
    (tmp_path / 'good.csv').write_text(GOOD)
    results = {}
    for name, arguments in {
        'mine': ['--gin_file=my.gin', '--max_steps=2', '--mode=train'],
        'other': ['--gin_file=case.gin', '--mode=train', '--max_steps=9'],
    }.items():
        results |= program.run_forked({name: [*arguments, '--model_dir=M']}, tmp_path)
    results['mine'].check(0)
    before = sorted((tmp_path / 'M').rglob('*'))
    error = results['other'].check(2).err
    assert 'M/model.ckpt-2 is not a checkpoint of this model: only in the model: weight' in error
    assert '; only in the checkpoint: dense/bias, dense/bias/Adam' in error
    assert sorted((tmp_path / 'M').rglob('*')) == before
