"""One job in this process, from the bindings to the exit code: what is checked first, what runs, what is told of it."""

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import gin

from estimator_trainer import console, gin_config, plan, preparation, roles
from estimator_trainer.errors import TrainerError, UserError
from estimator_trainer.experiment import experiment
from estimator_trainer.hooks import Stopped
from estimator_trainer.lifecycle import Lifecycle
from estimator_trainer.options import Options
from estimator_trainer.run import Run
from estimator_trainer.settings import TRAINING_MODES, trainer
from estimator_trainer.summary import DONE, FAILED, INTERRUPTED
from estimator_trainer.topology import Topology

_SEED = 'tf.estimator.RunConfig.tf_random_seed'
_DRAWN = 'drawn at random'


@dataclasses.dataclass(frozen=True)
class Request:
    """What the caller wants.

    Attributes:
        mode: a mode of the command line.
        config: the gin files and bindings.
        modules: what else was imported, to be noted in config.gin.
        overrides: binding -> what binds it (a flag) and the value: they win over `config`.
        output: see `run.Options`.
        checkpoint: see `run.Options`.
        strict_unused: whether a binding that nothing uses is an error.
        plan_format: 'text' or 'json'.
        tf_config: TF_CONFIG as it was found.
    """

    mode: str
    config: gin_config.Config
    modules: Sequence[str]
    overrides: Mapping[str, tuple[str, Any]]
    output: str | None
    checkpoint: str | None
    strict_unused: bool
    plan_format: str
    tf_config: Any


def perform(request: Request, topology: Topology, lifecycle: Lifecycle) -> int:
    """Does what is asked for and returns the exit code.

    Raises:
        TrainerError: it cannot be done; a UserError if nothing has been written.
    """
    overrides = dict(request.overrides)
    if topology.is_local and request.mode in TRAINING_MODES and _unseeded(request):
        # So that config.gin repeats this run too; as good as no seed, since each start draws another.
        overrides[_SEED] = (_DRAWN, random.SystemRandom().randrange(2**31))
    gin_config.apply(request.config, overrides)
    if topology.task.job in ('ps', 'evaluator'):
        # These do not train, and the constructor of a strategy for many workers fails in an evaluator.
        with gin.unlock_config():
            gin.bind_parameter('tf.estimator.RunConfig.train_distribute', None)
    bindings = gin_config.bindings(request.config, overrides)
    # User modules may be imported late, which registers configurables; a locked config would refuse them.
    with gin.unlock_config():
        run = None
        try:
            resolved = gin_config.resolved(request.config, request.modules, overrides)
            run = _make_run(request, bindings, resolved, topology, lifecycle)
            preparation.prepare(run, bindings, request.strict_unused)
            if request.mode == 'plan':
                roles.foresee(run)
                _print_plan(request, run, bindings)
                return 0
            preparation.check_fit(run)
        except BaseException as error:
            mistake = _mistake(error, bindings)
            if run is not None and request.mode != 'plan':
                roles.tell_peers(run, mistake or error)
            if mistake:
                raise mistake from None
            raise
        return _perform(run, [source.name for source in request.config.sources], bindings)


def _unseeded(request: Request) -> bool:
    return _SEED not in request.overrides and request.config.literal('RunConfig.tf_random_seed') is None


def _make_run(
    request: Request, bindings: Sequence[gin_config.Binding], resolved: str, topology: Topology, lifecycle: Lifecycle
) -> Run:
    gin_config.check_types(bindings)
    lifecycle.settings = trainer()
    made, mode = experiment(), request.mode
    if mode == 'plan':
        mode = 'train_and_evaluate' if made.eval_input_fn is not None else 'train'
    options = Options(
        mode,
        request.output,
        request.checkpoint,
        resolved,
        request.mode == 'plan',
        {binding.name: binding.value for binding in bindings if binding.where != _DRAWN},
    )
    return Run(made, topology, lifecycle, options)


def _mistake(error: BaseException, bindings: Sequence[gin_config.Binding]) -> UserError | None:
    """Returns the one-line error, with its place, for an exception that a user's mistake has caused, else None."""
    if not isinstance(error, UserError):
        error = gin_config.missing_binding(error) or gin_config.unexpected_argument(error, bindings)
    return None if error is None else UserError(gin_config.locate(gin_config.first_line(error), bindings))


def _print_plan(request: Request, run: Run, bindings: Sequence[gin_config.Binding]) -> None:
    made = plan.make(run, bindings, request.tf_config)
    for line in [json.dumps(made, indent=2)] if request.plan_format == 'json' else plan.text(made):
        console.out(line)


def _perform(run: Run, sources: Sequence[str], bindings: Sequence[gin_config.Binding]) -> int:
    lifecycle = run.lifecycle
    run.report.start(f'{run.mode} {" ".join(sources)}', plan.head(run))
    run.report.table(('input', line) for line in run.input_remarks)
    run.report.table(('override', line) for line in plan.overridden(bindings))

    def finish_aborted(message: str, exit_code: int) -> None:
        if lifecycle.signalled:
            run.finish(INTERRUPTED, 'signal')
        elif exit_code and exit_code != UserError.exit_code:
            run.finish(FAILED, 'error', message)

    lifecycle.before_abort(finish_aborted)
    try:
        roles.perform(run)
    except Stopped:
        pass
    except BaseException as error:
        mistake = _mistake(error, bindings)
        if mistake and not run.started:
            raise mistake from None  # found before the first step, it leaves nothing behind
        try:
            run.finish(FAILED, 'error', f'{type(error).__name__}: {gin_config.first_line(error)}')
        except Exception as further:  # What has gone wrong first is what matters.
            console.say(f'cannot write {run.summary_path}: {gin_config.first_line(further)}')
        if 'No space left on device' in str(error):
            place = run.options.output if run.mode == 'predict' else run.model_dir
            raise TrainerError(f'no space left on the device of {place}') from None
        if mistake:
            raise TrainerError(gin_config.first_line(mistake)) from None
        raise
    stop = lifecycle.stop
    if stop is not None and stop.exit_code:
        run.finish(INTERRUPTED, 'signal')
        return stop.exit_code
    run.finish(DONE)
    return 0
