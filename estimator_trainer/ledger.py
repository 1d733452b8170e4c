"""The small files under `<model_dir>/run/` by which the tasks of a cluster tell each other start, progress and end.

Every task writes one file, its own, and rewrites it in place: no rename, so it works on object stores too. A reader
that meets half a record takes it for no news. No TensorFlow: the file system is handed in.
"""

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from estimator_trainer.topology import CHIEF, LOCAL, Task

# What a task is doing. A chief is `ending` from its last step on, while it waits for the workers and saves the last
# checkpoint, then `trained` (it may still evaluate), then `done`.
STARTING, TRAINING, ENDING, TRAINED, DONE, FAILED = 'starting', 'training', 'ending', 'trained', 'done', 'failed'
SERVING, EVALUATING = 'serving', 'evaluating'  # ps and evaluator, once the chief is there
ENDED = (DONE, FAILED)
# Heartbeats come every 5 s.
_SECONDS_TO_SEE_A_HEARTBEAT = 12.0


class FileSystem(Protocol):
    """What the ledger needs of a file system."""

    def makedirs(self, path: str) -> None:
        """Creates a directory and its parents; an existing one is fine."""

    def write(self, path: str, text: str) -> None:
        """Replaces a file's content."""

    def read(self, path: str) -> str:
        """Returns a file's content; raises an exception where there is none."""


