"""A task's start, heartbeat and end: signals, peers that are awaited, lost or finished. No TensorFlow; saves nothing.

While TensorFlow blocks in C++, Python runs neither signal handlers nor anything else in the main thread. So signals
and peers are watched by threads, which ask the main thread to stop (`stop`) and, when it does not within the grace
period, end the process.
"""

import contextlib
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from estimator_trainer import ledger as ledger_lib
from estimator_trainer.errors import RestartableError, UserError
from estimator_trainer.ledger import Ledger
from estimator_trainer.settings import Settings
from estimator_trainer.topology import CHIEF, LOCAL_CLUSTER, Task, Topology

_POLL_SECONDS = 0.5
_HEARTBEAT_SECONDS = 5.0
_REPORT_SECONDS = 30.0
# So much later than another a task may see that a step was the last.
_SECONDS_FOR_THE_SAME_STEP = 30.0
_SECONDS_BETWEEN_STEPS = 60.0  # more are worth a line
# Ours begin their ledger before they open their server.
_SECONDS_TO_BEGIN_A_LEDGER = 20.0
# One request can come as two signals: `timeout` and some launchers signal both the process and its group.
_SAME_SIGNAL_SECONDS = 1.0
# The part of the grace period in which a step may end by itself, before the state is saved in the middle of one: 8 s of
# the default 20, which are below the 30 that Kubernetes gives.
_PATIENCE = 0.4
_CHIEF_HAS_ENDED = (ledger_lib.ENDING, ledger_lib.TRAINED, ledger_lib.DONE)


class Stop(NamedTuple):
    """Why this process was told to stop, and the exit code that this means."""

    reason: str  # 'signal', 'chief_ended' or 'lost_peer'
    exit_code: int


