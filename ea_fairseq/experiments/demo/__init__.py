"""The demo: a local page that translates a sentence and shows its attention."""
