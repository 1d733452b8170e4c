"""Builds the graphs of an experiment once before anything is written, so that mistakes show before hours are spent.

What is built here is thrown away: the Estimator builds its own. No session trains; those that are opened read input.
"""

import contextlib
import dataclasses
import re
import threading
from collections.abc import Callable
from typing import Any

from estimator_trainer import checkpoints, specs
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.experiment import Experiment
from estimator_trainer.topology import Topology
from estimator_trainer.user_fns import BATCH_SIZES, bind_input_fn, name_of

_DATASET = tf.data.Dataset | tf.compat.v1.data.Dataset
_ModeKeys = tf.estimator.ModeKeys
_STRATEGIES = {_ModeKeys.TRAIN: 'train_distribute', _ModeKeys.EVAL: 'eval_distribute'}
# Ops that may bring another batch each time, and end; without one, tensors are the same batch for ever.
_SOURCE = re.compile('Iterator|Queue|Reader|PyFunc|Unstage|Call')


@dataclasses.dataclass
class Built:
    """A graph with an input and, where there is a spec, the model on it.

    Attributes:
        graph: the graph.
        input: what of the graph reads the input, as a serialized GraphDef.
        data: what the input_fn returned.
        features: the structure of the features, of tf.TensorSpec and the like.
        size: int64 scalar: the number of examples in the next batch, which it reads; 0 without a batch dimension.
        sized: whether there is a batch dimension.
        first_size: the number of examples in the first batch, once `batches` has read it.
        spec: the model_fn's EstimatorSpec.
        session_config: for sessions on the graph.
    """

    graph: tf.Graph
    input: tf.compat.v1.GraphDef | None = None
    data: Any = None
    features: Any = None
    size: tf.Tensor | None = None
    sized: bool = False
    first_size: int | None = None
    spec: tf.estimator.EstimatorSpec | None = None
    session_config: Any = None

    def cardinality(self) -> int | None:
        """Returns the number of batches, tf.data.INFINITE_CARDINALITY, or None where that cannot be known."""
        if not isinstance(self.data, _DATASET):
            ends = any(_SOURCE.search(node.op) for node in self.input.node)
            return None if ends else tf.data.INFINITE_CARDINALITY
        with self.graph.as_default(), self._session() as session:
            try:
                cardinality = session.run(tf.data.experimental.cardinality(self.data))
            except tf.errors.OpError:
                return None  # It needs tables or iterators initialised.
        return None if cardinality == tf.data.UNKNOWN_CARDINALITY else int(cardinality)

    def batches(self, seconds: float, at_most: int | None) -> tuple[list[int], bool]:
        """Reads batches, for at most so many seconds; returns their sizes, and whether the input has ended.

        Without a batch dimension the sizes are 0.

        Raises:
            tf.errors.OpError: the input cannot be read.
        """
        if at_most is None and self.cardinality() == tf.data.INFINITE_CARDINALITY:
            at_most = 1
        read = _Reading([], at_most)
        # A thread, for nothing interrupts an input that waits in Python code.
        thread = threading.Thread(target=self._read, args=(read,), daemon=True)
        thread.start()
        thread.join(seconds)
        read.stopped = True
        if read.error is not None:
            raise read.error
        if self.sized and read.sizes:
            self.first_size = read.sizes[0]
        return list(read.sizes), read.ended

    def _read(self, read: '_Reading') -> None:
        try:
            with self.graph.as_default(), self._session() as session:
                session.run([tf.compat.v1.tables_initializer(), tf.compat.v1.local_variables_initializer()])
                while len(read.sizes) != read.at_most and not read.stopped:
                    read.sizes.append(int(session.run(self.size)))
        except tf.errors.OutOfRangeError:
            read.ended = True
        except tf.errors.OpError as error:
            read.error = error

    def _session(self) -> tf.compat.v1.Session:
        return tf.compat.v1.Session(config=self.session_config)


