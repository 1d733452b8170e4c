"""The small files under `<model_dir>/run/` by which the tasks of a cluster tell each other start, progress and end.

Every task writes one file, its own, and rewrites it in place: no rename, so it works on object stores too. A reader
that meets half a record takes it for no news. No TensorFlow: the file system is handed in.
"""

import contextlib
import json
import socket
import threading
import time
import uuid
from typing import Any, Protocol

from estimator_trainer.topology import Task

# What a task is doing. A chief is `ending` from its last step on, while it waits for the workers and saves the last
# checkpoint, then `trained` (it may still evaluate), then `done`.
STARTING, TRAINING, ENDING, TRAINED, DONE, FAILED = 'starting', 'training', 'ending', 'trained', 'done', 'failed'


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
    """

    def __init__(self, directory: str, task: Task, run_id: str, files: FileSystem, peers: tuple[Task, ...]):
        self._directory = directory
        self._task = task
        self._run_id = run_id
        self._files = files
        self._lock = threading.Lock()
        self._record: dict[str, Any] = {
            'task': str(task),
            'host': socket.gethostname(),
            'run_id': run_id,
            'incarnation': uuid.uuid4().hex,
            'beat': 0,
            'state': STARTING,
        }
        self._last: dict[Task, dict[str, Any]] = {}
        self.started = time.time()
        before = self._read(task)
        if before.get('state') == TRAINING:
            # The task was killed while it trained, and what it had counted since is lost.
            self._record['took_over'] = before.get('time')
        self._old = {peer: _beat(self._read(peer)) for peer in peers}
        files.makedirs(directory)
        self.write()

    def write(self, **fields: Any) -> None:
        """Merges `fields` into this task's record and writes it; each write is also a heartbeat."""
        with self._lock:
            self._record.update(fields, time=time.time())
            self._record['beat'] += 1
            self._files.write(self._path(self._task), json.dumps(self._record))

    def peer(self, task: Task) -> dict[str, Any]:
        """Returns a peer's record in this run, or {} while there is none."""
        record = self._read(task)
        if self._run_id:
            return record if record.get('run_id') == self._run_id else {}
        return record if _beat(record) != self._old.get(task) else {}

    def _path(self, task: Task) -> str:
        return f'{self._directory}/{task.job}-{task.index}.json'

    def _read(self, task: Task) -> dict[str, Any]:
        try:
            text = self._files.read(self._path(task))
        except Exception:  # Missing, or a file system's own error: the caller asks again.
            return {}
        with contextlib.suppress(ValueError):  # Half written: no news.
            record = json.loads(text)
            if isinstance(record, dict):
                self._last[task] = record
        return self._last.get(task, {})


def _beat(record: dict[str, Any]) -> tuple[Any, Any]:
    return record.get('incarnation'), record.get('beat')
