"""The figures by which the tree is judged: `python -m scripts.house_figures`.

Modules and their only importers, class names that exist twice, broad excepts, `dict[str, Any]` in signatures, rows
taken apart by position, and lines of code.
"""

import ast
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "herdbeat"
_BROAD = {"Exception", "BaseException"}
_NAMED = re.compile(r"\bherdbeat(?:\.\w+)+")
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    name: str
    path: Path
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.path.read_text(encoding="utf-8").splitlines())

    def place(self, node: ast.expr | ast.stmt | ast.excepthandler) -> str:
        return f"{self.path.relative_to(ROOT)}:{node.lineno}"


@dataclass(frozen=True, slots=True)
class Use:
    """Who needs a module, and how: `import`, `lazy` (inside a function), `string` (loaded by its name), `type`.

    What is imported for annotations alone, under `if TYPE_CHECKING:`, is not loaded by it.
    """

    importer: str
    how: str


def read_modules() -> dict[str, Module]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(name=name, path=path, tree=ast.parse(path.read_text(encoding="utf-8")))
    return found


def uses(modules: dict[str, Module]) -> dict[str, set[Use]]:
    """By module. Strings count too: the command table and the guardian name modules that nothing imports."""
    found: dict[str, set[Use]] = defaultdict(set)
    for module in modules.values():
        for used, how in _used_by(module, modules):
            if used != module.name:
                found[used].add(Use(module.name, how))
    for name in _NAMED.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8")):
        if name in modules:
            found[name].add(Use("pyproject.toml", "entry point"))
    return found


def _used_by(module: Module, modules: dict[str, Module]) -> Iterator[tuple[str, str]]:
    lazy = {id(each) for function in _functions(module.tree) for each in ast.walk(function)}
    types = {id(each) for block in _type_checking_blocks(module.tree) for each in ast.walk(block)}
    for node in ast.walk(module.tree):
        how = "type" if id(node) in types else "lazy" if id(node) in lazy else "import"
        if isinstance(node, ast.Import):
            yield from ((alias.name, how) for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & modules.keys()
            yield from ((each, how) for each in inner or {node.module} & modules.keys())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            yield from ((name, "string") for name in _NAMED.findall(node.value) if name in modules)


def _type_checking_blocks(tree: ast.Module) -> list[ast.If]:
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    ]


def single_importers(modules: dict[str, Module]) -> list[str]:
    rows = []
    for name, found in sorted(uses(modules).items()):
        if len({use.importer for use in found}) == 1:
            hows = {use.how for use in found}
            how = "" if "import" in hows else f"  ({min(hows - {'type'}, default='type')})"
            rows.append(f"{name}  {modules[name].lines} lines  by {next(iter(found)).importer}{how}")
    return rows


def double_classes(modules: dict[str, Module]) -> list[str]:
    places = defaultdict(list)
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.place(node))
    return [f"{name}  {'  '.join(each)}" for name, each in sorted(places.items()) if len(each) > 1]


def broad_excepts(modules: dict[str, Module]) -> list[str]:
    return [
        module.place(node)
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or {each.id for each in ast.walk(node.type) if isinstance(each, ast.Name)} & _BROAD)
    ]


def untyped_signatures(modules: dict[str, Module]) -> list[str]:
    """One row for each `dict[str, Any]` of an argument or a result."""
    return [
        f"{module.place(function)}  {function.name}"
        for module in modules.values()
        for function in _functions(module.tree)
        for annotation in _annotations(function)
        for _ in range(ast.unparse(annotation).count("dict[str, Any]"))
    ]


def row_slices(modules: dict[str, Module]) -> list[str]:
    return [
        f"{module.place(node)}  {ast.unparse(node)}"
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Starred)
        and isinstance(node.value, ast.Subscript)
        and isinstance(node.value.slice, ast.Slice)
    ]


def code_lines(module: Module) -> int:
    """Lines with a token, without comments, docstrings and imports."""
    with module.path.open("rb") as file:
        tokens = [each for each in tokenize.tokenize(file.readline) if each.type not in _NO_CODE]
    lines = {line for each in tokens[1:] for line in range(each.start[0], each.end[0] + 1)}
    left_out = [node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    without = {line for node in [*left_out, *_docstrings(module.tree)] for line in range(node.lineno, _end(node) + 1)}
    return len(lines - without)


def _docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    """Those of attributes too: any string that stands by itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _annotations(function: Function) -> list[ast.expr]:
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    every += [each for each in (function.args.vararg, function.args.kwarg) if each is not None]
    return [each for each in (*(argument.annotation for argument in every), function.returns) if each is not None]


def main() -> int:
    modules = read_modules()
    single = single_importers(modules)
    by_import = sum(not row.endswith(")") for row in single)
    lists = {
        f"modules with exactly one importer ({by_import} load it as they are loaded)": single,
        "class names defined more than once": double_classes(modules),
        "broad excepts": broad_excepts(modules),
        "dict[str, Any] in signatures": untyped_signatures(modules),
        "star-slices of rows": row_slices(modules),
    }
    for title, rows in lists.items():
        sys.stdout.writelines([f"{title}: {len(rows)}\n", *(f"  {row}\n" for row in rows)])
    sys.stdout.write(f"modules: {len(modules)}\n")
    sys.stdout.write(f"lines of code: {sum(code_lines(each) for each in modules.values()):,}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