@dataclasses.dataclass
class _Reading:
    """What a thread has read so far."""

    sizes: list[int]
    at_most: int | None
    stopped: bool = False
    ended: bool = False
    error: tf.errors.OpError | None = None


def _size_of(features: Any, labels: Any) -> tuple[tf.Tensor, bool]:
    """Returns the size of a batch, a tensor that reads the batch to tell, and whether there is a batch dimension."""
    sizes = tf.compat.v1.get_collection(BATCH_SIZES)
    components = tf.nest.flatten((features, labels), expand_composites=True)
    with tf.control_dependencies([component for component in components if tf.is_tensor(component)]):
        return tf.identity(sizes[-1] if sizes else tf.constant(0, tf.int64)), bool(sizes)


class Rehearsal:
    """The graphs of one experiment, built with its own functions, each at most once.

    Attributes:
        built: mode or 'export' -> what was built.
    """

    def __init__(
        self,
        experiment: Experiment,
        config: tf.estimator.RunConfig,
        topology: Topology,
        model_fn: Callable,
        receiver_fn: Callable[[Any], Callable],
    ):
        """Takes what to build.

        Args:
            experiment: the input_fns and params.
            config: this task's RunConfig.
            topology: for this task's part of the training input.
            model_fn: with Estimator's full signature, as `bind_model_fn` returns it.
            receiver_fn: given the structure of the features, returns the serving_input_receiver_fn.
        """
        self._experiment = experiment
        self._config = config
        self._topology = topology
        self._model_fn = model_fn
        self._receiver_fn = receiver_fn
        self.built: dict[str, Built] = {}

    def train(self) -> Built:
        """Builds the training graph of one replica."""
        return self._build(_ModeKeys.TRAIN, self._experiment.train_input_fn)

    def evaluate(self) -> Built:
        """Builds the evaluation graph.

        Raises:
            UserError: the evaluation would never end.
        """
        built = self._build(_ModeKeys.EVAL, self._experiment.eval_input_fn)
        if self._experiment.eval_steps is None and built.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise UserError(
                'experiment.eval_input_fn repeats for ever and experiment.eval_steps is None: the evaluation would '
                'never end; bind eval_steps, or do not repeat (e.g. eval/my_input_fn.repeat = False)'
            )
        return built

    def evaluate_on_one_replica(self, config: tf.estimator.RunConfig) -> None:
        """Takes a RunConfig without a strategy for evaluation, for which the input may differ."""
        self._config = config
        if self.built.pop(_ModeKeys.EVAL, None):
            self.evaluate()

    def predict(self) -> Built:
        """Builds the prediction graph.

        Raises:
            UserError: the predictions would never end.
        """
        experiment = self._experiment
        name = 'predict_input_fn' if experiment.predict_input_fn else 'eval_input_fn'
        built = self._build(_ModeKeys.PREDICT, getattr(experiment, name))
        if built.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise UserError(f'experiment.{name} repeats for ever: the predictions would never end; do not repeat')
        predictions = built.spec.predictions
        for key, value in predictions.items() if isinstance(predictions, dict) else [('predictions', predictions)]:
            if getattr(value, 'shape', tf.TensorShape(None)).rank == 0:
                raise UserError(f'mode infer (PREDICT) of model_fn: prediction {key!r} has no batch dimension')
        return built

    def export(self) -> Built:
        """Builds the graph that an export holds."""
        if 'export' not in self.built:
            self.built['export'] = self.export_from(self.receiver_fn())
        return self.built['export']

    def export_from(self, receiver_fn: Callable) -> Built:
        """Builds the graph of an export that is fed by a serving_input_receiver_fn."""
        built = self._new()
        with built.graph.as_default():
            receiver = receiver_fn()
            labels = getattr(receiver, 'labels', None)
            built.spec = self._call_model_fn(receiver.features, labels, _ModeKeys.PREDICT)
        return built

    def receiver_fn(self) -> Callable:
        """Returns the serving_input_receiver_fn; where none is bound, from the features of an input_fn."""
        features = None
        if not callable(self._experiment.serving_input_receiver_fn):
            features = self.features()
        return self._receiver_fn(features)

    def features(self) -> Any:
        """Returns the structure of the features: of a graph that is there, else of the first input that can be made."""
        for built in self.built.values():
            if built.features is not None:
                return built.features
        experiment = self._experiment
        inputs = (
            (_ModeKeys.EVAL, experiment.eval_input_fn),
            (_ModeKeys.PREDICT, experiment.predict_input_fn),
            (_ModeKeys.TRAIN, experiment.train_input_fn),
        )
        for mode, input_fn in inputs:
            if input_fn is not None:
                built = self._new()
                with built.graph.as_default():
                    self._read_input(built, mode, input_fn)
                return built.features
        return None

    @property
    def variables(self) -> list[checkpoints.Variable]:
        """The variables of the training graph, without those that only the optimizer has where it was not built."""
        for name in (_ModeKeys.TRAIN, _ModeKeys.EVAL, _ModeKeys.PREDICT, 'export'):
            if name in self.built:
                return checkpoints.variables_of(self.built[name].graph)
        return []

    def warnings(self) -> list[str]:
        """Returns what is likely to be a mistake in the model_fn, a line each."""
        built = self.built.get(_ModeKeys.TRAIN)
        return specs.warnings(built.spec, built.graph) if built else []

    def _new(self) -> Built:
        return Built(tf.Graph(), session_config=self._config.session_config)

    def _build(self, mode: str, input_fn: Callable) -> Built:
        if mode not in self.built:
            built = self._new()
            with built.graph.as_default():
                features, labels = self._read_input(built, mode, input_fn)
                built.spec = self._call_model_fn(features, labels, mode)
                built.size, built.sized = _size_of(features, labels)
            self.built[mode] = built
        return self.built[mode]

    def _call_model_fn(self, features: Any, labels: Any, mode: str) -> tf.estimator.EstimatorSpec:
        tf.compat.v1.set_random_seed(self._config.tf_random_seed)
        tf.compat.v1.train.get_or_create_global_step()
        return self._model_fn(features, labels, mode, dict(self._experiment.params), self._config)

    def _read_input(self, built: Built, mode: str, input_fn: Callable) -> tuple[Any, Any]:
        """Puts the input into the current graph and returns a batch's features and labels."""
        context, strategy = None, getattr(self._config, _STRATEGIES.get(mode, ''), None)
        shard = self._topology.input_shard if mode == _ModeKeys.TRAIN else (1, 0)
        if mode == _ModeKeys.TRAIN or strategy is not None:
            replicas = strategy.num_replicas_in_sync if strategy is not None else 1
            context = tf.distribute.InputContext(*shard, replicas)
        bound = bind_input_fn(input_fn, self._config.tf_random_seed)
        built.data = batch = bound(mode, dict(self._experiment.params), self._config, context)
        built.input = built.graph.as_graph_def()
        if strategy is not None and not isinstance(built.data, _DATASET):
            name = f'RunConfig.{_STRATEGIES[mode]}'
            raise UserError(f'{name_of(input_fn)} returned tensors; {name} needs a tf.data.Dataset')
        if isinstance(built.data, _DATASET):
            iterator = tf.compat.v1.data.make_initializable_iterator(built.data)
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            batch = iterator.get_next()
        features, labels = batch if isinstance(batch, list | tuple) else (batch, None)
        with contextlib.suppress(TypeError):  # an iterator, a function ...
            built.features = tf.nest.map_structure(tf.type_spec_from_value, features)
        if built.features is None or isinstance(features, str):
            raise UserError(f'{name_of(input_fn)} returned {batch!r}; expected a tf.data.Dataset of (features, labels)')
        return features, None if mode == _ModeKeys.PREDICT else labels
