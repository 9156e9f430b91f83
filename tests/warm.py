"""Processes to kill, forked from one that has imported everything: a kill then hits the work, not the imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SERVER = """
import json, os, sys, traceback
exec(sys.argv[1])  # what all children share
print("ready", flush=True)
for line in sys.stdin:
    code, arguments, output = json.loads(line)
    child = os.fork()
    if not child:
        status = 1
        try:
            stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(stream, 1), os.dup2(stream, 2)
            sys.argv = ["sidkit", *arguments]
            exec(code, {"__name__": "__main__"})
            status = 0
        except SystemExit as error:
            status = error.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(status)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
COMMAND = "import sidkit.cli; sidkit.cli.main()"


class Warm:
    """with Warm("import sidkit.cli") as warm: warm.start(COMMAND, "fit", ...).kill()"""

    def __init__(self, prelude: str, folder: Path) -> None:
        self.output = folder / "output.txt"
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER, prelude], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.server.stdout.readline() == "ready\n"

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_) -> None:
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()

    def start(self, code: str, *arguments: object) -> Child:
        """Run code in a child; its output goes to a file. One child at a time."""
        print(json.dumps([code, [str(one) for one in arguments], str(self.output)]), file=self.server.stdin, flush=True)
        return Child(self, int(self.server.stdout.readline()))

    def run(self, code: str, *arguments: object) -> None:
        """Run code to its end, which must be a good one."""
        assert self.start(code, *arguments).wait() == 0, self.output.read_text()


class Child:
    def __init__(self, warm: Warm, process: int) -> None:
        self.warm, self.process = warm, process

    def wait(self) -> int:
        """The exit status, negative for a signal."""
        return int(self.warm.server.stdout.readline())

    def kill(self) -> bool:
        """Whether it was still at work when it was killed."""
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL
