"""Assemblies of neurons: areas of n neurons of which the k with the largest inputs fire.

Inputs are rows of the last dimension n; leading dimensions are a batch.
"""

from typing import TYPE_CHECKING

from torch_hrr._moved import names_of
from torch_hrr.assembly import plot
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.classifier import AssemblyClassifier
from torch_hrr.assembly.functional import connectome_inputs, k_cap, k_winners, overlap
from torch_hrr.assembly.grammar import Grammar, WordClass
from torch_hrr.assembly.losses import assembly_loss, assembly_margin_loss, assembly_overlap_loss
from torch_hrr.assembly.machines import FiniteStateMachine, ProbabilisticMachine
from torch_hrr.assembly.modules import AssemblyLayer, KCap
from torch_hrr.assembly.monitor import Monitor
from torch_hrr.assembly.parser import Parser, ParseTree, parse
from torch_hrr.assembly.programs import SequenceMemory
from torch_hrr.assembly.projection import Projection
from torch_hrr.assembly.split import SplitBrain
from torch_hrr.assembly.words import WordLearner

__all__ = [
    "AssemblyClassifier",
    "AssemblyLayer",
    "Brain",
    "CupyBrain",
    "FiniteStateMachine",
    "Grammar",
    "KCap",
    "Monitor",
    "ParseTree",
    "Parser",
    "ProbabilisticMachine",
    "Projection",
    "SequenceMemory",
    "SplitBrain",
    "TorchBrain",
    "WordClass",
    "WordLearner",
    "assembly_loss",
    "assembly_margin_loss",
    "assembly_overlap_loss",
    "connectome_inputs",
    "k_cap",
    "k_winners",
    "overlap",
    "parse",
    "plot",
]

if TYPE_CHECKING:
    from torch_hrr.compat.assembly import CupyBrain, TorchBrain
else:
    __getattr__, __dir__ = names_of(__name__)
