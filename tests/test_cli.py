"""The command line: help, mistakes and their messages, exit codes, and what is printed."""

import re
import subprocess
import sys

import pytest

import estimator_trainer
from estimator_trainer import cli, gin_config
from tests import program

pytestmark = pytest.mark.once('oldest')

# (arguments, what the one line of the message must hold)
MISTAKES = {
    'flag': (['--max_stepz=3'], ["'max_stepz'", 'max_steps']),
    'flag with modules': (['--gin_file=my.gin', '--max_stepz=3'], ["'max_stepz'", 'max_steps']),
    'flag value': (['--gin_file=my.gin', '--max_steps=ten'], ['--max_steps', 'integer', "'ten'"]),
    'mode': (['--gin_file=my.gin', '--mode=eval'], ['--mode', 'evaluate']),
    'argument': (['--gin_file=my.gin', 'other.gin'], ["'other.gin'", '--name=value']),
    'nothing': ([], ['penguins.gin, wine.gin', 'try: python -m estimator_trainer --gin_file=penguins.gin']),
    'file': (['--gin_file=penguin.gin'], ['--gin_file=penguin.gin', 'no such file', "did you mean 'penguins.gin'"]),
    'files at a comma': (['--gin_file=my.gin,b.gin'], ['repeat --gin_file']),
    'strategy': (['--gin_file=my.gin', '--strategy=miror'], ['--strategy', "'miror'", "did you mean 'mirrored'"]),
    'strategy in gin': (
        ['--gin_file=my.gin', "--gin_param=RunConfig.train_distribute = 'miror'"],
        ['RunConfig.train_distribute', "'mirrored'"],
    ),
    'replicas': (
        ['--gin_file=my.gin', '--strategy=mirrored', '--gin_param=mirrored.cpu_replicas = 0'],
        ['mirrored.cpu_replicas', 'found 0'],
    ),
    'strategy without cluster': (
        ['--gin_file=my.gin', '--strategy=parameter_server'],
        ['needs a cluster', 'TF_CONFIG'],
    ),
    'strategy of a wrong type': (
        ['--gin_file=my.gin', '--gin_param=RunConfig.train_distribute = 3'],
        ['train_distribute', '3'],
    ),
    'configurable': (
        ['--gin_file=my.gin', '--gin_param=experimnt.max_steps = 3'],
        ['--gin_param #1', "did you mean 'experiment'"],
    ),
    'configurable in a file': (
        ['--gin_file=typo.gin'],
        ['typo.gin:2: experimnt.max_steps = 3', "did you mean 'experiment'"],
    ),
    'parameter': (
        ['--gin_file=my.gin', '--gin_param=RunConfig.save_checkpoint_steps = 3'],
        ['--gin_param #1', "did you mean 'save_checkpoints_steps'"],
    ),
    'reference': (
        ['--gin_file=my.gin', '--gin_param=experiment.model_fn = @my_modl_fn'],
        ["did you mean 'my_model_fn'"],
    ),
    'macro': (
        ['--gin_file=my.gin', '--gin_param=experiment.max_steps = %STEPS'],
        ['--gin_param #1', '%STEPS is not defined'],
    ),
    'syntax': (
        ['--gin_file=my.gin', '--gin_param=experiment.max_steps'],
        ['--gin_param #1', 'configurable.parameter = value'],
    ),
    'quotes': (
        ['--gin_file=my.gin', '--gin_param=a.b = text'],
        ['--gin_param #1', "strings need quotes: a.b = 'text'"],
    ),
    'true': (['--gin_file=my.gin', '--gin_param=a.b = true'], ['did you mean a.b = True']),
    'syntax in a file': (['--gin_file=syntax.gin'], ['syntax.gin:2:', 'experiment.max_steps = [1,']),
    'module': (
        ['--gin_file=my.gin', '--import_module=my_modle'],
        ['--import_module=my_modle', "did you mean 'my_model'"],
    ),
    'module in a file': (['--gin_file=module.gin'], ['module.gin:1: import my_modle', "did you mean 'my_model'"]),
    'clash of flags': (
        ['--gin_file=my.gin', '--import_module=clash'],
        ["'model_dir'", 'estimator_trainer.cli', 'clash'],
    ),
    'model_fn not bound': (['--gin_param=experiment.max_steps = 3'], ['experiment.model_fn', '@my_model_fn']),
    'no eval_input_fn': (
        ['--gin_file=my.gin', '--gin_param=experiment.eval_input_fn = None'],
        ['eval_input_fn', '--mode=train'],
    ),
    'not a function': (
        ['--gin_file=my.gin', "--gin_param=experiment.model_fn = 'my_model_fn'"],
        ['experiment.model_fn', '@my_model_fn'],
    ),
    'steps': (['--gin_file=my.gin', "--gin_param=experiment.max_steps = '3'"], ['experiment.max_steps', "'3'"]),
    'hooks': (['--gin_file=my.gin', '--gin_param=experiment.hooks = [1]'], ['experiment.hooks', 'SessionRunHook']),
    'RunConfig': (
        [
            '--gin_file=my.gin',
            '--gin_param=RunConfig.save_checkpoints_steps = 1',
            '--gin_param=RunConfig.save_checkpoints_secs = 1',
        ],
        ['RunConfig', 'save_checkpoints_steps'],
    ),
    'RunConfig of a wrong type': (
        ['--gin_file=my.gin', "--gin_param=RunConfig.session_config = 'fast'"],
        ['--gin_param #1: RunConfig.session_config', 'ConfigProto', "'fast'"],
    ),
    'file that the input_fn does not look for': (
        [
            *('--gin_file=my.gin', '--import_module=user_module'),
            *(
                '--gin_param=experiment.eval_input_fn = @missing_file_input_fn',
                "--gin_param=missing_file_input_fn.path = 'evl.csv'",
            ),
        ],
        ['experiment.eval_input_fn', 'evl.csv', 'No such file'],
    ),
    'metric of an exporter': (
        [
            *('--gin_file=my.gin', '--gin_param=experiment.exporters = [@BestExporter()]'),
            *("--gin_param=BestExporter.metric = 'acuracy'", '--import_module=predicting'),
            '--gin_param=experiment.model_fn = @predicting_model_fn',
        ],
        ['BestExporter.metric', "'acuracy'", "did you mean 'accuracy'"],
    ),
    'metric of a hook': (
        [
            *('--gin_file=my.gin', '--gin_param=experiment.hooks = [@stop_if_no_decrease_hook]'),
            *(
                "--gin_param=stop_if_no_decrease_hook.metric_name = 'los'",
                '--gin_param=stop_if_no_decrease_hook.max_steps_without_decrease = 3',
            ),
        ],
        ['stop_if_no_decrease_hook.metric_name', "did you mean 'loss'"],
    ),
    'hook with ()': (
        ['--gin_file=my.gin', '--gin_param=experiment.hooks = [@stop_if_no_decrease_hook()]'],
        ['stop_if_no_decrease_hook', 'without ()'],
    ),
    'name of an exporter': (
        [
            *('--gin_file=my.gin', '--gin_param=experiment.exporters = [@FinalExporter()]'),
            "--gin_param=FinalExporter.name = '../x'",
        ],
        ['experiment.exporters', "'../x'"],
    ),
    'directory changed': (
        [
            *('--gin_file=my.gin', '--import_module=user_module'),
            '--gin_param=experiment.train_input_fn = @moving_input_fn',
        ],
        ['RunConfig.model_dir', 'elsewhere', 'absolute path'],
    ),
    'export to a file': (['--gin_file=my.gin', '--mode=export', '--output=x.csv'], ['--output', "'x.csv'"]),
    'trainer': (['--gin_file=my.gin', '--gin_param=trainer.grace_period = -1'], ['trainer.grace_period', '-1']),
    'endless evaluation': (
        ['--gin_file=my.gin', '--gin_param=eval/my_input_fn.repeat = True'],
        ['eval_input_fn', 'eval_steps is None'],
    ),
    'no checkpoint': (['--gin_file=my.gin', '--mode=evaluate'], ['no checkpoint in M']),
    'evaluation file': (
        ['--gin_file=penguins.gin', "--gin_param=eval/csv_input_fn.files = 'nope.csv'"],
        ['eval/csv_input_fn.files', 'nope.csv'],
    ),
    'training file': (
        ['--gin_file=penguins.gin', "--gin_param=train/csv_input_fn.files = 'nope.csv'"],
        ['train/csv_input_fn.files', 'nope.csv'],
    ),
    'batch over replicas': (
        ['--gin_file=penguins.gin', '--strategy=mirrored', '--gin_param=train/csv_input_fn.batch_size = 33'],
        ['train/csv_input_fn.batch_size', '33', '2 replicas'],
    ),
    'required': (
        ['--gin_file=my.gin', '--import_module=needy', '--gin_param=experiment.model_fn = @needy_model_fn'],
        ['needy_model_fn.units has no value'],
    ),
    'argument without default': (
        ['--gin_file=my.gin', '--import_module=needy', '--gin_param=experiment.eval_input_fn = @needy_input_fn'],
        ['needy_input_fn.path has no value'],
    ),
    'model_dir is a file': (['--gin_file=my.gin', '--model_dir=my.gin'], ['RunConfig.model_dir', 'my.gin']),
    'model_dir under a file': (['--gin_file=my.gin', '--model_dir=my.gin/M'], ['RunConfig.model_dir', 'my.gin']),
    'model_dir that nobody can make': (['--gin_file=my.gin', '--model_dir=/proc/M'], ['RunConfig.model_dir', '/proc']),
    'flag without value': (['--gin_file=my.gin', '--model_dir', '--max_steps=3'], ['--model_dir has no value']),
    'seed': (['--gin_file=my.gin', '--seed=99999999999'], ['RunConfig.tf_random_seed', '99999999999']),
    'number': (
        ['--gin_file=my.gin', "--gin_param=RunConfig.save_checkpoints_steps = '10'"],
        ['RunConfig.save_checkpoints_steps', "'10'"],
    ),
    'called model_fn': (['--gin_file=my.gin', '--gin_param=experiment.model_fn = @my_model_fn()'], ['without ()']),
    'no model_fn': (
        ['--gin_file=my.gin', '--gin_param=experiment.model_fn = @my_input_fn'],
        ['my_input_fn takes no `features`'],
    ),
    'no dataset': (
        ['--gin_file=my.gin', '--import_module=needy', '--gin_param=experiment.train_input_fn = @none_input_fn'],
        ['none_input_fn returned None', 'tf.data.Dataset'],
    ),
    'key of a dict': (['--gin_file=my.gin', '--gin_param=experiment.params = {[]: 1}'], ['--gin_param #1']),
    'module name': (['--gin_file=my.gin', '--import_module=.x'], ['--import_module=.x', "'.x'"]),
    'brackets in model_dir': (['--gin_file=my.gin', '--model_dir=M[1]'], ['RunConfig.model_dir', "'M[1]'"]),
    'local cluster': (['--gin_file=my.gin', '--local_cluster=chief:1,wroker:1'], ["'wroker'", "did you mean 'worker'"]),
    'local cluster without ps': (
        ['--gin_file=my.gin', '--local_cluster=chief:1,worker:1', '--strategy=parameter_server'],
        ["'parameter_server' needs a ps", 'chief:1, worker:1', "expected 'multi_worker_mirrored'"],
    ),
    'local cluster without chief': (['--gin_file=my.gin', '--local_cluster=ps:1'], ['exactly one chief']),
}


