"""sidkit search read: a shop from released or exported data, a file per command."""
