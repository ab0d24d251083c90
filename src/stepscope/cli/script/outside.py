"""The process that stands outside: it starts the script's process, and outlives it.

`stepscope run` forks before anything heavy is loaded. The child goes on and runs the script; the
parent, which has neither NumPy nor threads, waits. It is a fork and not a new interpreter because
that costs a millisecond instead of a second start of Python, and the child has loaded already what
the parent needed to read the command line. Forking is safe: there is one thread.

Guarantees:

- the script dies with the parent (the kernel sends it SIGKILL), however the parent ends;
- both are in one process group. What the terminal sends (Control-C, Control-Z, a new size) reaches
  the script by itself and once, and the parent does nothing about it; what somebody sends to the
  parent alone is passed on; what the script sends to its parent or to its group is not sent back.
  What somebody sends to the group (`kill -- -GROUP`) reaches the script once, too: a third process,
  the witness, does nothing but be in the group, and what lies in wait for it was sent to all;
- when the script has stopped, the parent stops, so that a shell sees a stopped job, and does not
  read from the terminal before; it goes on when the script does, and where only the parent is
  continued, it has the script go on. It stops by SIGSTOP, whatever stopped the script: every other
  signal would have to be unblocked for that, and a second Control-Z that came before it is blocked
  again would stop the parent while the script still reads;
- the parent keeps open no file but standard error: who waits for the end of the script's output, or
  writes to its input, sees the script close them;
- the parent ends as the script did: with its exit code, or by the same signal, dumping no core.

SIGSTOP sent to the parent alone stops the parent alone: nobody can pass it on.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import select
import signal
import struct
import sys
import time
from typing import Final, NamedTuple

__all__ = ["Notes", "Parent", "ProcessEnd", "die_of", "fork", "is_possible"]

STARTING, RECORDING, REPORTED = range(3)
"""How far the script's process came: nothing of the script ran; it may have; all was reported."""

_TERMINAL = frozenset({
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    signal.SIGWINCH,
})  # fmt: skip
"""What the terminal sends, to the whole group."""
_STOPPING = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
"""What stops a process that does nothing about it, but for SIGSTOP, which nobody can wait for."""
_OWN = frozenset({
    signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGTRAP, signal.SIGSYS,
})  # fmt: skip
"""What nobody can wait for, and what says that the process that gets it is itself at fault."""
_SENT_BY_KERNEL = 0x80
_ANSWER_S = 2.0
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4


class Notes:
    """What the script's process tells the parent: a page of memory that both have.

    It needs no file descriptor, which a script may close, and it is there after any death.
    """

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    @property
    def stage(self) -> int:
        """STARTING, RECORDING or REPORTED."""
        return self._page[0]

    def recording(self) -> None:
        """The directory is ready and the script begins."""
        self._page[8:16] = struct.pack("q", time.monotonic_ns())
        self._page[0] = RECORDING

    def reported(self) -> None:
        """All that there is to say is said by the script's process."""
        self._page[0] = REPORTED

    @property
    def began_ns(self) -> int:
        """When the script began, by the monotonic clock."""
        began: int = struct.unpack("q", self._page[8:16])[0]
        return began


class ProcessEnd(NamedTuple):
    """How the script's process ended: by a signal, or with an exit code."""

    signal: int
    """0 where it ended by itself."""
    code: int
    at_ns: int
    """When, by the monotonic clock."""


def is_possible() -> bool:
    """Whether this process can be forked and its signals waited for: Linux, and one thread.

    A debugger or a profiler may have started others; what they hold a fork would hold forever.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    except OSError:
        return False


def fork() -> Parent | Notes:
    """Go on as two processes: the parent gets a `Parent`, the script's process its `Notes`."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    notes = Notes()
    parent = os.getpid()
    # From here on nothing gets lost: what comes for the parent lies in wait for it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _OWN)
    ignored = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    if ignored:
        # Whoever ignores it is not told how a child ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child:
        return Parent(child, notes, before)
    _die_with(parent)
    if ignored:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return notes


