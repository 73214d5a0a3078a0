"""Starting nodes that end with this program."""

from __future__ import annotations

import json
import os
import queue
import secrets
import shutil
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

from . import _hanare
from .errors import NoNode

#: Bytes that a node of this program's own lends at most, unless it is told: a quarter of what the machine has, up to that.
_MEMORY_MAX = 4 << 30


def program() -> str:
    """Return the path of the command `hanare`: that of ``HANARE_COMMAND``, of this installation, or of the search path."""
    told = os.environ.get("HANARE_COMMAND")
    if told:
        return told
    for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        beside = Path(folder) / "hanare"
        if beside.is_file():
            return str(beside)
    found = shutil.which("hanare")
    if found is None:
        raise NoNode("no node answers, and the command `hanare` that starts one is not installed beside this Python")
    return found


def _memory_default() -> int:
    available = _hanare.available_memory() or _MEMORY_MAX
    return min(available // 4, _MEMORY_MAX)


def _key_file() -> int:
    """Draw a key for a pool of this program alone: a file of mode 0600 without a name, gone with its descriptor."""
    key = os.memfd_create("hanare-key", os.MFD_CLOEXEC)
    os.fchmod(key, 0o600)
    os.write(key, _hanare.draw_key().encode())
    return key


class Nodes:
    """Nodes that end with this program, or with `stop`.

    Attributes
    ----------
    sockets : list of str
        The socket of each, for `connect`.
    processes : list of subprocess.Popen
        Their processes.
    """

    def __init__(self, count: int, memory: int | str | None = None) -> None:
        self.sockets: list[str] = []
        self.processes: list[subprocess.Popen[str]] = []
        self._key = _key_file()
        self._orders: queue.SimpleQueue[tuple[list[str], queue.SimpleQueue[object]] | None] = queue.SimpleQueue()
        # A node ends with the thread that started it: with one that lasts as long as the program.
        threading.Thread(target=self._start_all, name="hanare nodes", daemon=True).start()
        mark = secrets.token_hex(8)
        lent = str(memory if memory is not None else _memory_default())
        address = ""
        for number in range(count):
            socket = f"@hanare-{mark}-{number}"
            words = [program(), "node", "--json", "--memory", lent, "--listen", "127.0.0.1:0", "--name", f"node{number}"]
            words += ["--socket", socket, "--embedded-in", str(os.getpid()), "--number", str(number)]
            words += ["--key", f"/proc/{os.getpid()}/fd/{self._key}"]
            words += ["--join", address] if address else []
            told = self._start(words)
            address = address or told["address"]
            self.sockets.append(socket)

    def _start(self, words: list[str]) -> dict[str, str]:
        answer: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._orders.put((words, answer))
        process = answer.get()
        if isinstance(process, BaseException):
            raise process
        assert isinstance(process, subprocess.Popen) and process.stdout is not None
        self.processes.append(process)
        line = process.stdout.readline()
        try:
            told = json.loads(line)
        except ValueError:
            told = {"error": f"it said {line!r} in place of its address"}
        if "error" in told:
            self.stop()
            raise NoNode(f"no node could be started: {told['error']}")
        return told

    def _start_all(self) -> None:
        while (order := self._orders.get()) is not None:
            words, answer = order
            try:
                # Its own process group: Ctrl-C is meant for the program.
                made = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, process_group=0)
            except OSError as error:
                answer.put(error)
            else:
                answer.put(made)
        # The nodes end with this thread, at the latest.

    def stop(self) -> None:
        """End all nodes, in good order where they can, the first of them last."""
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._orders.put(None)
        self.processes, self.sockets = [], []
        if self._key >= 0:
            os.close(self._key)
            self._key = -1
