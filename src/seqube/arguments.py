"""Arguments of public functions, held against their annotations.

What does not fit is an `ArgumentError` that names the argument, what was given, and what the docstring says it is for, instead of
an error from somewhere inside. Annotations and docstrings are the one place where this is written; nothing is listed again here.

Cost: some microseconds a call, so it is for calls that a person writes, not for those that run per event. Names that only type
checkers import are known by their package, where it is given (`homes`); without it, what has such an annotation is not checked.
"""

from __future__ import annotations

import collections.abc
import inspect
import numbers
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, wraps
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from seqube.errors import ArgumentError, nearest

Given = ParamSpec("Given")
Answered = TypeVar("Answered")
Method = TypeVar("Method", bound=Callable[..., Any])

FOR_ENGINE = "For the engine, which knows what it gives: nothing is checked."


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A class that is not imported here: what it is called, and the package that it comes from."""

    name: str
    home: str

    def __str__(self) -> str:
        return self.name if self.home == __package__ else f"{self.home} {self.name}"


def checked(function: Callable[Given, Answered], homes: Mapping[str, str] | None = None) -> Callable[Given, Answered]:
    """The same function, which refuses arguments that its annotations do not allow; `homes`: the packages of names unknown here."""
    signature = inspect.signature(function)
    kinds = cache(lambda: _annotations(function, signature, homes or {}))
    more = cache(lambda: _named_more(function, signature))
    places = [name for name, parameter in signature.parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]

    needed = [name for name, parameter in signature.parameters.items() if parameter.default is parameter.empty]
    n_needed = len(needed) if set(needed) <= set(places) else len(places) + 1

    @wraps(function)
    def call(*arguments: Given.args, **named: Given.kwargs) -> Answered:
        given: dict[str, Any] = dict(zip(places, arguments, strict=False))
        if named or len(arguments) != len(given) or len(given) < n_needed:  # else it is plain which argument is which
            try:
                given = signature.bind(*arguments, **named).arguments
            except TypeError as problem:
                raise ArgumentError(f"{_name(function)}: {problem}{_meant(str(problem), signature)}") from None
            _refuse_unknown(function, signature, named, more())
        for name, kind in kinds().items():
            if name in given and not _fits(given[name], kind):
                raise ArgumentError(_message(function, signature, name, given[name], kind))
        return function(*arguments, **named)

    return call


def for_engine(function: Method) -> Method:
    """The same function, which says that it is not for people: it runs too often to be checked, and the reference leaves it out."""
    function.__doc__ = f"{FOR_ENGINE} {function.__doc__}"
    return function


def _annotations(function: Callable[..., Any], signature: inspect.Signature, homes: Mapping[str, str]) -> dict[str, Any]:
    """What each argument may be; those of any kind, and those of which it cannot be told, are left out."""
    found: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or parameter.annotation is parameter.empty:
            continue
        try:
            found[name] = _read(parameter.annotation, function)
        except NameError:
            each = parameter.annotation.split(" | ")
            if all(word in homes or word == "None" for word in each):
                found[name] = tuple(None if word == "None" else _Foreign(word, homes[word]) for word in each)
    return {name: kind for name, kind in found.items() if kind is not Any}


def _read(annotation: Any, function: Callable[..., Any]) -> Any:
    return get_type_hints(types.SimpleNamespace(__annotations__={"it": annotation}), function.__globals__)["it"]


def _named_more(function: Callable[..., Any], signature: inspect.Signature) -> frozenset[str] | None:
    """The names that `**named: Unpack[...]` stands for; None where any name is taken."""
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and "Unpack[" in str(parameter.annotation):
            return frozenset(get_type_hints(get_args(_read(parameter.annotation, function))[0]))
    return None


def _refuse_unknown(
    function: Callable[..., Any], signature: inspect.Signature, named: dict[str, Any], more: frozenset[str] | None
) -> None:
    unknown = [name for name in named if more is not None and name not in more and name not in signature.parameters]
    if unknown:
        problem = f"got an unexpected keyword argument {unknown[0]!r}"
        raise ArgumentError(f"{_name(function)}: {problem}{_meant(problem, signature, more or ())}")


def _meant(problem: str, signature: inspect.Signature, more: Iterable[str] = ()) -> str:
    """A hint to the argument that was probably meant by an unknown one."""
    unknown = re.search(r"unexpected keyword argument '(\w+)'", problem)
    near = nearest(unknown[1], [*signature.parameters, *more]) if unknown else None
    return f"\n  hint: did you mean {near}=?" if near else ""


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return True
    if isinstance(kind, tuple):
        return any(_fits(value, each) for each in kind)
    if isinstance(kind, _Foreign):
        return any(each.__name__ == kind.name and _package(each) == kind.home for each in type(value).__mro__)
    if kind is None or kind is types.NoneType:
        return value is None
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return any(value is each or (isinstance(value, type(each)) and value == each) for each in inner)
    if kind is int or kind is float:
        allowed = (numbers.Integral,) if kind is int else (numbers.Real, Decimal)
        is_one = isinstance(value, allowed) and not isinstance(value, bool)
        return is_one and not (isinstance(value, Decimal) and value.is_nan())  # which raises wherever it is compared
    if origin is tuple:
        if not isinstance(value, (tuple, list)):
            return False
        if inner[1:] == (...,):
            return all(_fits(each, inner[0]) for each in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if origin is collections.abc.Callable or kind is collections.abc.Callable:
        return callable(value)
    if not isinstance(value, origin or kind):
        return False
    if origin is None or not issubclass(origin, collections.abc.Iterable):
        return True
    try:
        iter(value)
    except TypeError:  # a NumPy array without dimensions is iterable by its class only
        return False
    if issubclass(origin, collections.abc.Mapping):
        return all(_fits(key, inner[0]) and _fits(each, inner[1]) for key, each in value.items())
    # A text is a sequence of texts only to Python; what has no length may be read once only.
    return not isinstance(value, (str, bytes)) and (not hasattr(value, "__len__") or all(_fits(each, inner[0]) for each in value))


def _message(function: Callable[..., Any], signature: inspect.Signature, name: str, value: Any, kind: Any) -> str:
    said = re.search(rf"^ *- [^:]*`{name}`[^:]*: (.+?)(?=^ *- |^ *$|\Z)", inspect.getdoc(function) or "", re.MULTILINE | re.DOTALL)
    wanted = " | ".join(map(str, kind)) if isinstance(kind, tuple) else signature.parameters[name].annotation
    hint = f"\n  hint: {name}: {' '.join(said[1].split())}" if said else ""
    package = _package(type(value))
    whose = f"{package} " if isinstance(kind, tuple) and package not in ("builtins", __package__) else ""
    shown = "None" if value is None else f"a {whose}{type(value).__name__}"
    if isinstance(value, Decimal) and value.is_nan():
        shown += " that is no number"
    return f"{_name(function)}: {name} is {shown}, where {wanted} is expected{hint}"


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _name(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__")
