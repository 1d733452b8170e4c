"""The command line: flags become gin bindings, outcomes become exit codes.

TensorFlow is imported only when all that can be wrong without it has been checked.
"""

import dataclasses
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

import estimator_trainer
from estimator_trainer import console, dialects, gin_config, local_cluster, logs, strategies
from estimator_trainer.errors import RestartableError, TrainerError, UserError, graph_mode_hint, tensorflow_message
from estimator_trainer.lifecycle import Lifecycle
from estimator_trainer.settings import TRAINING_MODES
from estimator_trainer.topology import Topology

FLAGS = flags.FLAGS
_SECONDS_FOR_USER_THREADS = 10.0
MODES = (*TRAINING_MODES, 'evaluate', 'predict', 'export', 'plan')

# Flags that are not bindings.
flags.DEFINE_multi_string(
    'gin_file',
    [],
    'Gin file; repeat for several, later ones win. Looked for as given, in '
    '--gin_search_path, then among the shipped configs',
)
flags.DEFINE_multi_string(
    'gin_param',
    [],
    'A gin binding such as "experiment.max_steps = 100"; repeat for several. '
    'Wins over gin files. Never split at commas',
)
flags.DEFINE_multi_string('gin_search_path', [], 'Directory in which gin files are looked for; repeat for several')
flags.DEFINE_multi_string(
    'import_module',
    [],
    'Python module to import, so that its configurables are known; repeat '
    'for several. Same as an import line in a gin file',
)
flags.DEFINE_enum('mode', 'train_and_evaluate', MODES, 'What to do.')
flags.DEFINE_enum('plan_format', 'text', ('text', 'json'), 'How --mode=plan prints the plan.')
flags.DEFINE_string(
    'output',
    None,
    'File for --mode=predict, whose suffix is the format (.jsonl, .csv, .tfrecord); directory for --mode=export.',
)
flags.DEFINE_string(
    'checkpoint',
    None,
    'Checkpoint (path, name or step) for --mode=evaluate, predict and export; else the newest in model_dir.',
)
flags.DEFINE_bool('strict_unused', False, 'Makes a binding that nothing uses an error, not a warning.')
flags.DEFINE_string('local_cluster', None, 'Runs a cluster of processes on this machine, e.g. chief:1,worker:1,ps:1.')
flags.DEFINE_bool('fork_tasks', False, 'With --local_cluster: tasks are forks that share an import of TensorFlow.')
flags.DEFINE_string('cluster', None, 'The cluster, e.g. chief=host:port;worker=host:port,host:port;ps=host:port.')
flags.DEFINE_string('task_type', None, "This process's job in --cluster: chief, worker, ps or evaluator.")
flags.DEFINE_integer('task_index', None, "This process's number in its job, from 0.")
flags.DEFINE_string('ps_hosts', None, 'Instead of --cluster, as older scripts have it: host:port,...')
flags.DEFINE_string('worker_hosts', None, 'Instead of --cluster: host:port,...; the first is the chief.')
flags.DEFINE_string('job_name', None, 'With --worker_hosts: worker or ps.')
flags.DEFINE_bool('help', False, 'Shows this help.', short_name='h')
flags.DEFINE_bool('helpfull', False, 'Shows the flags of all modules, logging (--verbosity) among them.')


@dataclasses.dataclass(frozen=True)
class BindingFlag:
    """A flag that is another name for a gin binding, applied after all other bindings."""

    name: str
    binding: str
    define: Callable[..., Any]
    help: str


BINDING_FLAGS = (
    BindingFlag('model_dir', 'RunConfig.model_dir', flags.DEFINE_string, 'Where checkpoints and reports are written.'),
    BindingFlag('max_steps', 'experiment.max_steps', flags.DEFINE_integer, 'global_step at which training ends.'),
    BindingFlag(
        'strategy',
        'RunConfig.train_distribute',
        flags.DEFINE_string,
        f'How training is distributed: {", ".join(strategies.NAMES)}.',
    ),
    BindingFlag('seed', 'RunConfig.tf_random_seed', flags.DEFINE_integer, 'Seeds Python, NumPy, Keras and TensorFlow.'),
)
# Of the configurables that flags bind, should a user register others of the same names.
_MODULES = {'RunConfig': 'tf.estimator', 'experiment': 'estimator_trainer'}
# Flags that mean something in some modes only.
_FLAGS_OF_MODES = {
    'output': ('predict', 'export'),
    'checkpoint': ('evaluate', 'predict', 'export'),
    'plan_format': ('plan',),
    'local_cluster': TRAINING_MODES,
    'fork_tasks': TRAINING_MODES,
}
_CLUSTER_FLAGS = dialects.Flags._fields
for _flag in BINDING_FLAGS:
    _flag.define(_flag.name, None, f'{_flag.help} Binds {_flag.binding}.')


