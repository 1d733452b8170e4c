"""The model of an experiment as Estimator sees it: a model_fn, canned Estimators and Keras models included."""

import atexit
import contextlib
import functools
import inspect
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

from estimator_trainer import checkpoints, serving, specs, strategies, sync_replicas, user_fns, voting
from estimator_trainer.compat import collective, exact_evaluation, private, tf
from estimator_trainer.errors import UserError
from estimator_trainer.experiment import Experiment
from estimator_trainer.rehearsal import Rehearsal
from estimator_trainer.run_config import RunConfig
from estimator_trainer.sync_replicas import Synchronous
from estimator_trainer.topology import Topology

_ModeKeys = tf.estimator.ModeKeys
# Strategies call a model_fn, and all that it calls, by way of AutoGraph, which takes seconds for code of ours.
_unconverted = tf.autograph.experimental.do_not_convert


class Model:
    """The Estimators of an experiment in one task.

    Attributes:
        chief_hook: given the Scaffold of a training, returns one more hook for the chief.
        last_hooks: the hooks of a task that steps together with others, which come after all others.
        sync_hook: given what makes a training synchronous, returns the hook for that.
        warn: told, once a training graph is built, what is likely to be a mistake in the model_fn.
        training_specs: what the model_fn has returned for each replica of the training graph.
    """

    def __init__(self, experiment: Experiment, config: tf.estimator.RunConfig, topology: Topology):
        self._experiment = experiment
        self._config = config
        self._topology = topology
        self.chief_hook: Callable[[tf.compat.v1.train.Scaffold], tf.compat.v1.train.SessionRunHook] | None = None
        self.last_hooks: list[tf.compat.v1.train.SessionRunHook] = []
        self.sync_hook: Callable[[Synchronous], tf.compat.v1.train.SessionRunHook] | None = None
        self.warn: Callable[[str], None] = lambda line: None
        self.training_specs: list[tf.estimator.EstimatorSpec] = []
        # graph -> `specs.collected_losses` of its first replica
        self._losses: weakref.WeakKeyDictionary[tf.Graph, tuple[set, set]] = weakref.WeakKeyDictionary()
        self._counts_twice: str | None = None

    @functools.cached_property
    def rehearsal(self) -> Rehearsal:
        """The graphs, built once before anything is written."""
        model_fn = user_fns.bind_model_fn(self._another_model_fn(), self._config.tf_random_seed, self._finish)
        return Rehearsal(self._experiment, self._config, self._topology, model_fn, self._receiver_fn)

    @functools.cached_property
    def estimator(self) -> tf.estimator.Estimator:
        """The Estimator that trains in this task."""
        return self._make_estimator(self._config, *self._source)

    @functools.cached_property
    def evaluating_estimator(self) -> tf.estimator.Estimator:
        """The Estimator that evaluates, predicts and exports in this task: it reads a checkpoint and needs no peer."""
        if self._topology.task.job in ('local', 'evaluator'):
            return self.estimator
        config = self._evaluating_config()
        return self._make_estimator(config, *model_of(self._experiment, config))

    def _evaluating_config(self) -> tf.estimator.RunConfig:
        if self._topology.task.job in ('local', 'evaluator'):
            return self._config
        # In a cluster, RunConfig places variables on the ps tasks.
        fields = {} if self._config.eval_distribute is not None else {'eval_distribute': 'none'}
        return RunConfig(topology=Topology(), train_distribute='none', model_dir=self._config.model_dir, **fields)

    @property
    def evaluating_replicas(self) -> int:
        """Number of replicas that evaluate."""
        strategy = self._config.eval_distribute
        return strategy.num_replicas_in_sync if strategy is not None else 1

    def _another_model_fn(self) -> Callable:
        # A canned Estimator is made anew: an optimizer object that it holds may serve one training graph only.
        return model_of(self._experiment, self._config)[0] if self._experiment.estimator else self._source[0]

    def check_replicas(self) -> str | None:
        """Looks whether an evaluation on several replicas finds what one on a single replica does; else makes it that.

        Returns:
            A warning that says why there is one replica, None where there are as many as were asked for.
        """
        replicas = self.evaluating_replicas
        if replicas == 1:
            return None
        config = self._evaluating_config()
        strategies.export_tf_config(self._topology)  # the RunConfig of an evaluation has taken it away
        estimator = self._make_estimator(config, self._another_model_fn(), None)
        bound = user_fns.bind_input_fn(self._experiment.eval_input_fn, config.tf_random_seed)
        why = estimator.effect_of_replicas(bound) or self._counts_twice
        if self._experiment.keras_model:
            why = 'Keras divides the loss of a model by the number of replicas'
        if why is None:
            return None
        self._config = self._config.replace(eval_distribute=None)
        self.rehearsal.evaluate_on_one_replica(self._config)
        return f'RunConfig.eval_distribute: evaluates on one replica, not on {replicas}: {why}'

    def check_start(self) -> None:
        """Checks that the checkpoint from which a new training is to start is there, and one of this model.

        Raises:
            UserError: it is not.
        """
        start = self._source[1]
        if start is None:
            return
        where = 'experiment.warm_start_from' if self._experiment.warm_start_from is not None else 'warm_start_from'
        path = getattr(start, 'ckpt_to_initialize_from', start)
        # A path alone may be that of a SavedModel.
        prefixes = [path, f'{path}/variables/variables'] if path is start else [path]
        there = [prefix for prefix in prefixes if tf.io.gfile.exists(f'{prefix}.index')]
        checkpoint = there[0] if there else tf.train.latest_checkpoint(path)
        if checkpoint is None:
            raise UserError(f'{where}: no checkpoint {path!r}')
        if not isinstance(getattr(start, 'vars_to_warm_start', '.*'), str):
            return
        trainable = [variable for variable in self.rehearsal.variables if variable.trainable]
        wanted = re.compile(getattr(start, 'vars_to_warm_start', '.*'))
        chosen = [variable for variable in trainable if wanted.match(variable.name)]
        if not chosen:
            raise UserError(f'{where}: no trainable variable matches {wanted.pattern!r}')
        if getattr(start, 'var_name_to_prev_var_name', None) or getattr(start, 'var_name_to_vocab_info', None):
            return  # Names or shapes may well differ.
        comparison = checkpoints.compare(checkpoint, chosen)
        if comparison is not None and not comparison.fits:
            raise UserError(f'{where}: {checkpoints.misfit(checkpoint, comparison)}')

    @functools.cached_property
    def _source(self) -> tuple[Callable, Any]:
        return model_of(self._experiment, self._config)

    def _make_estimator(
        self, config: tf.estimator.RunConfig, model_fn: Callable, warm_start: Any
    ) -> tf.estimator.Estimator:
        @_unconverted
        def finish(spec, mode, size):
            spec = self._finish(spec, mode, size)
            if mode != _ModeKeys.PREDICT and tf.distribute.get_strategy().num_replicas_in_sync > 1:
                self._look_at_losses(spec, mode)
            if mode != _ModeKeys.TRAIN:
                return spec
            self.training_specs.append(spec)
            return self._with_hooks(spec)

        bound = user_fns.bind_model_fn(model_fn, config.tf_random_seed, finish, voting.unwrap)
        params = dict(self._experiment.params)
        steps_with_others = self._topology.is_collective and config.train_distribute is not None
        kind = collective.Estimator if steps_with_others else exact_evaluation.Estimator
        return kind(bound, config=config, params=params, warm_start_from=warm_start)

    def _with_hooks(self, spec: tf.estimator.EstimatorSpec) -> tf.estimator.EstimatorSpec:
        chief_hooks, hooks = list(spec.training_chief_hooks), list(spec.training_hooks)
        synchronous = sync_replicas.of(tf.compat.v1.get_default_graph())
        if synchronous is not None and self.sync_hook is not None:
            # Before the last checkpoint is saved, for which the chief waits for the workers.
            (chief_hooks if self._topology.is_chief else hooks).append(self.sync_hook(synchronous))
        if self.chief_hook is not None:
            chief_hooks.append(self.chief_hook(spec.scaffold))
        if self.last_hooks:
            hooks += [*(chief_hooks if self._topology.is_chief else ()), *self.last_hooks]
            chief_hooks = []
        return spec._replace(training_chief_hooks=chief_hooks, training_hooks=hooks)

    def _look_at_losses(self, spec: tf.estimator.EstimatorSpec, mode: str) -> None:
        losses, regularization = specs.collected_losses(spec)
        first_losses, first_regularization = self._losses.setdefault(spec.loss.graph, (losses, regularization))
        if losses is first_losses or (losses.isdisjoint(first_losses) and regularization <= first_regularization):
            return
        self._counts_twice = (
            f'the loss of a replica sums {len(losses | regularization)} entries of the loss collections, losses of '
            'other replicas among them, which share these collections (get_total_loss() and the like do that); sum the '
            'losses of model_fn explicitly'
        )
        if mode == _ModeKeys.TRAIN:
            self.warn(self._counts_twice)

    def _finish(
        self, spec: tf.estimator.EstimatorSpec, mode: str, size: tf.Tensor | None
    ) -> tf.estimator.EstimatorSpec:
        if mode == _ModeKeys.PREDICT:
            return serving.check_export_outputs(spec, self._experiment.serving_default)
        if mode == _ModeKeys.TRAIN and self._experiment.attach_update_ops:
            return specs.with_updates(spec)
        if mode == _ModeKeys.EVAL:
            return specs.with_losses(spec, size)
        return spec

    def _receiver_fn(self, features: Any) -> Callable:
        return serving.receiver_fn(self._experiment.serving_input_receiver_fn, features)


