"""The small file that the storage tests damage and interrupt."""

import torch


def small():
    return {
        "w": torch.tensor([[1.5, -0.0], [3.25, 4.0]]),
        "mask": torch.tensor([True, False, True]),
        "e": torch.ones(0),
    }


def assert_same(tensors, expected):
    assert list(tensors) == sorted(expected)
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)