def console_main() -> None:
    """Entry point of the console script and of `python -m estimator_trainer`."""
    code = main(sys.argv)
    # Threads that user code has left running must not keep the job from ending.
    watch = threading.Timer(_SECONDS_FOR_USER_THREADS, os._exit, (code,))
    watch.daemon = True
    watch.start()
    sys.exit(code)


def main(argv: Sequence[str]) -> int:
    """Runs the program and returns its exit code."""
    lifecycle = Lifecycle(console.say)
    try:
        return _run(list(argv), lifecycle)
    except TrainerError as error:
        console.say(f'error: {" ".join(gin_config.first_line(error).split())}')
        return lifecycle.settings.restart_exit_code if isinstance(error, RestartableError) else error.exit_code
    except KeyboardInterrupt:
        return 130
    except SystemExit as error:
        console.say(f'error: user code called sys.exit({error.code!r})')
        return TrainerError.exit_code
    except Exception as error:
        missing = gin_config.missing_binding(error)
        if missing is None:
            traceback.print_exc()
            if hint := graph_mode_hint(error) or tensorflow_message(error):
                console.say(f'error: {hint}')
            return TrainerError.exit_code
        console.say(f'error: {missing}')
        return missing.exit_code
    finally:
        lifecycle.close()


def _run(argv: list[str], lifecycle: Lifecycle) -> int:
    remaining = _parse_flags(argv, known_only=True)
    if FLAGS.help or FLAGS.helpfull:
        console.out(_help())
        return 0
    _check_flags_of_modes()
    if gin_config.needs_tensorflow(FLAGS.gin_file, FLAGS.gin_search_path, FLAGS.gin_param):
        _import_tensorflow(lifecycle)
    config = gin_config.read(FLAGS.gin_file, FLAGS.gin_param, FLAGS.gin_search_path)
    remaining = [argv[0], *remaining[1:]]
    if not gin_config.user_modules(config, FLAGS.import_module):
        _parse_remaining_flags(remaining)  # Nobody else can define them, so there is no need to import anything.
    if not config.sources:
        raise UserError(_nothing_to_run())
    described_by = next((f'--{name}' for name in _CLUSTER_FLAGS if FLAGS[name].present), None)
    if FLAGS.local_cluster is not None and described_by:
        raise UserError(f'--local_cluster and {described_by} both describe a cluster; expected one of them')
    topology = dialects.read(dialects.Flags(*(FLAGS[name].value for name in _CLUSTER_FLAGS)))
    tf_config = dialects.given()
    if 'TF_CONFIG' in os.environ and tf_config is None:
        console.say('TF_CONFIG is empty: running as if it were not set')
    if FLAGS.local_cluster is not None:
        if not topology.is_local:
            raise UserError(
                f'--local_cluster starts a cluster of its own, but {topology.source} describes one; '
                f'unset {topology.source}'
            )
        model_dir = _value(config, 'RunConfig.model_dir')
        return local_cluster.launch(
            FLAGS.local_cluster,
            argv,
            model_dir,
            topology.trial,
            lambda cluster: _strategy(config, cluster),
            _prepare_forks() if FLAGS.fork_tasks else None,
        )
    strategy = _strategy(config, topology)

    _import_tensorflow(lifecycle)
    strategies.set_up_devices(strategy, config, topology)  # before a user module can run an op that would fix them
    _import_modules(config)
    _parse_remaining_flags(remaining)
    from estimator_trainer import job

    return job.perform(_request(config, tf_config), topology, lifecycle)


def _request(config: gin_config.Config, tf_config: Any) -> Any:
    from estimator_trainer.job import Request

    overrides = {
        f'{_MODULES[flag.binding.partition(".")[0]]}.{flag.binding}': (f'--{flag.name}', FLAGS[flag.name].value)
        for flag in BINDING_FLAGS
        if FLAGS[flag.name].value is not None
    }
    return Request(
        FLAGS.mode,
        config,
        FLAGS.import_module,
        overrides,
        FLAGS.output,
        FLAGS.checkpoint,
        FLAGS.strict_unused,
        FLAGS.plan_format,
        tf_config,
    )


