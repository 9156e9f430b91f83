"""Words of texts and keywords in them: matching, the dictionary of a catalogue."""
