"""Cases of configuration (issue 3): what people expect of gin and write into it, through the whole program."""

import ast
import inspect
import json

import pytest

from estimator_trainer import gin_config
from estimator_trainer.errors import UserError
from estimator_trainer.experiment import experiment
from estimator_trainer.run_config import RunConfig
from estimator_trainer.settings import trainer
from estimator_trainer.topology import Topology
from tests import program
from tests.conftest import MY_GIN, MY_MODEL
from tests.program import bind

pytestmark = pytest.mark.once('oldest')

MY = ['--gin_file=my.gin', '--import_module=case_module']
FILES = {
    'my_model.py': MY_MODEL,
    'my.gin': MY_GIN,
    'case_module.py': (program.TESTS / 'case_module.py').read_text(),
    'lazy_model.py': 'import gin\n@gin.configurable\ndef lazy_model_rate(rate=1, more=2): return rate, more\n',
    'lazy_input.py': 'import gin\n@gin.configurable\ndef lazy_input_rate(rate=0): return rate\n',
    'package/__init__.py': '',
    'package/models.py': 'import gin\n@gin.configurable\ndef conv_model_fn(features, labels, mode): pass\n',
    'raises.py': 'import json\n1 / 0\n',
    'misspelt.py': 'x = = 1\n',
    'exits.py': 'import sys\nsys.exit(0)\n',
    'five.gin': 'experiment.max_steps = 5\n',
    'six.gin': 'experiment.max_steps = 6\n',
    'macro.gin': 'steps = 3\nexperiment.max_steps = %steps\n',
    'block.gin': 'experiment:\n    eval_steps = 1\n    max_steps = 4\n',
    'including.gin': "experiment.max_steps = 4\ninclude 'five.gin'\n",
    'no_import.gin': MY_GIN.replace('import my_model\n', ''),
    'missing.gin': '\nimport package.modles\n',
    'star.gin': '\nfrom package.models import *\n',
    'wrong.gin': "\nexperiment.eval_steps = '3'\n",
    'strategy.gin': '\nRunConfig.train_distribute = [@MirroredStrategy()]\n',
    'undefined.gin': 'import case_module\n\nrate_model_fn.learning_rate = [%LR]\n',
    'undefined_included.gin': "include 'undefined.gin'\n",
}

# name -> (arguments, what the one line of the message must hold)
MISTAKES = {
    # B87
    'module not imported': (
        ['--gin_file=no_import.gin'],
        ['no_import.gin:1', '@my_model_fn', 'add `import <module>` at the top of the gin file', '--import_module='],
    ),
    'package not imported': (
        [*MY, *bind('experiment.params = {"f": [@package.models.conv_model_fn]}')],
        ['add `import package.models`', '--import_module=package.models'],
    ),
    'parameter of a module not imported': ([*MY, *bind('a/conv_model_fn.units = 3')], ['add `import <module>`']),
    'not imported, but near to another name': (
        [*MY, *bind('lazy_rate.rate = 1')],
        ["'lazy_rate'", 'did you mean', 'add `import <module>`'],
    ),
    'imported in the model_fn only': (
        [*MY, *bind('experiment.model_fn = @lazy_model_fn', 'lazy_model_rate.rate = 2')],
        ["--gin_param #2: lazy_model_rate.rate = 2: No configurable matching 'lazy_model_rate'", 'add `import'],
    ),
    # B88
    'no such module': (
        ['--gin_file=missing.gin'],
        ["missing.gin:2: import package.modles: no module named 'package.modles'", 'current directory (', 'PYTHON'],
    ),
    'no such package': ([*MY, *bind('import nowhere.models')], ["--gin_param #1", "no module named 'nowhere'"]),
    'star': (['--gin_file=star.gin'], ['star.gin:2: from package.models import *', 'gin supports only `import a.b`']),
    # B98
    'macro': (['--gin_file=undefined.gin'], ['undefined.gin:3', 'macro %LR is not defined']),
    'macro in an included file': (['--gin_file=undefined_included.gin'], ['undefined.gin:3', '%LR is not defined']),
    # B102; the rest of the kind is in test_types.
    'type': ([*MY, '--gin_file=wrong.gin'], ["wrong.gin:2: experiment.eval_steps = '3': expected a whole number"]),
    'strategy': ([*MY, '--gin_file=strategy.gin'], ['strategy.gin:2', 'RunConfig.train_distribute', 'mirrored']),
}  # fmt: skip