@pytest.fixture(scope='module')
def mistakes(tmp_path_factory):
    directory = tmp_path_factory.mktemp('mistakes')
    from tests.conftest import MY_GIN, MY_MODEL

    files = {
        'my.gin': MY_GIN,
        'my_model.py': MY_MODEL,
        'user_module.py': (program.TESTS / 'user_module.py').read_text(),
        'predicting.py': 'import gin, my_model\nimport tensorflow as tf\n'
        '@gin.configurable\ndef predicting_model_fn(features, labels, mode):\n'
        "    if mode == 'infer': return tf.estimator.EstimatorSpec(mode, predictions=features['x'])\n"
        '    return my_model.my_model_fn(features, labels, mode)\n',
        'typo.gin': 'import my_model\nexperimnt.max_steps = 3\n',
        'syntax.gin': 'import my_model\nexperiment.max_steps = [1,\n',
        'module.gin': 'import my_modle\n',
        'clash.py': "from absl import flags\nflags.DEFINE_string('model_dir', '', '')\n",
        'needy.py': 'import gin\n'
        '@gin.configurable\ndef needy_model_fn(features, labels, mode, units=gin.REQUIRED): pass\n'
        '@gin.configurable\ndef needy_input_fn(path): pass\n'
        '@gin.configurable\ndef none_input_fn(): pass\n',
    }
    for name, text in files.items():
        (directory / name).write_text(text)
    cases = {name: ['--model_dir=M', *arguments] if arguments else [] for name, (arguments, _) in MISTAKES.items()}
    results = program.run_forked(cases, directory)
    return results, sorted(set(path.name for path in directory.iterdir()) - set(files) - {'__pycache__', 'elsewhere'})


