"""What is wrong with a line that gin cannot read, and how it should have been written."""

import ast
import re

_PYTHON_NAMES = {'true': True, 'false': False, 'null': None, 'none': None, 'nil': None}
_BARE_WORD = re.compile(r'[A-Za-z_./~\\*][\w./:~*?&=%+\\-]*')
_BARE_WORDS = re.compile(r'[A-Za-z_./~][\w./:~ -]*')
_ARITHMETIC = re.compile(r'[@%][\w./]+(\(\))?\s*[-+*/]|[-+*/]\s*[@%]')
_EXPECTED = "expected gin's configurable.parameter = value"


def explain(name: str, line: int, text: str, message: str) -> str:
    """Returns the error for a line that gin cannot read.

    Args:
        name: the file, or the flag (`--gin_param #1`).
        line: number of the line, from 1.
        text: the line.
        message: what gin, or Python's tokenizer, says of it.
    """
    where = f'{name}: {text}' if name.startswith('--') else f'{name}:{line}: {text}'
    message = message.splitlines()[-1].strip().rstrip('.')  # gin puts what it tells of the token last.
    reason = _statement_reason(text)
    if reason is None:
        key, equals, value = (part.strip() for part in text.partition('='))
        token = re.search(r"Failed to parse token '(\w+)'", message)
        reason = equals and _value_reason(key, re.split(r'\s+#', value)[0], name.startswith('--gin_param'))
        reason = reason or (token and _value_reason('', token[1], False))  # a line within a value
    return f'{where}: {reason or f"{message}; {_EXPECTED}"}'


def _statement_reason(text: str) -> str | None:
    """Returns what is wrong left of the value, or None if that may be right."""
    if re.match(r'(import|from)\s', text):
        return 'gin supports only `import a.b` and `from a import b`, one module a line'
    if include := re.match(r'include\s+([^\'"\s]+)$', text):
        return f"strings need quotes: include '{include[1]}'"
    if text[:1] in ('%', '@') and '=' in text:
        return f'the name on the left is written without {text[0]}: {text[1:]}'
    found = re.match(r'([A-Za-z_][\w./]*)\s*(==|:=|[-+*/]=|:|=|$|(?<=\s))\s*(.*)', text)
    if not found or (found[2] == '=' and found[3]) or (found[2] == ':' and not found[3]):
        return None
    if found[2] == '=':
        return f"no value after '='; {_EXPECTED}"
    meant = f'; did you mean {found[1]} = {found[3]}?' if found[3] else ''
    return f"no '=' after the name; {_EXPECTED}{meant}"


def _value_reason(key: str, value: str, in_shell: bool) -> str | None:
    """Returns what is wrong with a value and how to write it, or None if that is not known."""
    literals = _Literals(value)
    if _BARE_WORD.fullmatch(value) and value.lower() not in _PYTHON_NAMES:
        literals.reason, fixed = 'quotes', repr(value)
    else:
        try:
            fixed = ast.unparse(literals.visit(ast.parse(value, mode='eval')))
        except (SyntaxError, ValueError):  # ValueError: a null byte
            if variable := re.search(r'\$\{?\w+\}?', value):
                return f'gin does not expand {variable[0]}: write the value itself, text in quotes'
            if _ARITHMETIC.search(value):
                return 'gin values are literals, no arithmetic'
            if not _BARE_WORDS.fullmatch(value):
                return None
            literals.reason, fixed = 'quotes', repr(value)
    if literals.reason is None:
        return None
    binding = f'{key} = {fixed}' if key else fixed
    if literals.reason == 'quotes':
        shell = f' (in a shell: --gin_param="{binding}")' if in_shell and '"' not in binding else ''
        return f'strings need quotes: {binding}{shell}'
    if literals.reason == 'arithmetic':
        return f'gin values are literals, no arithmetic: write {fixed}'
    if literals.reason == 'name':
        return f'not a Python value; did you mean {binding}?'
    return f'gin values are literals, no {literals.reason}; @name() calls the configurable of that name'


class _Literals(ast.NodeTransformer):
    """Turns what people write for a literal into one; `reason` says what the first of them was."""

    def __init__(self, text: str):
        self.text = text
        self.reason = None

    def _replace(self, node: ast.AST, reason: str, value: object) -> ast.AST:
        self.reason = self.reason or reason
        return ast.copy_location(ast.Constant(value), node)

    def _quote(self, node: ast.AST) -> ast.AST:
        return self._replace(node, 'quotes', ast.get_source_segment(self.text, node))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id.lower() in _PYTHON_NAMES:
            return self._replace(node, 'name', _PYTHON_NAMES[node.id.lower()])
        return self._quote(node)

    visit_Attribute = _quote

    def visit_BinOp(self, node: ast.BinOp | ast.UnaryOp) -> ast.AST:
        number = _number(node)
        return self._quote(node) if number is None else self._replace(node, 'arithmetic', number)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return node  # a negative number
        return self.visit_BinOp(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Expression | ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.expr_context):
            return super().generic_visit(node)
        self.reason = self.reason or ('calls' if isinstance(node, ast.Call) else 'expressions')
        return node


def _number(node: ast.AST) -> int | float | None:
    """Returns what an expression of numbers comes to, or None if it is another one, or one too large to work out."""
    if any(
        not isinstance(part, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop)
        for part in ast.walk(node)
    ):
        return None
    numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    powers = sum(isinstance(part, ast.Pow | ast.LShift) for part in ast.walk(node))
    if not all(type(number) in (int, float) and abs(number) < 1e6 for number in numbers) or powers > 1:
        return None
    if powers and max(numbers) > 1024:
        return None
    try:  # There is nothing but numbers and operators in it.
        return eval(compile(ast.Expression(node), '', 'eval'), {'__builtins__': {}})
    except (ArithmeticError, TypeError, ValueError):
        return None
