"""The stub of the native module says what the module has: classes, members, arguments, defaults."""

import ast
import re
from pathlib import Path

import pytest
from sluice import _core

STUB = Path(_core.__file__).parent / "_core.pyi"
# What only type checkers see, and what the C API provides without a method.
STUB_ONLY = {"ObjectInfo", "ClientInfo", "KindStats", "ArenaStats"}
IMPLIED = {"__init__", "__buffer__", "__getstate__", "__setstate__", "__reduce__", "__repr__"}
INHERITED = set(dir(type("Anything", (), {}))) - {"__init__", "__eq__", "__hash__"}

CLASSES = {
    node.name: node
    for node in ast.parse(STUB.read_text()).body
    if isinstance(node, ast.ClassDef) and node.name not in STUB_ONLY
}
NATIVE = {name: node for name, node in CLASSES.items() if not hasattr(getattr(_core, name), "code")}


def functions(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}


def arguments_of(function: ast.FunctionDef) -> list[str]:
    """Names in order; `*` before those that go by name; `name=value` where there is a default."""
    spec = function.args
    first = [*spec.posonlyargs, *spec.args]
    defaults = [None] * (len(first) - len(spec.defaults)) + [ast.unparse(d) for d in spec.defaults]
    out = [one.arg + (f"={d}" if d else "") for one, d in zip(first, defaults, strict=True)]
    if spec.vararg:
        out.append("*" + spec.vararg.arg)
    if spec.kwonlyargs:
        out.append("*")
    for one, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        out.append(one.arg + (f"={ast.unparse(value)}" if value else ""))
    return [name for name in out if name != "self"]


def arguments_at_runtime(function: object) -> list[str]:
    """The same, from the signature that nanobind keeps for each overload."""
    [(text, _, values)] = function.__nb_signature__  # type: ignore[attr-defined]
    text = re.sub(r"\\(\d+)", lambda number: repr(values[int(number[1])]), text)
    parsed = ast.parse(f"{text}: ...".replace("sluice._core.", "")).body[0]
    assert isinstance(parsed, ast.FunctionDef)
    return arguments_of(parsed)


def test_stub_and_module_have_the_same_names() -> None:
    public = {name for name in vars(_core) if not name.startswith("_")}
    assert public == set(CLASSES) | {"default_directory"}


@pytest.mark.parametrize("name", NATIVE)
def test_class_has_the_members_of_its_stub(name: str) -> None:
    runtime = set(vars(getattr(_core, name))) - INHERITED - IMPLIED
    assert runtime == set(functions(NATIVE[name])) - IMPLIED


@pytest.mark.parametrize("name", NATIVE)
def test_methods_take_the_arguments_of_their_stub(name: str) -> None:
    for method, function in functions(NATIVE[name]).items():
        runtime = vars(getattr(_core, name)).get(method)
        if not hasattr(runtime, "__nb_signature__"):
            continue  # a property, or provided by the C API
        found = [one for one in arguments_at_runtime(runtime) if not re.fullmatch(r"arg\d*", one)]
        named = [one for one in arguments_of(function) if one != "other"]
        expected = [one for one in named if not one.startswith("*a")]
        assert [one for one in found if one not in {"other", "*args"}] == expected, method


@pytest.mark.parametrize("name", set(CLASSES) - set(NATIVE))
def test_errors_have_the_bases_of_their_stub(name: str) -> None:
    bases = [ast.unparse(base) for base in CLASSES[name].bases]
    assert [base.__name__ for base in getattr(_core, name).__bases__] == bases