class Lifecycle:
    """What happens to this process from outside.

    Attributes:
        stop: set once the process was told to stop. Who can stop in good order looks at it.
        training: whether a training session runs.
        needs_peers: whether it matters to this task that a peer fails or is lost.
        also_needs: peers beside `Topology.needs` without which training cannot go on, but can be saved.
        lost: which of these was lost, and how; '' as long as none was.
        release: gets a training out of its wait for these; called by a thread.
        watching: whether signals are watched.
        steps_together: whether this task makes steps together with its peers, and the last one is still to come.
        graceful: whether someone is looking at `stop` now; if not, a signal ends the process at once.
        emergency_save: saves the state of a training whose step does not end, and returns what to say of it; None
            where this task does not save. Called by a thread.
        last_words: what to add when the process is ended, such as the last checkpoint.
    """

    def __init__(self, say: Callable[[str], None]):
        self.stop: Stop | None = None
        self.training = False
        self.needs_peers = True
        self.steps_together = False
        self.also_needs: tuple[Task, ...] = ()
        self.lost = ''
        self.release: Callable[[], None] = lambda: None
        self.graceful = False
        self.settings = Settings()
        self.watching = False
        self.emergency_save: Callable[[], str] | None = None
        self.last_words: Callable[[], str] = lambda: ''
        self._say = say
        self._ledger: Ledger | None = None
        self._before_abort: list[Callable[[str, int], None]] = []
        self._closed = threading.Event()
        self._signal_time = 0.0

    @property
    def restarts(self) -> bool:
        """Whether this process was told to stop in such a way that it, or what restarts it, is to go on later."""
        return self.stop is not None and bool(self.stop.exit_code)

    @property
    def signalled(self) -> bool:
        """Whether a signal has told this process to stop."""
        return self.stop is not None and self.stop.reason == 'signal'

    def before_abort(self, callback: Callable[[str, int], None]) -> None:
        """Has `callback(message, exit_code)` called when a thread must end the process."""
        self._before_abort.append(callback)

    def abort(self, message: str, exit_code: int) -> None:
        """Ends the process now, from any thread: the main thread may be blocked for ever."""
        self._say(message)
        for callback in self._before_abort:
            try:
                callback(message, exit_code)
            except Exception as error:  # The process must end whatever a full disk or a lost mount says.
                self._say(f'while ending: {error}')
        os._exit(exit_code)

    # Signals.

    def watch_signals(self) -> None:
        """Handles SIGINT and SIGTERM from now on. To be called in the main thread, before TensorFlow is imported."""
        self.watching = True
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        # The C-level handler writes the signal's number even while the main thread is blocked.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        os.register_at_fork(after_in_child=_forget_signals)
        threading.Thread(target=self._signal_thread, args=(reader,), name='signals', daemon=True).start()

    def _signal_thread(self, reader: int) -> None:
        while number := os.read(reader, 1)[0]:
            if number not in (signal.SIGINT, signal.SIGTERM):
                continue
            self._on_signal(signal.Signals(number))

    def _on_signal(self, number: signal.Signals) -> None:
        code = 128 + number
        if self.signalled and time.monotonic() - self._signal_time < _SAME_SIGNAL_SECONDS:
            return
        at_once = self.signalled or not self.graceful
        self.stop = Stop('signal', code)
        if at_once:
            self.abort(f'{number.name}: ended', code)
        self._signal_time = time.monotonic()
        seconds = self.settings.grace_period
        self._say(f'{number.name}: stopping after this step, within {seconds:g} s; once more to end at once')
        self._later(_PATIENCE * seconds, lambda: self._save_at_once(number, _PATIENCE * seconds))
        self._later(
            seconds,
            lambda: self.abort(f'{number.name}: not stopped within {seconds:g} s: ended{self.last_words()}', code),
        )

    def _save_at_once(self, number: signal.Signals, seconds: float) -> None:
        if not self.training or self.emergency_save is None:
            return
        try:
            what = self.emergency_save()
        except Exception as error:  # The other timer ends the process, and tells which checkpoint is the last.
            self._say(f'cannot save: {error}')
            return
        self.abort(f'{number.name}: no step has ended within {seconds:g} s: {what}', 128 + number)

    def _later(self, seconds: float, function: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, lambda: None if self._closed.is_set() else function())
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Stops watching: the process is about to end by itself."""
        self._closed.set()
        self._before_abort.clear()

    # Peers.

    def watch_peers(
        self, topology: Topology, ledger: Ledger, progress: Callable[[], dict[str, Any]] = lambda: {}
    ) -> None:
        """Sends heartbeats, with what `progress` returns, and watches those of the peers that this task needs."""
        self._ledger = ledger
        for target in (lambda: self._heartbeat_thread(topology, progress), lambda: self._peer_thread(topology)):
            threading.Thread(target=target, daemon=True).start()

    def _heartbeat_thread(self, topology: Topology, progress: Callable[[], dict[str, Any]]) -> None:
        steps, since, said = None, time.monotonic(), 0.0
        while not self._closed.wait(_HEARTBEAT_SECONDS):
            try:
                fields = progress()
                if not self.steps_together or fields.get('steps') != steps:
                    steps, since, said = fields.get('steps'), time.monotonic(), 0.0
                said = self._check_steps(steps, time.monotonic() - since, said)
                for task in topology.tasks if topology.is_chief else ():
                    self._ledger.peer(task)  # so that its age is known when it matters
                if rival := self._ledger.rival():
                    self._ledger.retire()
                    self.abort(f'error: {ledger_lib.in_use("model_dir", rival)}', UserError.exit_code)
                self._ledger.write(**fields)
            except Exception as error:  # One failed write is no reason to die; peers notice if it goes on.
                self._say(f'cannot write the heartbeat: {error}')

    def _check_steps(self, steps: int | None, seconds: float, said: float) -> float:
        """Says that there has been no step for so long, or gives up; returns when it was said last."""
        what = f'no step for {seconds:.0f} s, after {steps or 0:,} steps, although no task is lost'
        if seconds > self.settings.step_timeout:
            limit = f'gave up after {self.settings.step_timeout:g} s (trainer.step_timeout)'
            self.abort(f'{what}: {limit}{self.last_words()}', self.settings.restart_exit_code)
        if seconds - said > _SECONDS_BETWEEN_STEPS:
            self._say(f'{what}; waiting ({seconds:.0f} of {self.settings.step_timeout:g} s)')
            return seconds
        return said

    def _peer_thread(self, topology: Topology) -> None:
        seen: dict[Task, tuple[object, float, str]] = {}
        done: dict[Task, float] = {}
        while not self._closed.wait(_POLL_SECONDS):
            for peer in (*topology.needs, *self.also_needs) if self.needs_peers else ():
                lose = self._lose if peer in topology.needs else self._stop_for
                record = self._ledger.peer(peer)
                state = record.get('state')
                if state == ledger_lib.FAILED:
                    lose(f'{peer} failed: {record.get("cause", "unknown cause")}')
                if peer == CHIEF and state in _CHIEF_HAS_ENDED and self.stop is None:
                    self._follow_chief(record.get('cause'), topology.task.job)
                beat = (record.get('incarnation'), record.get('beat'))
                known = seen[peer][0][0] if peer in seen else None
                if self.training and topology.is_collective and record and known not in (None, beat[0]):
                    self._lose(f'{peer} was started anew, and each step needs what it was before')
                if record and (peer not in seen or seen[peer][0] != beat):
                    seen[peer] = (beat, time.monotonic(), record.get('host', topology.address(peer)))
                if self.steps_together and state == ledger_lib.DONE and peer not in done:
                    done[peer] = time.monotonic()
                if self.steps_together and time.monotonic() - done.get(peer, math.inf) > _SECONDS_FOR_THE_SAME_STEP:
                    self._lose(f'{peer} has ended its training, and this task waits for it in a step')
                if topology.source == LOCAL_CLUSTER and self._ledger.is_gone(peer):
                    lose(f'lost {peer}: its process is gone')
                # One that was seen and whose record cannot be read any more is as silent as one that has stopped.
                silent = time.monotonic() - seen[peer][1] if peer in seen else 0.0
                if state != ledger_lib.DONE and silent > self.settings.peer_timeout:
                    lose(f'lost {peer} on {seen[peer][2]}: no heartbeat for {silent:.0f} s')

    def _follow_chief(self, cause: str | None, job: str) -> None:
        """Stops, since the chief does; with a `cause` it will be restarted, and so must this task be."""
        self.stop = Stop('chief_ended', self.settings.restart_exit_code if cause else 0)
        if cause:
            self._say(f'{CHIEF} is {cause}: stopping')
        if job == 'worker':
            self._later(self.settings.grace_period if self.training else 1.0, self._leave)

    def stop_with(self, peers: Sequence[Task]) -> None:
        """Stops since peers do, who were told to by a signal; those with whom this task makes each step."""
        if self.stop is None:
            who = ', '.join(map(str, peers))
            self.stop = Stop('signal_to_peer', self.settings.restart_exit_code)
            self.needs_peers = False  # they end, too
            seconds = self.settings.grace_period
            self._say(f'{who} was told to stop by a signal: all tasks stop after this step, within {seconds:g} s')
            message = f'{who} was told to stop, and the training has not ended within {seconds:g} s: ended'
            self._later(seconds, lambda: self.abort(f'{message}{self.last_words()}', self.stop.exit_code))

    def _leave(self) -> None:
        """Ends a worker that is blocked, in a step or in its start, although nobody will serve it any more."""
        if not self.stop.exit_code:
            with contextlib.suppress(Exception):  # It must end, whatever the file system says.
                self._ledger.write(state=ledger_lib.DONE, exit=0)
        self.abort('the chief has ended: nothing left to do', self.stop.exit_code)

    def _lose(self, message: str) -> None:
        if not self._closed.is_set():
            code = self.stop.exit_code if self.signalled else self.settings.restart_exit_code
            self.abort(f'{message}{self.last_words()}', code)

    def _stop_for(self, message: str) -> None:
        """Stops, since a peer was lost that training needs: there is time to save, for the ps are still there."""
        if self.lost or not self.also_needs or self._closed.is_set():
            return
        seconds, code = self.settings.grace_period, self.settings.restart_exit_code
        self.lost = message
        self.stop = self.stop or Stop('lost_peer', code)
        self._say(f'{message}: stopping')
        self._later(
            seconds, lambda: self.abort(f'{message}: not stopped within {seconds:g} s{self.last_words()}', code)
        )
        try:
            self.release()
        except Exception as error:  # The timer ends the process.
            self._say(f'cannot end the step: {error}')

    def wait_for_peers(self, topology: Topology, check: Callable[[], None] = lambda: None) -> None:
        """Waits until the peers that this task needs have started (and answer, where it connects to them).

        Meanwhile calls `check` again and again, which may raise an error.

        Raises:
            RestartableError: they have not within `startup_timeout`.
        """

        answering: dict[Task, float] = {}

        def is_a_server_of_others(peer: Task) -> bool:
            """Whether a ps keeps no ledger but answers all the same: SageMaker's launcher runs servers of its own."""
            if peer.job != 'ps' or not _answers(topology.address(peer)):
                answering.pop(peer, None)
                return False
            return time.monotonic() - answering.setdefault(peer, time.monotonic()) > _SECONDS_TO_BEGIN_A_LEDGER

        def missing() -> list[str]:
            check()
            result = []
            for peer in topology.needs:
                if not self._ledger.peer(peer):
                    if is_a_server_of_others(peer):
                        continue
                    result.append(f'{peer} ({topology.address(peer)}): not started')
                elif peer in topology.connects_to and not _answers(topology.address(peer)):
                    result.append(f'{peer} ({topology.address(peer)}): does not answer')
            return result

        self.wait_until(lambda: self.stop is not None or not missing(), self.settings.startup_timeout, missing)
        if self.stop is None and missing():
            raise RestartableError(
                f'{topology.task} gave up after {self.settings.startup_timeout:g} s (trainer.startup_timeout) waiting '
                f'for {", ".join(missing())}'
            )

    def wait_until(self, condition: Callable[[], bool], seconds: float, missing: Callable[[], list[str]]) -> bool:
        """Waits for a condition with a deadline, and says every 30 s what is missing; returns whether it came true."""
        start = reported = time.monotonic()
        while not condition():
            now = time.monotonic()
            if now - start > seconds:
                return False
            if now - reported > _REPORT_SECONDS:
                limit = '' if seconds == math.inf else f' of {seconds:g}'
                self._say(f'waiting for {", ".join(missing())} ({now - start:.0f}{limit} s)')
                reported = now
            time.sleep(_POLL_SECONDS)
        return True


def _forget_signals() -> None:
    """Gives a forked child its own signal handling: its signals are not ours."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(':')
    try:
        socket.create_connection((host.strip('[]'), int(port)), timeout=5).close()
    except OSError:
        return False
    return True
