"""Holographic reduced representations: binding by circular convolution.

Vectors are rows of the last dimension D; leading dimensions broadcast. float32, float64, float16 and bfloat16; the half
types are stored as such and computed in float32.
"""

from typing import TYPE_CHECKING

from torch_hrr._moved import names_of
from torch_hrr.hrr._plan import plan
from torch_hrr.hrr.encoders import at, fractional_power_encoding, graph, ngrams, sequence
from torch_hrr.hrr.functional import (
    bind,
    bind_normalize,
    bind_power,
    bind_spectrum,
    bind_superpose,
    from_phases,
    from_spectrum,
    identity,
    inverse,
    involution,
    multibind,
    normalize,
    permute,
    random,
    spectrum,
    superpose,
    to_phases,
    unbind,
    unbind_spectrum,
    unitary,
)
from torch_hrr.hrr.losses import HRRMultiLabelLoss
from torch_hrr.hrr.memory import Cleanup, ItemMemory, cosine_similarity
from torch_hrr.hrr.modules import Bind, BindSuperpose, HRRAttention, Unbind
from torch_hrr.hrr.resonator import Factorization, Resonator
from torch_hrr.hrr.store import VectorStore
from torch_hrr.hrr.structures import Automaton, Graph, HashTable, Multiset, Record, Sequence, Stack, Tree
from torch_hrr.hrr.vector import Vector
from torch_hrr.hrr.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch_hrr.compat.hrr import BatchHRROperations, HRROperations, HybridHRRSystem, PyTorchHRROperations
    from torch_hrr.hrr import integrations
    from torch_hrr.hrr.associative import HopfieldMemory, SparseDistributedMemory
    from torch_hrr.hrr.classifiers import CentroidClassifier, RidgeClassifier
    from torch_hrr.hrr.distributions import UnitaryCauchy, UnitaryUniform
    from torch_hrr.hrr.embeddings import (
        CircularEncoder,
        FractionalPowerEncoder,
        LevelEncoder,
        ProjectionEncoder,
        RandomEncoder,
        SinusoidEncoder,
        ThermometerEncoder,
    )
    from torch_hrr.hrr.records import Memory
    from torch_hrr.hrr.split import SplitMemory
else:
    __getattr__, __dir__ = names_of(
        __name__,
        "integrations",
        # Most programs use none of these.
        associative="HopfieldMemory SparseDistributedMemory",
        classifiers="CentroidClassifier RidgeClassifier",
        distributions="UnitaryCauchy UnitaryUniform",
        embeddings="CircularEncoder FractionalPowerEncoder LevelEncoder ProjectionEncoder RandomEncoder "
        "SinusoidEncoder ThermometerEncoder",
        records="Memory",
        split="SplitMemory",
    )

__all__ = [
    "Automaton",
    "BatchHRROperations",
    "Bind",
    "BindSuperpose",
    "CentroidClassifier",
    "CircularEncoder",
    "Cleanup",
    "Factorization",
    "FractionalPowerEncoder",
    "Graph",
    "HRRAttention",
    "HRRMultiLabelLoss",
    "HRROperations",
    "HashTable",
    "HopfieldMemory",
    "HybridHRRSystem",
    "ItemMemory",
    "LevelEncoder",
    "Memory",
    "Multiset",
    "ProjectionEncoder",
    "PyTorchHRROperations",
    "RandomEncoder",
    "Record",
    "Resonator",
    "RidgeClassifier",
    "Sequence",
    "SinusoidEncoder",
    "SparseDistributedMemory",
    "SplitMemory",
    "Stack",
    "ThermometerEncoder",
    "Tree",
    "Unbind",
    "UnitaryCauchy",
    "UnitaryUniform",
    "Vector",
    "VectorStore",
    "Vocabulary",
    "at",
    "bind",
    "bind_normalize",
    "bind_power",
    "bind_spectrum",
    "bind_superpose",
    "cosine_similarity",
    "fractional_power_encoding",
    "from_phases",
    "from_spectrum",
    "graph",
    "identity",
    "integrations",
    "inverse",
    "involution",
    "multibind",
    "ngrams",
    "normalize",
    "permute",
    "plan",
    "random",
    "sequence",
    "spectrum",
    "superpose",
    "to_phases",
    "unbind",
    "unbind_spectrum",
    "unitary",
]