class Ledger:
    """This task's record, and a view of its peers'.

    Records of an earlier run in the same model_dir are not seen: by the run id where the launcher gave one, else by
    being what was there when this task started, without a heartbeat since.

    Attributes:
        begun: whether this task has written its record; nothing is written before `begin`.
        before: the record of the process that was this task before, {} where there is none.
        started: wall time of this process's start.
    """

    def __init__(
        self, directory: str, task: Task, run_id: str, files: FileSystem, peers: tuple[Task, ...], **facts: Any
    ):
        """Reads what is there.

        Args:
            directory: `<model_dir>/run`.
            task: whose record this is.
            run_id: see `Topology.run_id`.
            files: the file system.
            peers: the tasks that may be asked for.
            **facts: more of the record, which does not change.
        """
        self.begun = False
        self._directory = directory
        self._task = task
        self._run_id = run_id
        self._files = files
        self._lock = threading.Lock()
        self._record: dict[str, Any] = {
            'task': str(task),
            'host': socket.gethostname(),
            'pid': os.getpid(),
            'run_id': run_id,
            'incarnation': uuid.uuid4().hex,
            'started': time.time(),
            'beat': 0,
            'state': STARTING,
            **facts,
        }
        self._last: dict[Task, dict[str, Any]] = {}
        self._seen: dict[Task, tuple[Any, float]] = {}
        self.started = self._record['started']
        self.before = self._read(task)
        if self.before.get('state') == TRAINING:
            # The task was killed while it trained, and what it had counted since is lost.
            self._record['took_over'] = self.before.get('time')
        self._old = {peer: _beat(self._read(peer)) for peer in peers}
        self._accepted: set[Task] = set()

    def begin(self) -> None:
        """Writes this task's first record."""
        self._files.makedirs(self._directory)
        self.begun = True
        self.write()

    def retire(self) -> None:
        """Writes no more: the file belongs to another process."""
        self.begun = False

    def write(self, **fields: Any) -> None:
        """Merges `fields` into this task's record and, once it has begun, writes it: a heartbeat, too."""
        with self._lock:
            self._record.update(fields, time=time.time())
            self._record['beat'] += 1
            if self.begun:
                self._files.write(self._path(self._task), json.dumps(self._record))

    def peer(self, task: Task) -> dict[str, Any]:
        """Returns a peer's record in this run, or {} while there is none."""
        record = self._read(task)
        if task in self._accepted:
            return record
        if self._run_id:
            return record if record.get('run_id') == self._run_id else {}
        return record if _beat(record) != self._old.get(task) else {}

    def own(self) -> dict[str, Any]:
        """Returns this task's record."""
        with self._lock:
            return dict(self._record)

    def age(self, task: Task) -> float:
        """Returns for how many seconds a task's record has been seen unchanged, by this process's own clock."""
        return time.monotonic() - self._seen.get(task, (None, time.monotonic()))[1]

    def is_gone(self, task: Task) -> bool:
        """Whether a task that has not ended by its record was a process of this host that is there no more."""
        record = self.peer(task)
        # Once more after the look at the process: it may have written its end meanwhile.
        return bool(record) and record.get('state') not in ENDED and _is_gone(record) and self.peer(task) == record

    def old(self, task: Task) -> dict[str, Any]:
        """Returns the record of a peer that has not been heard of in this run, {} where there is none."""
        return {} if self.peer(task) else self._read(task)

    def accept(self, task: Task) -> None:
        """Takes the record that a peer has left for one of this run."""
        self._accepted.add(task)

    def rival(self) -> dict[str, Any]:
        """Returns the record of another process that takes itself for this task, if that one is to stay, else {}.

        Both see the other's record in the place of their own; the one that started first stays.
        """
        record = self._read(self._task)
        mine = (self.started, self._record['incarnation'])
        if record.get('incarnation') in (None, self._record['incarnation'], self.before.get('incarnation')):
            return {}
        return record if (record.get('started', 0), record['incarnation']) < mine else {}

    def occupied(self, say: Callable[[str], None]) -> dict[str, Any]:
        """Returns the record of a living process that is this task already, {} where there is none.

        Where only its heartbeat can tell, says so and waits for that.
        """
        record = self.before
        if not record or record.get('state') in ENDED or _is_gone(record):
            return {}
        seconds = _SECONDS_TO_SEE_A_HEARTBEAT
        who = f'{record.get("task")} on {record.get("host")}'
        say(f'looking for {seconds:g} s whether {who} still uses {self._directory}')
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(seconds / 20)
            now = self._read(self._task)
            if _beat(now) != _beat(record):
                return {} if now.get('state') in ENDED else now
        return {}

    def _path(self, task: Task) -> str:
        # Who trains alone is the chief of whatever else looks into model_dir.
        job, index = CHIEF if task == LOCAL else task
        return f'{self._directory}/{job}-{index}.json'

    def _read(self, task: Task) -> dict[str, Any]:
        try:
            text = self._files.read(self._path(task))
        except Exception:  # Missing, or a file system's own error: the caller asks again.
            return {}
        with contextlib.suppress(ValueError):  # Half written: no news.
            record = json.loads(text)
            if isinstance(record, dict):
                self._last[task] = record
                if task not in self._seen or self._seen[task][0] != _beat(record):
                    self._seen[task] = (_beat(record), time.monotonic())
        return self._last.get(task, {})


def row(task: Task, record: dict[str, Any]) -> dict[str, Any]:
    """Returns what a record says of a task, as in `Summary.tasks`."""
    began, last = record.get('started'), record.get('time')
    return {
        'task': str(task),
        'host': record.get('host'),
        'status': record.get('state', 'not started'),
        'steps': record.get('steps'),
        'examples': record.get('examples'),
        'seconds': round(last - began, 1) if began and last else None,
        'exit': record.get('exit'),
    }


def in_use(model_dir: str, record: dict[str, Any]) -> str:
    """Returns the message for who finds the record of a living process in the place of its own."""
    return (
        f'{model_dir} is in use: {record.get("task")} is process {record.get("pid")} on {record.get("host")}, '
        f'{record.get("state")}; stop it, or choose another --model_dir'
    )


def _is_gone(record: dict[str, Any]) -> bool:
    """Whether the process that has written the record is known to have ended: it ran on this host, under another id."""
    pid = record.get('pid')
    if record.get('host') != socket.gethostname() or not isinstance(pid, int):
        return False
    if pid == os.getpid():  # a container's first process has the same id each time
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def _beat(record: dict[str, Any]) -> tuple[Any, Any]:
    return record.get('incarnation'), record.get('beat')
