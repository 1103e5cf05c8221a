"""The command line: one module a verb, imported when that verb is used."""
