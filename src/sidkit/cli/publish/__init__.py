"""The commands of `sidkit publish`."""
