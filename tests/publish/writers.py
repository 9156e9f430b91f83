"""Processes that append to one registry at the same time, or are killed while they do.

    python tests/publish/writers.py together registry.db --writers 8 --appends 6
    python tests/publish/writers.py killed registry.db --kills 200

Every writer draws items from one pool, so that they overlap, with random codes. It says which items it published once
`append` has returned. Afterwards all that was said must be true. Prints what was counted as JSON; an untruth is an
error. The processes are forked from this one, which has all imports.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time

import numpy as np
import pyarrow as pa

from sidkit.publish.append import append
from sidkit.publish.incoming import ToAppend
from sidkit.publish.registry import open_registry

POOL = 3000  # items that a writer draws from


def write(address, seed, appends, said, first):
    """Append `appends` times, or until killed; after each, a line with the items. The first line says: ready."""
    rng, done = np.random.default_rng(seed), 0
    with open_registry(address) as registry:
        os.write(said, b"[]\n")
        while appends is None or done < appends:
            items = [f"P{first + i}" for i in rng.choice(POOL, int(rng.integers(20, 300)), replace=False)]
            codes = np.stack([rng.integers(0, size, len(items)) for size in registry.sizes], axis=1).astype(np.int32)
            append(registry, ToAppend([(pa.array(items), codes)]), note=f"writer {seed}")
            os.write(said, (json.dumps(items) + "\n").encode())
            done += 1


def forked(address, seed, appends, first=0):
    """A writer in a process of its own: its id, and the end of a pipe that has what it says."""
    hears, says = os.pipe()
    child = os.fork()
    if child:
        os.close(says)
        return child, hears
    status = 1
    try:
        os.close(hears)
        write(address, seed, appends, says, first)
        status = 0
    finally:
        os._exit(status)


def heard(pipe, text=b""):
    """The items of all complete lines, and the number of appends; a line that a kill cut short was not said."""
    while part := os.read(pipe, 1 << 16):
        text += part
    os.close(pipe)
    lines = text.split(b"\n")[:-1]
    return {item for line in lines for item in json.loads(line)}, sum(line != b"[]" for line in lines)


def check(address, acknowledged):
    """What is in the registry; an error unless it is whole: nothing missing, nothing twice, nothing half-written."""
    with open_registry(address) as registry:
        rows = registry.database.rows("SELECT item, sid, slot, generation FROM published")
        generations = registry.generations()
    items, places = [row[0] for row in rows], [row[1:3] for row in rows]
    counts = {one.generation: 0 for one in generations}
    for row in rows:
        counts[row[3]] += 1
    taken = {}
    for sid, slot in places:
        taken.setdefault(sid, []).append(slot)
    found = {
        "items": len(items),
        "generations": len(generations) - 1,
        "missing": len(acknowledged - set(items)),
        "duplicate_items": len(items) - len(set(items)),
        "duplicate_places": len(places) - len(set(places)),
        "gaps_in_slots": sum(sorted(slots) != list(range(len(slots))) for slots in taken.values()),
        "half_written": sum(counts[one.generation] != one.published for one in generations)
        + sum(one.generation != number for number, one in enumerate(generations))
        + (generations[-1].items != len(items)),
    }
    wrong = {name: count for name, count in found.items() if count and name not in ("items", "generations")}
    if wrong:
        raise AssertionError(f"the registry is not whole: {wrong}")
    return found


def together(address, writers, appends):
    """Writers at the same time."""
    started = [forked(address, seed, appends) for seed in range(writers)]
    said = [heard(pipe) for _, pipe in started]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child, _ in started)
    if failed:
        raise AssertionError(f"{failed} writers failed")
    return {"writers": writers, "acknowledged": sum(lines for _, lines in said)} | check(
        address, set().union(*(items for items, _ in said))
    )


def killed(address, kills):
    """Writers one after the other, each killed at a random moment; the registry is checked after every kill.

    A writer lives for a random number of appends, and then for a random part of the time that two appends take.
    """
    rng, acknowledged, lines, usual = np.random.default_rng(0), set(), 0, 0.1
    found = check(address, acknowledged)
    for number in range(kills):
        child, pipe = forked(address, 1000 + number, None, 300 * number)  # so that there are new items to the end
        text, begun, wanted = b"", time.monotonic(), int(rng.integers(1, 5))
        while text.count(b"\n") < wanted:
            part = os.read(pipe, 1 << 16)
            assert part, "the writer ended by itself"
            begun = begun if text else time.monotonic()
            text += part
        usual = max((time.monotonic() - begun) / (wanted - 1), 0.001) if wanted > 1 else usual
        time.sleep(rng.uniform(0, 2 * usual))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        items, count = heard(pipe, text)
        acknowledged |= items
        lines += count
        found = check(address, acknowledged)
    return {"kills": kills, "acknowledged": lines} | found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("together", "killed"))
    parser.add_argument("address")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--appends", type=int, default=6, help="of every writer")
    parser.add_argument("--kills", type=int, default=10)
    given = parser.parse_args()
    if given.what == "together":
        result = together(given.address, given.writers, given.appends)
    else:
        result = killed(given.address, given.kills)
    json.dump(result, sys.stdout)
    print()


if __name__ == "__main__":
    main()
