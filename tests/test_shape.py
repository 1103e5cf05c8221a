"""How large functions and modules may be: counted in lines of code, without signatures, docstrings and comments."""

import ast
import io
import tokenize
from pathlib import Path

import runward

SOURCE = Path(runward.__file__).parents[1]
MOST_OF_A_FUNCTION, MOST_OF_A_MODULE = 40, 300
EXEMPT = {
    "runward/compat/gpu_idle_timeout.py": "one file for Python 3.7, copied into containers",
    "runward/scan/confirm.py:find": "the loop in which a scan spends its time: a call a line would be felt",
}
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def _lines(text):
    """Numbers of the lines that hold code."""
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            found.update(range(token.start[0], token.end[0] + 1))
    return found


def _docstrings(tree):
    found = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            found.update(range(node.lineno, node.end_lineno + 1))
    return found


def _too_large():
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
        if text.count("\n") <= MOST_OF_A_FUNCTION:
            continue
        tree = ast.parse(text)
        long = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.end_lineno - node.body[0].lineno >= MOST_OF_A_FUNCTION
        ]
        if not long and text.count("\n") <= MOST_OF_A_MODULE:
            continue
        code = _lines(text) - _docstrings(tree)
        if len(code) > MOST_OF_A_MODULE:
            yield name, len(code)
        for node in long:
            size = sum(node.body[0].lineno <= line <= node.end_lineno for line in code)
            if size > MOST_OF_A_FUNCTION:
                yield f"{name}:{node.name}", size


def test_no_function_and_no_module_grows_beyond_what_can_be_read_at_a_sitting():
    found = dict(_too_large())
    large = {
        name: size
        for name, size in found.items()
        if name.partition(":")[0] not in EXEMPT and name not in EXEMPT
    }
    assert large == {}
    assert {name for name in EXEMPT if ":" in name} <= set(found), "an exemption that is no longer needed"
