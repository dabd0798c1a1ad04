"""What objects that change need to be shared by threads and copied: a lock of their own, and copies that own it."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Protocol, Self, TypeVar

import torch
from torch import Tensor

from torch_hrr._compile import outside_graphs

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class _HasLock(Protocol):
    @property
    def _lock(self) -> Any: ...


_Object = TypeVar("_Object", bound=_HasLock)


writable_anywhere = torch.inference_mode(False)
"""Decorates what makes an object that changes: nothing may write to tensors of inference mode outside of it."""


class Lock:
    """An RLock that a forked process does not wait for for ever.

    A fork ends all other threads; what one of them held would never be given back, and what it changed is half done.
    """

    _all: ClassVar[weakref.WeakSet[Lock]] = weakref.WeakSet()

    def __init__(self) -> None:
        """Held by nobody."""
        self._lock = threading.RLock()
        self._is_lost = False
        Lock._all.add(self)

    def __enter__(self) -> None:
        """Waits for it; RuntimeError where that would be for ever."""
        if self._is_lost:
            raise RuntimeError("fork: an object must not be in use by another thread, got one that was: copy it before")
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        """Gives it back."""
        self._lock.release()

    @staticmethod
    def after_fork() -> None:
        """Finds those that are lost, in the new process."""
        for lock in tuple(Lock._all):
            lock._is_lost = lock._is_lost or not lock._lock.acquire(blocking=False)
            if not lock._is_lost:
                lock._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Lock.after_fork)


class Shared:
    """An object whose calls under `locked` run one at a time, and whose copies share nothing that changes."""

    if TYPE_CHECKING:
        # TorchScript would look for the type of a module's lock.
        _lock: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """An object with its lock."""
        made = super().__new__(cls)
        made.__dict__["_lock"] = Lock()
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock, which copies and pickles have of their own, and what a module's compile() made."""
        with self._lock:
            left = ("_lock", "_compiled_call_impl")
            return {name: value for name, value in self.__dict__.items() if name not in left}

    def __copy__(self) -> Self:
        """A copy whose containers are its own; tensors that are replaced and never written to are shared."""
        with self._lock:
            made = type(self).__new__(type(self))
            for name, value in self.__getstate__().items():
                made.__dict__[name] = copy.copy(value) if isinstance(value, dict | list) else value
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that shares nothing but the graph: gradients of its vectors flow to where those of the original do."""
        with self._lock:
            made = type(self).__new__(type(self))
            memo[id(self)] = made
            state = self.__getstate__()
            # torch copies leaves only.
            for value in state.values():
                for held in value.values() if isinstance(value, dict) else (value,):
                    if isinstance(held, Tensor) and not held.is_leaf:
                        with torch.enable_grad():
                            memo[id(held)] = held.clone()
            made.__dict__.update(copy.deepcopy(state, memo))
        return made


class CopiedWhole:
    """An object of parts that change together: every copy of it, a shallow one too, shares nothing, under its lock."""

    _lock: Any

    def __copy__(self) -> Self:
        """As a deep copy: two objects of the same parts would change each other."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy of one moment."""
        with self._lock:
            made = type(self).__new__(type(self))
            memo[id(self)] = made
            taking_over: Any = getattr(made, "__setstate__", made.__dict__.update)
            taking_over(copy.deepcopy(self.__getstate__(), memo))
        return made


_Class = TypeVar("_Class", bound=type)


def lock_public_calls(cls: _Class) -> _Class:
    """Makes the public methods and properties that a class defines `locked` ones; a decorator, too."""
    for name, member in vars(cls).copy().items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            setattr(cls, name, locked(member))
        elif isinstance(member, property):
            get, set, delete = (call and locked(call) for call in (member.fget, member.fset, member.fdel))
            setattr(cls, name, property(get, set, delete, member.__doc__))
    return cls


def locked(
    method: Callable[Concatenate[_Object, _Arguments], _Result],
) -> Callable[Concatenate[_Object, _Arguments], _Result]:
    """A method that runs while no other locked one of the same object does; a graph of torch.compile ends at it."""

    @functools.wraps(method)
    def call(self: _Object, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with self._lock:
            return method(self, *args, **kwargs)

    return outside_graphs(call)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; the CPU's allocator, MPS and CUDA's libraries have no class for it."""
    texts = ("can't allocate memory", "not enough memory", "std::bad_alloc", "out of memory", "_ALLOC_FAILED")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(text in str(error) for text in texts)