def model_of(experiment: Experiment, config: tf.estimator.RunConfig) -> tuple[Callable, Any]:
    """Returns the model_fn of an experiment, and what its variables start from (WarmStartSettings, a path or None).

    A canned Estimator is made only for its model_fn: it keeps nothing else that its class may override.

    Raises:
        UserError: what the function returns is no Estimator, or no compiled Keras model.
    """
    if experiment.model_fn is not None:
        return experiment.model_fn, experiment.warm_start_from
    with user_fns.scope_and_seed([], config.tf_random_seed):
        made = _from_keras(experiment, config) if experiment.keras_model else _made(experiment, config)
    return private.model_fn_of(made), experiment.warm_start_from or private.warm_start_settings(made)


def _made(experiment: Experiment, config: tf.estimator.RunConfig) -> tf.estimator.Estimator:
    factory = experiment.estimator
    if 'config' not in user_fns.parameters(factory):
        raise UserError(
            f'experiment.estimator: {user_fns.name_of(factory)} takes no `config`, so it makes no Estimator'
        )
    made = factory(config=config)
    if not isinstance(made, tf.compat.v1.estimator.Estimator):
        raise UserError(f'experiment.estimator: {user_fns.name_of(factory)} returned {made!r}; expected an Estimator')
    return made


def _from_keras(experiment: Experiment, config: tf.estimator.RunConfig) -> tf.estimator.Estimator:
    # Where eager mode is off, model_to_estimator cannot read Keras's own optimizers.
    with contextlib.nullcontext() if tf.executing_eagerly() else tf.__internal__.eager_context.eager_mode():
        return _estimator_of(experiment.keras_model, config)