# B88: name -> what stderr must hold. What is wrong within a module is its own error, exit code 1.
BROKEN_MODULES = {
    'raises': ['raises.py", line 2', 'ZeroDivisionError'],
    'misspelt': ['misspelt.py", line 1', 'SyntaxError'],
    'exits': ['error: user code called sys.exit(0)'],
}

# B92, B94: gin text that arrives as Python reads it.
VALUES = [
    "['a', 'b']",
    "['a,b', 'c d', 'e=f']",
    "['#1', '%m', '@f', ';']",
    "'$HOME'",
    "'/tmp/x'",
    '"it\'s"',
    "''",
    "'a' 'b'",
    "[\n    'a',\n    'b',\n]",
    '{"x": (1, -2.5e-3, None, True)}',
    '0.1',
    '[]',
]

# B95: name -> (arguments, the winning value of max_steps and its place, the place and the value that lost)
PRECEDENCE = {
    'files in order': (['--gin_file=five.gin', '--gin_file=six.gin'], ('6', 'six.gin:1'), ('five.gin:1', '5')),
    'files turned round': (['--gin_file=six.gin', '--gin_file=five.gin'], ('5', 'five.gin:1'), ('six.gin:1', '6')),
    'param first on the line': (
        [*bind('experiment.max_steps = 9'), '--gin_file=five.gin'], ('9', '--gin_param #1'), ('five.gin:1', '5')
    ),
    'params in order, by any name': (
        bind('experiment.max_steps = 9', 'estimator_trainer.experiment.max_steps = 8'),
        ('8', '--gin_param #2'), ('--gin_param #1', '9'),
    ),
    'macro': (['--gin_file=macro.gin', *bind('steps = 4')], ('%steps', 'macro.gin:2'), ('my.gin:6', '200')),
    'block': (['--gin_file=block.gin'], ('4', 'block.gin:3'), ('my.gin:6', '200')),
    'included file': (['--gin_file=including.gin'], ('5', 'five.gin:1'), ('including.gin:1', '4')),
    'flag': (
        ['--max_steps=7', '--gin_file=six.gin', *bind('experiment.max_steps = 9')],
        ('7', '--max_steps'), ('--gin_param #1', '9'),
    ),
}  # fmt: skip

HELPED = 'experiment.model_fn = @helped_model_fn'
# B97: name -> (statements, those of them that nothing uses)
UNUSED = {
    'scope that is never entered': (['evl/my_input_fn.batch_size = 4'], [1]),
    'scope in which the outer binding is hidden': (
        ['my_input_fn.repeat = True', 'experiment.train_input_fn = @t/my_input_fn', 't/my_input_fn.repeat = True'],
        [1],
    ),
    'Keras class that is used directly': ([HELPED, "Dense.activation = 'relu'"], [2]),
    'what the caller gives': ([HELPED, 'helper.only = 1'], [2]),
    'what nobody calls': (
        [
            'helper.rate = 3', 'lost = 3', 'AdamOptimizer.learning_rate = 3.0', "BestExporter.metric = 'loss'",
            'mirrored.cpu_replicas = 3',
        ],
        [1, 2, 3, 4, 5],
    ),
    'macros of what is not used': (['helper.rate = %lost', 'lost = %more', 'more = 3'], [1, 2, 3]),
    'one mode': ([HELPED, 'train/helper.rate = 1', 'tran/helper.rate = 1'], [3]),
    'all used': (
        [
            HELPED, 'train/helper.rate = 1', 'eval/helper.rate = %rate', 'rate = 2', 'infer/helper.rate = 3',
            'experiment.exporters = [@FinalExporter()]', 'FinalExporter.as_text = True',
            'experiment.hooks = [@helping_hook]', 'helping_hook.every = 5',
            'predict/my_input_fn.batch_size = 3', 'predict/my_input_fn.repeat = False',
            'experiment.predict_input_fn = @predict/my_input_fn',
        ],
        [],
    ),
    # Nothing in the experiment asks for predictions or an export, but --mode=predict and export may be next.
    'all used by a model that may be exported': ([HELPED, 'infer/helper.rate = 3'], []),
}  # fmt: skip

