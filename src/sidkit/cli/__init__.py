"""The command line: parses, calls, prints. No algorithm lives here.

commands.py          every command, in the order of `sidkit --help`: the one place where a command is registered
NAME.py              `sidkit NAME`: its options, its help, and the call
options.py, ray.py   options that several commands share, and how their texts are read
terminal.py          progress bars
printing.py, print_judgement.py   tables
reference.py         docs/cli.md, made from the commands
app.py               the application, and how errors end it
"""

from .app import app, main
from .commands import register

__all__ = ["app", "main"]

register(app)
