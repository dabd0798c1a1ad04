"""The small file that the storage tests damage and interrupt, and seals that are not made by the code they test."""

import hashlib
import hmac
import json

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


def sealed(manifest, key=None, old=False):
    """The metadata of a file whose seal is right, whatever its manifest says."""
    text = (
        manifest
        if isinstance(manifest, str)
        else json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    )
    raw, algorithm = text.encode(), "sha256" if key is None else "hmac-sha256"
    seal = hashlib.sha256(raw).hexdigest() if key is None else hmac.new(key, raw, "sha256").hexdigest()
    return {"manifest": text, algorithm: seal} if old else {"torch_hrr": f"{algorithm} {seal} {text}"}
