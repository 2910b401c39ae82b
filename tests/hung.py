"""A thread that stands still while the rest of its process goes on, as one does that waits for a
disk which does not answer. It is held by ptrace, until it is let go or the caller ends."""

import contextlib
import ctypes
import os
import pathlib

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_ALL = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def ptrace(request, thread):
    none = ctypes.c_void_p(0)
    if LIBC.ptrace(ctypes.c_long(request), ctypes.c_long(thread), none, none) == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace: {os.strerror(error)}")


def threads(process, name):
    """The ids of a process's threads of that name."""
    tasks = pathlib.Path(f"/proc/{process}/task").iterdir()
    return [int(task.name) for task in tasks if (task / "comm").read_text().strip() == name]


@contextlib.contextmanager
def held(process, name):
    """The threads of that name stand still meanwhile. For one thread of the caller, and for threads
    that no other process holds."""
    caught = threads(process, name)
    assert caught, f"no thread of {process} is called {name}"
    for thread in caught:
        ptrace(PTRACE_SEIZE, thread)
        ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WAIT_ALL)
    try:
        yield
    finally:
        for thread in caught:
            # It is gone if its process was killed.
            with contextlib.suppress(ProcessLookupError):
                ptrace(PTRACE_DETACH, thread)
