"""Files: addresses, atomic writes, checked folders, checkpoints."""
