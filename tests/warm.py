"""Processes to kill or interrupt, forked from one that has imported everything.

A signal then hits the work, not the imports, and hundreds of children cost the imports of one process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SERVER = """
import json, os, signal, sys, traceback
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores Ctrl-C
exec(sys.argv[1])  # what all children share
print("ready", flush=True)
for line in sys.stdin:
    code, arguments, *streams = json.loads(line)
    child = os.fork()
    if not child:
        status = 1
        try:
            for number, path in enumerate(streams, 1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
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
PATIENCE = 60  # seconds


class Warm:
    """with Warm("import sidkit.cli", folder) as warm: warm.start(COMMAND, "fit", ...).kill()"""

    def __init__(self, prelude: str, folder: Path) -> None:
        self.output, self.errors = folder / "output.txt", folder / "errors.txt"
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
        """Run code in a child; what it prints goes to the files output and errors. One child at a time."""
        for stream in (self.output, self.errors):
            stream.unlink(missing_ok=True)
        words = [code, [str(one) for one in arguments], str(self.output), str(self.errors)]
        print(json.dumps(words), file=self.server.stdin, flush=True)
        return Child(self, int(self.server.stdout.readline()))

    def run(self, code: str, *arguments: object) -> str:
        """Run code to its end, which must be a good one; its standard output."""
        assert self.start(code, *arguments).wait() == 0, self.errors.read_text()
        return self.output.read_text()


class Child:
    def __init__(self, warm: Warm, process: int) -> None:
        self.warm, self.process = warm, process

    def wait(self) -> int:
        """The exit status, negative for a signal."""
        return int(self.warm.server.stdout.readline())

    def kill(self) -> bool:
        """Whether it was still at work when it was killed."""
        return self.end(signal.SIGKILL) == -signal.SIGKILL

    def end(self, number: int) -> int:
        """The exit status after a signal, if it had not ended before."""
        with suppress(ProcessLookupError):
            os.kill(self.process, number)
        return self.wait()

    def lines(self, count: int, stream: Path | None = None) -> list[str]:
        """The first lines of its standard output, or of another stream, once it has printed them."""
        path = stream or self.warm.output
        self.until(lambda: len(_lines(path)) >= count)
        return _lines(path)[:count]

    def until(self, happened) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, self.warm.errors.read_text()
            time.sleep(0.002)


def _lines(path: Path) -> list[str]:
    """The complete lines of a file, of which there are none before it exists."""
    return path.read_text().split("\n")[:-1] if path.exists() else []
