"""python -m sidkit"""

from .cli import main

main()
