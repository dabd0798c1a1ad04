"""Every registered operator has a case, and its schema is the one that tests/schema.lock records.

Run as a program with --update, it writes the lock file.
"""

import pathlib

import torch
from lock_file import command_line

import torch_hrr  # noqa: F401 - registers the operators

NAMESPACE = "torch_hrr"
LOCK = pathlib.Path(__file__).with_name("schema.lock")
UPDATE = "python tests/test_schema.py --update"


# Of a library that tests/test_operator.py loads, perhaps into this process.
EXAMPLES = {f"{NAMESPACE}::involution", f"{NAMESPACE}::_polar"}


def registered():
    """The schemas of the namespace, by overload."""
    schemas = [
        schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith(f"{NAMESPACE}::") and schema.name not in EXAMPLES
    ]
    return {f"{schema.name}.{schema.overload_name or 'default'}": schema for schema in schemas}


def lock_text():
    return "".join(f"{schema}\n" for _, schema in sorted(registered().items()))


def test_every_schema_has_a_case():
    from cases import ALL_CASES, UNENUMERATED

    cases = [f"{case.op._schema.name}.{case.op._overloadname}" for case in ALL_CASES]
    assert not set(cases) & set(UNENUMERATED)
    # Tensors of one call that belong together are no OpCase's, which draws each by itself; neither is what is written
    # in place and gives no result.
    others = ("[] state", "Tensor codes", "Tensor(a!) x")
    assert all("::_" in name or any(each in str(registered()[name]) for each in others) for name in UNENUMERATED)
    cases += UNENUMERATED
    assert len(cases) == len(set(cases))
    missing, unknown = set(registered()) - set(cases), set(cases) - set(registered())
    assert not missing, f"operators without an OpCase in tests/cases: {sorted(missing)}"
    assert not unknown


def test_schemas_are_those_of_the_lock():
    recorded = LOCK.read_text().splitlines() if LOCK.exists() else []
    actual = lock_text().splitlines()
    removed, added = sorted(set(recorded) - set(actual)), sorted(set(actual) - set(recorded))
    assert recorded == actual, f"removed {removed}, added {added}; if that is meant: {UPDATE}"


def test_names_follow_the_conventions():
    for name, schema in registered().items():
        operator = schema.name.split("::")[1]
        written = [argument.name for argument in schema.arguments if argument.is_write]
        if schema.overload_name == "out":
            assert (written, schema.returns) == (["out"], []), name
        elif operator.endswith("_"):
            assert written and not schema.returns, name
        else:
            assert not written and schema.returns, name
        assert not operator.endswith("_backward") or operator.startswith("_"), name


def test_public_operators_have_a_documented_function():
    from cases import ALL_CASES

    for case in ALL_CASES:
        if case.name.startswith("_"):
            assert case.wrapper is None
        else:
            # A module named after the operators' prefix says it once: field.evolve.
            module = case.wrapper.__module__.split(".")[1]
            assert case.wrapper.__name__ == case.name.removeprefix(f"{module}_")
            assert case.wrapper.__doc__


if __name__ == "__main__":
    command_line(__doc__, LOCK, lock_text())
