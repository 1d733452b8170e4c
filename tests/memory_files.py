"""A file system in memory, for the ledger."""


class MemoryFiles(dict):
    """path -> text; what a test puts in, a task reads."""

    def makedirs(self, path):
        pass

    def write(self, path, text):
        self[path] = text

    def read(self, path):
        return self[path]
