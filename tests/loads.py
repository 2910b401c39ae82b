"""Load in the background of a test."""

import threading


class Load:
    """Threads that write until the load ends, and note in `changed` what came of it."""

    def __init__(self, *writers):
        """Each writer is a function, which ends soon after `is_ending`."""
        self.changed = threading.Condition()
        self.is_ending = False
        self.writers = [threading.Thread(target=writer) for writer in writers]

    def begin(self):
        """What has to be there before anything is written."""

    def await_more(self):
        raise NotImplementedError

    def await_that(self, is_so, seconds, what=""):
        """Waits until it is so, as writers note it."""
        with self.changed:
            assert self.changed.wait_for(is_so, timeout=seconds), what

    def __enter__(self):
        self.begin()
        for writer in self.writers:
            writer.start()
        self.await_more()
        return self

    def __exit__(self, *_):
        self.is_ending = True
        for writer in self.writers:
            writer.join()