def _estimator_of(function: Callable, config: tf.estimator.RunConfig) -> tf.estimator.Estimator:
    name = user_fns.name_of(function)
    if inspect.isclass(function):
        raise UserError(f'experiment.keras_model: {name} is a class; expected a function that returns a compiled model')
    tf.keras.backend.reset_uids()  # else a second model has other names than the checkpoint of the first
    model = function()
    if not isinstance(model, tf.keras.Model):
        keras_3 = '; it is of Keras 3: build it with tf.keras' if type(model).__module__.startswith('keras.') else ''
        raise UserError(f'experiment.keras_model: {name} returned {type(model)}; expected a tf.keras.Model{keras_3}')
    if not getattr(model, 'optimizer', None):
        raise UserError(f'experiment.keras_model: the model that {name} returns is not compiled; call model.compile()')
    # The model's first weights are saved there, and read when training begins. Format 'saver': Mirrored needs it.
    scratch = tempfile.mkdtemp(prefix='estimator_trainer-keras-')
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    # As in one process, since workers that step together start from the same weights. Only the model_fn is of use.
    with strategies.cluster_hidden():
        config = tf.estimator.RunConfig(scratch, config.tf_random_seed)
    return tf.compat.v1.keras.estimator.model_to_estimator(keras_model=model, config=config, checkpoint_format='saver')
