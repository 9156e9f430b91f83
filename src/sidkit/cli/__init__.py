"""The command line: it parses, calls and prints, and contains no algorithm.

app.py               the application, and how errors end it
commands.py          every command, in the order of `sidkit --help`
NAME.py              `sidkit NAME`: its options, its help, and the call
options.py, ray.py   options that several commands share
parsing.py           sizes, seeds and recipes, read from the text of an option
inputs.py            the files that commands read
outputs.py           the files that commands write, checked before the work
printing.py, print_NAME.py   tables
terminal.py          progress bars
waiting.py           how threads wait
reference.py         docs/cli.md, generated from the commands
"""

from .app import application, main

__all__ = ["app", "main"]

app = application()
