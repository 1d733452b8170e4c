"""Runs an Estimator under a `tf.distribute` strategy; takes the place of TensorFlow's module of this name.

`tensorflow_estimator` calls the five functions below. The rules they follow are those seen on TensorFlow 2.15:

* A strategy on one process needs no coordinator, and the RunConfig describes a single worker.
* A strategy for training in a `TF_CONFIG` cluster is run by TensorFlow's distribute coordinator: it starts this task's
  server, configures a copy of the strategy for the task and calls back in a worker context. Until then the RunConfig
  describes a single worker; the copy of it that the Estimator trains with describes the task.
* With `experimental_distribute.remote_cluster` this process is a client: the coordinator runs the tasks of that
  cluster, whose servers were started elsewhere, from here.
* Without a strategy for training, or in a cluster with a `master`, `TF_CONFIG` means what it means without strategies.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_trainer.compat import internals


def init_run_config(config: Any, tf_config: dict[str, Any]) -> None:
    """Initialises a RunConfig that has a strategy for training, for evaluation or for both.

    Args:
        config: The `tf.estimator.RunConfig`; `train_distribute` and `eval_distribute` may come from its
            `experimental_distribute` instead.
        tf_config: The parsed `TF_CONFIG`.

    Raises:
        ValueError: A strategy is given twice, or two clusters are.
    """
    _merge_experimental(config)
    config._distribute_coordinator_mode = None
    cluster = tf.train.ClusterSpec(tf_config.get('cluster', {}))
    remote_cluster = getattr(config._experimental_distribute, 'remote_cluster', None)
    if internals.get_current_worker_context():
        _describe_task(config)
    elif config.train_distribute and remote_cluster:
        if cluster:
            raise ValueError('RunConfig: TF_CONFIG and experimental_distribute.remote_cluster both describe a cluster')
        config._init_distributed_setting_from_environment_var({})
        config._cluster_spec = remote_cluster
        config._distribute_coordinator_mode = internals.CoordinatorMode.STANDALONE_CLIENT
    elif config.train_distribute and 'master' not in cluster.jobs:
        config._init_distributed_setting_from_environment_var({})
        config._cluster_spec = cluster
        if cluster:
            config._distribute_coordinator_mode = internals.CoordinatorMode.INDEPENDENT_WORKER
    else:
        config._init_distributed_setting_from_environment_var(tf_config)
        config._maybe_overwrite_session_config_for_distributed_training()


def should_run_distribute_coordinator(config: Any) -> bool:
    """Returns whether `train_and_evaluate` under this RunConfig is run by the distribute coordinator."""
    mode = getattr(config, '_distribute_coordinator_mode', None)
    # The value, not whether there is one: in tests of programs, a config may be anything that has attributes.
    modes = (internals.CoordinatorMode.INDEPENDENT_WORKER, internals.CoordinatorMode.STANDALONE_CLIENT)
    return mode in modes and not internals.get_current_worker_context()


def estimator_train(estimator: Any, train_fn: Callable[..., Any], hooks: Sequence[Any]) -> Any:
    """Trains as this task of the cluster; `train_fn(estimator, strategy, hooks)` does the training."""
    if internals.get_current_worker_context():
        return train_fn(estimator, estimator._train_distribution, hooks)

    def train(strategy):
        return train_fn(_for_task(estimator, train=strategy), strategy, _of_this_task(estimator.config, hooks))

    _refuse_many_tasks(estimator.config, estimator.config.train_distribute, 'train')
    return _run(estimator.config, train, estimator.config.train_distribute)


def estimator_evaluate(estimator: Any, evaluate_fn: Callable[..., dict], hooks: Sequence[Any]) -> dict[str, Any]:
    """Evaluates as this task of the cluster and returns the metrics of `evaluate_fn(estimator, strategy, hooks)`."""
    if internals.get_current_worker_context():
        return evaluate_fn(estimator, estimator._eval_distribution, hooks)

    def evaluate(strategy):
        return evaluate_fn(_for_task(estimator, evaluate=strategy), strategy, _of_this_task(estimator.config, hooks))

    _refuse_many_tasks(estimator.config, estimator.config.eval_distribute, 'evaluate')
    return _run(estimator.config, evaluate, estimator.config.eval_distribute, evaluate)


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Callable[..., Any]) -> None:
    """Runs this task's part of `tf.estimator.train_and_evaluate`.

    Chief and workers train, ps serve, an evaluator evaluates each new checkpoint until training has ended.

    Args:
        estimator: The `tf.estimator.Estimator`.
        train_spec: The `tf.estimator.TrainSpec`.
        eval_spec: The `tf.estimator.EvalSpec`.
        executor_cls: `tensorflow_estimator`'s executor of one task's part.
    """
    if train_spec.saving_listeners:
        tf.compat.v1.logging.warning('TrainSpec.saving_listeners are not called under a strategy in a cluster.')

    def train(strategy):
        hooks = _of_this_task(estimator.config, list(train_spec.hooks))
        _for_task(estimator, train=strategy).train(train_spec.input_fn, hooks=hooks, max_steps=train_spec.max_steps)

    def evaluate(strategy):
        executor_cls(_for_task(estimator, evaluate=strategy), train_spec, eval_spec).run_evaluator()

    _run(estimator.config, train, estimator.config.train_distribute, evaluate)


def train_task(estimator: Any, train: Callable[[Any], Any]) -> None:
    """Calls `train` with the Estimator as this task of the cluster has it, on every TensorFlow.

    `Estimator.train` of TensorFlow 2.15 refuses a cluster with a strategy; `train` may call it.
    """
    if getattr(estimator.config, '_distribute_coordinator_mode', None) is None:
        train(estimator)
        return

    def train_with(strategy):
        local = _for_task(estimator, train=strategy)
        local._config._distribute_coordinator_mode = None  # it is running already
        train(local)

    _run(estimator.config, train_with, estimator.config.train_distribute)


def _is_client(config: Any) -> bool:
    return config._distribute_coordinator_mode == internals.CoordinatorMode.STANDALONE_CLIENT


def _of_this_task(config: Any, hooks: Sequence[Any]) -> Sequence[Any]:
    """Returns the hooks for the task in this thread: a client has one set for all tasks, and gives it to the chief."""
    return hooks if not _is_client(config) or internals.get_current_worker_context().is_chief else []


def _refuse_many_tasks(config: Any, strategy: Any, method: str) -> None:
    if _is_client(config) and strategy.extended.experimental_between_graph:
        raise ValueError(
            f'Estimator.{method} cannot return what several tasks of a remote cluster have done under '
            f'{type(strategy).__name__}: call tf.estimator.train_and_evaluate'
        )


def _run(config: Any, train: Callable, strategy: Any, evaluate: Callable | None = None) -> Any:
    """Calls `train` or, on an evaluator, `evaluate` with the strategy of this task, and returns the result."""
    return internals.run_distribute_coordinator(
        train,
        strategy,
        eval_fn=evaluate,
        eval_strategy=config.eval_distribute,
        mode=config._distribute_coordinator_mode,
        cluster_spec=config.cluster_spec if _is_client(config) else None,
        session_config=config.session_config,
        rpc_layer=config.protocol or 'grpc',
    )


def _for_task(estimator: Any, train: Any = None, evaluate: Any = None) -> Any:
    """Returns the Estimator as this task runs it, with the strategies that the coordinator has configured for it."""
    # A shallow copy: what users keep on their Estimator is theirs, and need not be something that can be copied.
    local = copy.copy(estimator)
    local._config = copy.copy(estimator.config)
    local._config._train_distribute = local._train_distribution = train or estimator.config.train_distribute
    local._config._eval_distribute = local._eval_distribution = evaluate or estimator.config.eval_distribute
    _describe_task(local._config)
    local._session_config = local._config.session_config
    return local


def _describe_task(config: Any) -> None:
    """Makes a RunConfig describe the task that the coordinator runs in this thread."""
    context = internals.get_current_worker_context()
    is_evaluator = context.task_type == 'evaluator'
    cluster = tf.train.ClusterSpec({} if is_evaluator else context.cluster_spec or {})
    counts = {job: cluster.num_tasks(job) for job in cluster.jobs}
    config._cluster_spec = cluster
    config._session_config = context.session_config
    config._master = config._evaluation_master = context.master_target
    config._task_type = context.task_type or 'worker'
    config._task_id = context.task_id or 0
    config._is_chief = context.is_chief
    config._num_ps_replicas = counts.get('ps', 0)
    config._num_worker_replicas = counts.get('chief', 0) + counts.get('worker', 0)
    # Counted chief first, then workers, then ps; an evaluator is no part of the training cluster.
    before = {'chief': 0, 'worker': counts.get('chief', 0), 'ps': config._num_worker_replicas}
    config._global_id_in_cluster = None if is_evaluator else before[config._task_type] + config._task_id


def _merge_experimental(config: Any) -> None:
    experimental = config._experimental_distribute
    if not experimental:
        return
    for name in ('train_distribute', 'eval_distribute'):
        given, more = getattr(config, name), getattr(experimental, name)
        if given and more:
            raise ValueError(f'RunConfig: set either {name} or experimental_distribute.{name}, not both')
        setattr(config, f'_{name}', given or more)
