"""Calls at which a graph of torch.compile ends, since they work on the host."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def outside_graphs(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """A function that no graph holds a part of: it runs between two graphs, or, with fullgraph=True, is an error.

    The compiler would break the graph at a lock, go on inside the call, and fail where bytes are read on the host.
    """

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        if torch.compiler.is_dynamo_compiling():
            # Not a decorator of torch's, which would import the compiler with the package.
            outside: Callable[_Arguments, _Result] = torch.compiler.disable(function)
            return outside(*args, **kwargs)
        return function(*args, **kwargs)

    return call
