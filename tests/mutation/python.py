"""The kernel's policy and moves with every mutant of their functions in place, none of them active.

mutmut breaks the functions; here they are only imported and told apart. It does not touch what
stands outside of functions: the tables, defaults and closed sets, which tests write out again.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import mutate_file_contents

BROKEN = re.compile(r"jobs\.(states|outcomes|backoff|failures|moves\..*)")
AROUND = 7  # words and signs


class BrokenLoader(SourceFileLoader):
    """Imports a module whose functions can be exchanged for their mutants."""

    def get_code(self, fullname: str) -> CodeType:
        mutated = mutate_file_contents(self.path, self.get_data(self.path).decode())
        _titles.update(_titled(fullname, mutated.code))
        return compile(mutated.code, self.path, "exec", dont_inherit=True)


class BrokenFinder(MetaPathFinder):
    """Finds the modules that are broken, before anybody else does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if BROKEN.fullmatch(fullname) else None
        if spec is not None and spec.origin is not None:
            spec.loader = BrokenLoader(fullname, spec.origin)
        return spec


_titles: dict[str, str] = {}


def install(note: Callable[[str], None]) -> None:
    """Break what is imported from now on; ``note`` hears which function is called."""
    sys.meta_path.insert(0, BrokenFinder())
    trampoline.record_trampoline_hit = lambda name, caller=None: note(name)
    trampoline.set_mutant_under_test("stats")


def choose(mutant: str) -> None:
    """Let one function be its mutant; with an empty name, all be as written."""
    trampoline.set_mutant_under_test(mutant)


def python_mutants() -> Iterator[tuple[str, str, str]]:
    """Each mutant with its function and a title, of all that was imported."""
    for mutant, title in _titles.items():
        yield mutant, mutant.partition("__mutmut_")[0], title


def _titled(module: str, code: str) -> Iterator[tuple[str, str]]:
    """Each mutant of a module, with what it changes."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name:
            function, _, number = node.name.partition("__mutmut_")
            node.decorator_list, node.name = [], "f"
            found[function][number] = ast.unparse(node)
    for function, bodies in found.items():
        whole = bodies.pop("orig")
        name = re.sub(r"^x_|^x\u01c1", "", function).replace("\u01c1", ".")
        for number, body in bodies.items():
            yield (
                f"{module}.{function}__mutmut_{number}",
                f"{module}.{name}: {_change(whole, body)}",
            )


def _change(whole: str, broken: str) -> str:
    """The words in which two texts differ, with a little of what stands around them."""
    old, new = re.findall(r"\w+|\W", whole), re.findall(r"\w+|\W", broken)
    before = _alike(old, new)
    after = _alike(old[before:][::-1], new[before:][::-1])
    first = max(0, before - AROUND)
    parts = (words[first : len(words) - max(0, after - AROUND)] for words in (old, new))
    return " is ".join(f"`{' '.join(''.join(part).split())}`" for part in parts)


def _alike(one: list[str], other: list[str]) -> int:
    """With how many equal words two texts begin."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
