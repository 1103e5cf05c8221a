"""YAML to validated, frozen settings; every mistake at once, with file, line, key path and nearest word."""