STRICT = ['Keras class that is used directly', 'macros of what is not used', 'all used']

# B100: name -> (arguments, what the user's code prints)
LAZY = {
    'model_fn': (['--strategy=mirrored', *bind('experiment.model_fn = @lazy_model_fn')], 'lazy (1, 2)'),
    'model_fn, bound': (
        bind('import lazy_model', 'experiment.model_fn = @lazy_model_fn', 'lazy_model_rate.rate = 7'), 'lazy (7, 2)'
    ),
    'input_fn': (bind('experiment.train_input_fn = @lazy_input_fn'), 'lazy 0'),
    'hook': (bind('experiment.hooks = [@LazyHook()]'), "lazy (3, 4) {'late': 5}"),
}  # fmt: skip

CONSTANTS = [
    'experiment.model_fn = @rate_model_fn', 'rate_model_fn.learning_rate = %RATE', 'rate_model_fn.names = [%NAMES, %m]',
    'm = %case_module.RATE', 'import case_module',
]  # fmt: skip


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> Result); what is not to write anything has M as its model_dir."""
    directory = tmp_path_factory.mktemp('gin_cases')
    for name, text in FILES.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    plan = ['--mode=plan', '--plan_format=json', '--model_dir=M']
    values = {f'v{number}': value for number, value in enumerate(VALUES)}
    shown = ['experiment.params = @show()', *(f'show.{name} = {value}' for name, value in values.items())]
    (directory / 'shown.gin').write_text('\n'.join(shown))
    cases = {f'mistake {name}': ['--model_dir=M', *arguments] for name, (arguments, _) in MISTAKES.items()}
    cases |= {f'broken {name}': [*MY, '--model_dir=M', f'--import_module={name}'] for name in BROKEN_MODULES}
    cases |= {'values of flags': [*MY, *plan, *bind(*shown)], 'values of a file': [*MY, *plan, '--gin_file=shown.gin']}
    for name, (statements, _) in UNUSED.items():
        cases[f'unused {name}'] = [*MY, *plan, *bind(*statements)]
    cases |= {f'strict {name}': [*cases[f'unused {name}'], '--strict_unused'] for name in STRICT}
    for name, (arguments, _, _) in PRECEDENCE.items():
        cases[f'precedence {name}'] = [*plan, '--gin_file=my.gin', *arguments]
    writing = {f'overriding {name}': ['--gin_file=my.gin', *PRECEDENCE[name][0]] for name in ('macro', 'flag')}
    writing |= {f'lazy {name}': [*MY, '--max_steps=1', *arguments] for name, (arguments, _) in LAZY.items()}
    writing['unused warning'] = [*MY, '--max_steps=1', *bind('evl/my_input_fn.batch_size = 4')]
    writing['constants'] = ['--gin_file=my.gin', '--max_steps=1', *bind(*CONSTANTS)]
    cases |= {name: [*arguments, f'--model_dir={name}'] for name, arguments in writing.items()}
    for name in ('config', 'operative_config'):
        cases[f'constants of {name}'] = [f'--gin_file=constants/{name}.gin', f'--model_dir={name}']
    return directory, program.run_forked(cases, directory)


def test_mistakes_and_plans_write_nothing(runs):
    assert not (runs[0] / 'M').exists()


@pytest.mark.parametrize('name', MISTAKES)
def test_a_mistake_is_one_line_with_its_place(runs, name):
    err = runs[1][f'mistake {name}'].check(2).err
    assert err.count('\n') == 1, err
    assert err.startswith('estimator_trainer: error: ')
    for want_text in MISTAKES[name][1]:
        assert want_text in err


@pytest.mark.parametrize('name', BROKEN_MODULES)
def test_a_broken_module_tells_its_own_error(runs, name):
    err = runs[1][f'broken {name}'].check(1).err
    for want_text in BROKEN_MODULES[name]:
        assert want_text in err


@pytest.mark.parametrize('name', ['values of flags', 'values of a file'])
def test_values_arrive_as_python_reads_them(runs, name):
    out = runs[1][name].check().out
    want_values = {f'v{number}': ast.literal_eval(value) for number, value in enumerate(VALUES)}
    assert out.startswith(f'shown {want_values!r}\n')


@pytest.mark.parametrize('name', PRECEDENCE)
def test_which_value_wins_and_over_what(runs, name):
    _, want, want_lost = PRECEDENCE[name]
    bindings = json.loads(runs[1][f'precedence {name}'].check().out)['config']
    (found,) = [binding for binding in bindings if binding['binding'] == 'experiment.max_steps']
    assert (found['value'], found['where']) == want
    assert (found['overridden'][0]['where'], found['overridden'][0]['value']) == want_lost


@pytest.mark.parametrize(('name', 'want_step'), [('macro', 4), ('flag', 7)])
def test_a_run_says_what_was_overridden(runs, name, want_step):
    _, (value, where), (lost_where, lost) = PRECEDENCE[name]
    out = runs[1][f'overriding {name}'].check().out
    assert f'  override   experiment.max_steps = {value} ({where}; {lost_where} said {lost})\n' in out
    assert program.summary(runs[0] / f'overriding {name}')['final_step'] == want_step


@pytest.mark.parametrize('name', UNUSED)
def test_a_binding_that_nothing_uses(runs, name):
    statements, unused = UNUSED[name]
    result = runs[1][f'unused {name}'].check()
    want_lines = [f'--gin_param #{number}: {statements[number - 1]}: nothing uses this binding' for number in unused]
    warnings = json.loads(result.out)['warnings']
    assert len(warnings) == result.err.count('\n') == len(want_lines), result.err
    for warning, want_line in zip(warnings, want_lines, strict=True):
        assert warning.startswith(want_line)
        assert f'WARNING: {want_line}' in result.err
    if name in STRICT:
        strict = runs[1][f'strict {name}'].check(2 if unused else 0)
        assert strict.err.count('\n') == bool(unused)
        for want_line in want_lines:
            assert want_line in strict.err


def test_a_binding_that_nothing_uses_is_told_in_the_summary(runs):
    (warning,) = program.summary(runs[0] / 'unused warning')['warnings']
    assert warning.startswith('--gin_param #1: evl/my_input_fn.batch_size = 4: nothing uses this binding')


@pytest.mark.parametrize('name', LAZY)
def test_configurables_may_come_late(runs, name):
    assert LAZY[name][1] in runs[1][f'lazy {name}'].check().out.splitlines()


@pytest.mark.parametrize('name', ['constants', 'constants of config', 'constants of operative_config'])
def test_a_saved_config_has_the_constants_of_the_code(runs, name):  # B98
    assert "rate 0.25 [['a', 'b'], 0.25]" in runs[1][name].check().out.splitlines()


# B102: for each parameter a value of a wrong type, unless several are given.
WRONG = {'max_steps': ["'3'", '3.0', 'True'], 'eval_steps': ['[3]'], 'params': ['[1]'], 'hooks': ["'a'", '[1]', 'None']}
WRONG |= {'exporters': ["'a'", '[1]'], 'train_distribute': ['3', '[1]'], 'eval_distribute': ['3'], 'protocol': ['3']}
WRONG |= {'model_dir': ['3', "['a']"], 'session_config': ["'a'", '{}'], 'device_fn': ["'a'", '3']}
WRONG |= {'serving_default': ['3'], 'warm_start_from': ['3'], 'attach_update_ops': ["'yes'", '1']}
FRAMEWORK = {
    'experiment': lambda: experiment(model_fn=print),
    'trainer': trainer,
    'RunConfig': lambda: RunConfig(topology=Topology()),
}
PARAMETERS = [
    (selector, parameter, value)
    for selector, of in {'experiment': experiment, 'trainer': trainer, 'RunConfig': RunConfig}.items()
    for parameter in inspect.signature(of).parameters
    if parameter not in ('self', 'topology', 'experimental_distribute')  # the last is of another kind of Estimator
    for value in WRONG.get(parameter, ["'a'"])
]


@pytest.mark.parametrize(('selector', 'parameter', 'value'), PARAMETERS)
def test_types(clean_gin, selector, parameter, value):
    config = gin_config.read([], [f'{selector}.{parameter} = {value}'], [])
    gin_config.apply(config, {})
    bindings = gin_config.bindings(config, {})
    with pytest.raises(UserError) as caught:
        gin_config.check_types(bindings)
        FRAMEWORK[selector]()
    message = gin_config.locate(gin_config.first_line(caught.value), bindings)
    assert message.startswith(f'--gin_param #1: {selector}.{parameter}')
    assert '\n' not in message