@pytest.mark.parametrize('name', MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(mistakes, name):
    result = mistakes[0][name].check(want_code=2)
    lines = [line for line in result.err.splitlines() if 'WARNING' not in line]
    assert len(lines) == 1, result.err
    assert lines[0].startswith('estimator_trainer: error: ')
    for want_text in MISTAKES[name][1]:
        assert want_text in lines[0]


def test_mistakes_leave_nothing_behind(mistakes):
    assert mistakes[1] == []


def test_help_lists_every_flag_with_its_binding(tmp_path):
    result = program.run('--help', cwd=tmp_path).check()
    assert result.err == ''
    want_flags = ['gin_file', 'gin_param', 'gin_search_path', 'import_module', 'mode', 'local_cluster']
    for flag in want_flags:
        assert f'--{flag}' in result.out
    text = ' '.join(result.out.split())
    for flag in cli.BINDING_FLAGS:
        assert re.search(rf'--{flag.name}: .*?Binds {re.escape(flag.binding)}\.', text), flag


@pytest.mark.parametrize('arguments', [['--help'], [], ['--max_stepz=3'], ['--gin_file=penguins.gin', '--strategy=no']])
def test_help_and_early_mistakes_do_not_wait_for_tensorflow(tmp_path, arguments):
    process = subprocess.run(
        [sys.executable, '-X', 'importtime', '-m', 'estimator_trainer', *arguments],
        cwd=tmp_path,
        env=program.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    imported = re.findall(r'\| +([\w.]+)$', process.stderr, re.MULTILINE)
    assert 'estimator_trainer.cli' in imported
    assert not {'tensorflow', 'numpy'} & set(imported)


def test_a_local_cluster_in_a_cluster_is_a_mistake(user_project):
    config = '{"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "chief", "index": 0}}'
    arguments = ['--gin_file=my.gin', '--local_cluster=chief:1,ps:1', '--model_dir=M']
    assert 'unset TF_CONFIG' in program.run(*arguments, cwd=user_project, TF_CONFIG=config).check(2).err
    assert not (user_project / 'M').exists()


def test_version_in_help(tmp_path):
    assert estimator_trainer.__version__ in program.run('--help', cwd=tmp_path).out


def test_the_configs_that_ship_are_found():
    assert {'digits.gin', 'penguins.gin', 'wine.gin'} < set(gin_config.shipped_configs())


def test_broken_module_keeps_its_traceback(user_project):
    (user_project / 'broken.py').write_text('import json\nimport surely_not_installed\n')
    result = program.run('--gin_file=my.gin', '--import_module=broken', '--model_dir=M', cwd=user_project).check(1)
    assert 'broken.py", line 2' in result.err
    assert "No module named 'surely_not_installed'" in result.err
    assert not (user_project / 'M').exists()


def test_user_modules_may_define_flags(user_project):
    (user_project / 'flagged.py').write_text(
        "from absl import flags\nimport gin\nimport my_model\nflags.DEFINE_list('words', [], '')\n"
        "flags.DEFINE_float('rate', 1.0, '')\n"
        '@gin.configurable\ndef flagged_model_fn(features, labels, mode):\n'
        "    print('flags', flags.FLAGS.words, flags.FLAGS.rate)\n"
        '    return my_model.my_model_fn(features, labels, mode)\n'
    )
    result = program.run(
        *('--words=a,b', '--rate', '0.5', '--gin_file=my.gin', '--import_module=flagged', '--max_steps=3'),
        *('--gin_param=experiment.model_fn = @flagged_model_fn', '--model_dir=M'),
        cwd=user_project,
    ).check()
    assert "flags ['a', 'b'] 0.5" in result.out


def test_list_in_gin_param_is_not_split_at_commas(user_project):
    (user_project / 'lister.py').write_text(
        "import gin\n@gin.configurable\ndef lister(files):\n    print('files', files)\n    return {'files': files}\n"
    )
    result = program.run(
        *('--gin_file=my.gin', '--import_module=lister', '--max_steps=1', '--model_dir=M'),
        *("--gin_param=lister.files = ['a', 'b']", '--gin_param=experiment.params = @lister()'),
        cwd=user_project,
    ).check()
    assert "files ['a', 'b']" in result.out


def test_flags_win_over_params_and_params_over_files(user_project):
    (user_project / 'later.gin').write_text('experiment.max_steps = 5\n')
    cases = {
        'file': ['--gin_file=my.gin', '--gin_file=later.gin'],
        'param': ['--gin_file=my.gin', '--gin_file=later.gin', '--gin_param=experiment.max_steps = 4'],
        'flag': ['--max_steps=3', '--gin_file=my.gin', '--gin_param=experiment.max_steps = 4'],
    }
    results = program.run_forked({name: [*case, f'--model_dir={name}'] for name, case in cases.items()}, user_project)
    for name, want_step in {'file': 5, 'param': 4, 'flag': 3}.items():
        results[name].check()
        assert program.summary(user_project / name)['final_step'] == want_step
