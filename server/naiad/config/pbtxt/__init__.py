"""The text of a config.pbtxt: tokens, grammar, values, and suggestions for what is misspelled."""
