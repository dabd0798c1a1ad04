"""What scikit-learn asks of an estimator, without importing it: that alone takes a second, and not everybody has it."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, Self

from torch_hrr._checks import brief


class Parameters:
    """An estimator whose parameters are the arguments of its ``__init__``, which stores them as they are.

    scikit-learn's tools (``clone``, ``Pipeline``, ``GridSearchCV``) take it for one of theirs, from scikit-learn 1.6.
    """

    _estimator_type: ClassVar[Literal["regressor", "classifier"] | None] = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name; ``deep`` changes nothing, as none of them is an estimator."""
        return {
            name: getattr(self, name) for name in inspect.signature(type(self).__init__).parameters if name != "self"
        }

    def set_params(self, **params: Any) -> Self:
        """Changes arguments of the constructor for the next `fit`; what is fitted stays.

        Raises:
            ValueError: It has no such argument.
        """
        known = self.get_params()
        for name in params:
            if name not in known:
                raise ValueError(f"set_params: params must be of {', '.join(known)}, got {name}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _columns_of(self, op: str, name: str, given: Any, fits: bool = False) -> list[str] | None:
        """The names of a data frame's columns, of frames in a list those of each; None unless all are strings.

        ValueError unless they are those that `fit` saw, where both have some; a call that ``fits`` anew takes any.
        """
        known = None if fits else self._facts_of_columns().get("feature_names")
        found = None
        # Numbers have none, of which a list may hold millions.
        several = isinstance(given, list | tuple) and bool(given) and hasattr(given[0], "__array__")
        for frame in given if several else [given]:
            # In another order they would be taken for one another.
            names = _names_of(frame)
            if names is not None:
                if known not in (None, names):
                    pairs = enumerate(itertools.zip_longest(known, names))
                    place, (wanted, got) = next(pair for pair in pairs if pair[1][0] != pair[1][1])
                    wanted, got = ("none" if each is None else brief(each) for each in (wanted, got))
                    raise ValueError(
                        f"{op}: {name} must have the columns of fit, at index {place} {wanted}, got {got}: "
                        f"{_mismatch(known, names)}"
                    )
                known = found = names
        return found

    def _keep_columns(self, names: list[str] | None) -> None:
        """As scikit-learn does: an array of objects, and no attribute where there are no names."""
        if names is None:
            self.__dict__.pop("feature_names_in_", None)
            return
        import numpy as np

        self.__dict__["feature_names_in_"] = np.array(names, dtype=object)

    def _facts_of_columns(self) -> dict[str, Any]:
        """What a file says of them, nothing where there are none."""
        names = self.__dict__.get("feature_names_in_")
        return {} if names is None else {"feature_names": names.tolist()}

    def _restore_columns(self, names: Any) -> None:
        """Takes what a file says, ``()`` where it says nothing; ValueError unless there is a name for each column."""
        if names == ():
            return
        right = isinstance(names, list) and len(names) == getattr(self, "n_features_in_", None)
        if not right or not all(isinstance(name, str) for name in names):
            raise ValueError("names of other columns")
        self._keep_columns(names)

    def _is_fitted(self) -> bool:
        raise NotImplementedError

    def _takes_tokens(self) -> bool:
        return False

    def __sklearn_is_fitted__(self) -> bool:
        """For ``sklearn.utils.validation.check_is_fitted``."""
        return self._is_fitted()

    def __sklearn_tags__(self) -> Any:
        """For ``sklearn.utils.get_tags``; only scikit-learn calls it."""
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kind, tokens = self._estimator_type, self._takes_tokens()
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=kind is not None, multi_output=kind == "regressor"),
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            # Of numbers; tokens are two-dimensional too, but no test of scikit-learn's has any.
            input_tags=InputTags(two_d_array=not tokens, three_d_array=not tokens, categorical=tokens),
        )


def _names_of(given: Any) -> list[str] | None:
    columns = getattr(given, "columns", None)
    # Of other objects it may be their number, or a text.
    names = [*columns] if isinstance(columns, Iterable) and not isinstance(columns, str) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def _mismatch(known: list[str], names: list[str]) -> str:
    """Which names are new or missing, in scikit-learn's words, whose checks ask for them: a line for each, to five."""
    lines = ["The feature names should match those that were passed during fit."]
    for told, found in (
        ("unseen at fit time", set(names) - set(known)),
        ("seen at fit time, yet now missing", set(known) - set(names)),
    ):
        if found:
            lines += [f"Feature names {told}:", *(f"- {each:.80}" for each in sorted(found)[:5])]
            lines += ["- ..."] if len(found) > 5 else []
    if len(lines) == 1:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join([*lines, ""])


class _Complex(TypeError, ValueError):
    """A wrong dtype here, and a wrong value to scikit-learn."""


def complex_error(text: str) -> Exception:
    """The error for complex numbers, in scikit-learn's words too."""
    return _Complex(f"{text}: Complex data not supported")


def not_fitted(text: str) -> RuntimeError:
    """The error of a call before `fit`: where scikit-learn is in use, also its ``NotFittedError``."""
    return _not_fitted_class("sklearn.exceptions" in sys.modules)(text)


@functools.cache
def _not_fitted_class(known: bool) -> type[RuntimeError]:
    if not known:
        return RuntimeError
    base: Any = sys.modules["sklearn.exceptions"].NotFittedError
    return type("NotFittedError", (RuntimeError, base), {"__module__": __name__})


def conversion_warning() -> type[Warning]:
    """The class that scikit-learn's users filter by, where it is in use."""
    kind: type[Warning] = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", UserWarning)
    return kind