def _check_flags_of_modes() -> None:
    for name, modes in _FLAGS_OF_MODES.items():
        if FLAGS[name].present and FLAGS.mode not in modes:
            raise UserError(f'--{name} is for --mode={" or ".join(modes)}, not {FLAGS.mode}')
    if FLAGS.mode == 'predict' and not FLAGS.output:
        raise UserError('--mode=predict needs --output=FILE, with the suffix .jsonl, .csv or .tfrecord')


def _parse_flags(argv: list[str], known_only: bool) -> list[str]:
    FLAGS.set_gnu_getopt(True)
    try:
        left = FLAGS(argv, known_only=known_only)
        for flag in FLAGS.get_flags_for_module(__name__):
            for value in flag.value if isinstance(flag.value, list) else [flag.value]:
                if str(value).startswith('--'):
                    raise UserError(f'--{flag.name} has no value; found the next flag, {value!r}')
        return left
    except flags.Error as error:
        raise UserError(
            str(error).replace('invalid literal for int() with base 10:', 'expected an integer, found')
        ) from None


def _parse_remaining_flags(argv: list[str]) -> None:
    """Parses the flags that user modules may have defined; what is still unknown is a mistake."""
    positional = _parse_flags(argv, known_only=False)[1:]
    if positional:
        raise UserError(f'unexpected argument {positional[0]!r}; flags are written --name=value')


def _prepare_forks() -> Callable[[list[str]], int]:
    """Imports TensorFlow, and returns a `main` for forks of this process."""
    verbosity = FLAGS.verbosity if FLAGS['verbosity'].present else None
    logs.configure(verbosity)
    with logs.stderr_held_back(verbosity):
        from estimator_trainer import compat  # noqa: F401

    def fork_main(argv: list[str]) -> int:
        FLAGS.unparse_flags()
        for name in FLAGS:
            FLAGS[name].unparse()
        return main(argv)

    return fork_main


def _strategy(config: gin_config.Config, topology: Topology) -> Any:
    where = '--strategy' if FLAGS.strategy is not None else config.place('RunConfig.train_distribute')
    return strategies.choose(_value(config, 'RunConfig.train_distribute'), topology, where)


def _value(config: gin_config.Config, binding: str) -> Any:
    """Returns what a binding will be, flags included, before gin knows the configurables."""
    for flag in BINDING_FLAGS:
        if flag.binding == binding and FLAGS[flag.name].value is not None:
            return FLAGS[flag.name].value
    return config.literal(binding)


def _import_tensorflow(lifecycle: Lifecycle) -> None:
    """Imports TensorFlow, once signals are watched and logging is set up: both must precede it."""
    if 'tensorflow' in sys.modules and lifecycle.watching:
        return
    lifecycle.watch_signals()
    # Else TensorFlow takes all memory of each GPU, and the next process on the machine fails.
    os.environ.setdefault('TF_FORCE_GPU_ALLOW_GROWTH', 'true')
    verbosity = FLAGS.verbosity if FLAGS['verbosity'].present else None
    logs.configure(verbosity)
    with logs.stderr_held_back(verbosity):
        from estimator_trainer import compat  # noqa: F401


def _import_modules(config: gin_config.Config) -> None:
    if os.getcwd() not in sys.path:  # The console script's sys.path does not have it, that of `python -m` has.
        sys.path.insert(0, os.getcwd())
    # These make `experiment`, `RunConfig`, `trainer` and so on known to gin.
    from estimator_trainer import experiment, partitioning, registry, run_config, settings, sync_replicas  # noqa: F401

    try:
        gin_config.import_modules(config, FLAGS.import_module)
    except flags.DuplicateFlagError as error:
        raise UserError(' '.join(str(error).split())) from None
    registry.register(config)


def _help() -> str:
    text = [
        f'estimator_trainer {estimator_trainer.__version__}: trains and evaluates Estimator code.',
        '',
        'Usage: python -m estimator_trainer --gin_file=penguins.gin --model_dir=DIR [--gin_param=...]',
        '',
    ]
    text.append(FLAGS.get_help() if FLAGS.helpfull else FLAGS.module_help(__name__))
    return '\n'.join(text)


def _nothing_to_run() -> str:
    configs = ', '.join(gin_config.shipped_configs())
    return (
        'nothing to run: no --gin_file and no --gin_param. These configs ship with the package: '
        f'{configs}; try: python -m estimator_trainer --gin_file=penguins.gin --model_dir=runs/penguins'
    )