def _die_with(parent: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It had died before the kernel was told.
        os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


class Parent:
    """The parent's side: waits for the script's process to end, with every signal blocked."""

    def __init__(self, child: int, notes: Notes, mask: set[signal.Signals | int]) -> None:
        self.notes = notes
        self.child: Final = child
        """The script's process."""
        self._mask = mask
        self._stopped = False
        self._witness = _Witness()

    def wait(self) -> ProcessEnd:
        """Pass signals on until the script's process has ended; signals are then as before."""
        _let_go_of_files()
        watched = signal.valid_signals() - _OWN
        self._witness.begin()
        while True:
            ended = self._look()
            if ended is not None:
                break
            came = signal.sigwaitinfo(watched)
            if came.si_signo == signal.SIGCONT:
                self._look()
                if self._stopped:
                    os.kill(self.child, signal.SIGCONT)
            elif came.si_signo != signal.SIGCHLD and not self._reached_the_script(came):
                os.kill(self.child, came.si_signo)
                if self._stopped and came.si_signo in _STOPPING:
                    # No news will come of it: the script has not gone on since the last one.
                    _stop()
        self._witness.end()
        # What came since was for the script.
        while signal.sigtimedwait(watched, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return ended

    def _reached_the_script(self, came: signal.struct_siginfo) -> bool:
        """Whether the script's process has got this signal, too, or sent it."""
        if self._witness.saw(came.si_signo):
            # What waits for us by now came with it, or was one with it for the witness.
            while signal.sigtimedwait({came.si_signo}, 0) is not None:
                self._witness.saw(came.si_signo)
            return True
        if came.si_code == _SENT_BY_KERNEL:
            if came.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid():
                return False  # a terminal that is closed tells the leader of its session alone
            return came.si_signo in _TERMINAL
        return came.si_pid == self.child

    def _look(self) -> ProcessEnd | None:
        """See how the script's process is, and stop with it; how it ended, once it has."""
        while True:
            found, status = os.waitpid(self.child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if not found:
                return None
            if os.WIFSTOPPED(status):
                self._stopped = True
                _stop()
            elif os.WIFCONTINUED(status):
                self._stopped = False
            elif os.WIFSIGNALED(status):
                return ProcessEnd(os.WTERMSIG(status), 0, time.monotonic_ns())
            else:
                return ProcessEnd(0, os.WEXITSTATUS(status), time.monotonic_ns())


class _Witness:
    """A process of our group that does nothing: what lies in wait for it was sent to the group.

    A signal to a group is sent to its newest member first (Linux), so that it lies in wait for the
    witness when the parent sees it. Asked about a signal, the witness takes it and says so.
    """

    def __init__(self) -> None:
        self._process = 0

    def begin(self) -> None:
        """Start it; every signal is blocked, and stays so in it."""
        parent = os.getpid()
        question, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        # Without processes to spare there is no witness, and what a group gets comes twice.
        with contextlib.suppress(OSError):
            self._process = os.fork()
            if not self._process:
                _die_with(parent)
                os.close(2)
                while asked := os.read(question, 1):
                    os.write(answer, bytes([signal.sigtimedwait(set(asked), 0) is not None]))
        os.close(question)
        os.close(answer)

    def saw(self, number: int) -> bool:
        """Whether it got this signal as well."""
        if not self._process:
            return False
        with contextlib.suppress(BrokenPipeError):
            os.write(self._ask, bytes([number]))
            if select.select([self._answer], [], [], _ANSWER_S)[0]:
                return os.read(self._answer, 1) == b"\x01"
        # Somebody killed or stopped it.
        self.end()
        return False

    def end(self) -> None:
        """End it."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self._process = 0


def _let_go_of_files() -> None:
    """Keep standard error alone, for the report."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))  # the directory that was listed is closed already


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def die_of(number: int) -> None:
    """End by a signal, as the script did; the core dump, if any, is the script's."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    _prctl(_PR_SET_DUMPABLE, 0)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
