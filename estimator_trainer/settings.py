"""The trainer's own settings, bound in gin as `trainer.<field>`. No TensorFlow."""

import dataclasses

import gin

from estimator_trainer.errors import RestartableError, UserError

_LONGEST = 7 * 24 * 3600
_SHORTEST_PEER_TIMEOUT = 10
_END_POLICIES = ('all_workers', 'chief')
_UNEVEN_INPUTS = ('stop', 'pad')
# The modes that train; the others work with a checkpoint.
TRAINING_MODES = ('train_and_evaluate', 'train')


@dataclasses.dataclass(frozen=True)
class Settings:
    """How long things may take, and how they end.

    Attributes:
        startup_timeout: seconds that a task waits for the peers it needs before it gives up (Kubernetes schedules
            and pulls images within 10 minutes on most clusters).
        peer_timeout: seconds without a heartbeat after which a peer counts as lost.
        grace_period: seconds that a task has to end by itself once it was told to.
        step_timeout: seconds after which tasks that make each step together give up when there was none, although all
            of them live.
        input_check_secs: seconds for which the records of an input are looked at before anything else is done with it.
        throttle_secs: least number of seconds between two evaluations during training; 0 evaluates every checkpoint.
        restart_exit_code: exit code of a failure that a restart may mend.
        end_policy: whose input must be used up before training on asynchronous workers ends, where nothing else ends
            it: 'all_workers', so that every example is seen, or that of the 'chief'.
        uneven_input: what synchronous workers do when the input of one ends before that of another: 'stop' together, or
            'pad': read the input that has ended again, until all of the others has been read.
        resume_input: whether an interrupted run, started again, leaves out the batches that its checkpoint holds.
    """

    startup_timeout: float = 600.0
    peer_timeout: float = 60.0
    grace_period: float = 20.0
    step_timeout: float = 1800.0
    input_check_secs: float = 5.0
    throttle_secs: float = 0.0
    restart_exit_code: int = RestartableError.exit_code
    end_policy: str = 'all_workers'
    uneven_input: str = 'stop'
    resume_input: bool = True

    def __post_init__(self):
        for name, expected in (('end_policy', _END_POLICIES), ('uneven_input', _UNEVEN_INPUTS)):
            if getattr(self, name) not in expected:
                raise UserError(
                    f'trainer.{name}: expected {" or ".join(map(repr, expected))}, found {getattr(self, name)!r}'
                )
        for field in dataclasses.fields(self)[:-3]:
            value = getattr(self, field.name)
            # A week at most: the system's timers do not take every number.
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LONGEST:
                raise UserError(f'trainer.{field.name}: expected a number from 0 to {_LONGEST}, found {value!r}')
        if not isinstance(self.resume_input, bool):
            raise UserError(f'trainer.resume_input: expected True or False, found {self.resume_input!r}')
        if not isinstance(self.restart_exit_code, int) or not 3 <= self.restart_exit_code <= 255:
            raise UserError(f'trainer.restart_exit_code: expected 3 to 255, found {self.restart_exit_code!r}')


# A function, since gin would change the constructor of the class itself.
@gin.configurable(module='estimator_trainer')
def trainer(
    startup_timeout: float = Settings.startup_timeout,
    peer_timeout: float = Settings.peer_timeout,
    grace_period: float = Settings.grace_period,
    step_timeout: float = Settings.step_timeout,
    input_check_secs: float = Settings.input_check_secs,
    throttle_secs: float = Settings.throttle_secs,
    restart_exit_code: int = Settings.restart_exit_code,
    end_policy: str = Settings.end_policy,
    uneven_input: str = Settings.uneven_input,
    resume_input: bool = Settings.resume_input,
) -> Settings:
    """Returns the settings as gin has bound them; see `Settings`."""
    if isinstance(peer_timeout, int | float) and peer_timeout < _SHORTEST_PEER_TIMEOUT:
        raise UserError(
            f'trainer.peer_timeout: expected at least {_SHORTEST_PEER_TIMEOUT}, since heartbeats come every 5 s; '
            f'found {peer_timeout!r}'
        )
    return Settings(
        startup_timeout,
        peer_timeout,
        grace_period,
        step_timeout,
        input_check_secs,
        throttle_secs,
        restart_exit_code,
        end_policy,
        uneven_input,
        resume_input,
    )
