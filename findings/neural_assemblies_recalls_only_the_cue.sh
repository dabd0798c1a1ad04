#!/usr/bin/env bash
# neural-assemblies 0.0.1a1: ordered_recall gives back the cue alone, however often the sequence was memorised.
#
# sequence_memorize fires each stimulus for eight rounds without recurrence before two with it (its default), so that
# the area no longer holds the item before when the recurrent synapses learn: items are linked with themselves. Recall
# with long-range inhibition, as its documentation and tests do it, then finds something unknown after the cue and stops.
# Half of the rounds with recurrence and a plasticity of .5 there, which its docstring suggests, make all five
# assemblies one: recall goes on for as long as it may, with most winners of every item at once.
#
# Seen, n = 10000, k = 100, p = .05, beta = .1, five stimuli: 1 item after 1, 3 and 10 repetitions; with the settings of
# the docstring the first and the last item share .99 of their winners. Fails if that changes (below .5).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "neural-assemblies==0.0.1a1" "numpy==2.4.6" "scipy==1.17.1"
environment/bin/python - << 'PYTHON'
from importlib.metadata import version

from neural_assemblies.assembly_calculus.assembly import overlap
from neural_assemblies.assembly_calculus.ops import ordered_recall, sequence_memorize
from neural_assemblies.core.brain import Brain


def memorised(repetitions, **settings):
    """Five items, and what is recalled from the first."""
    brain = Brain(p=0.05, seed=42, engine="numpy_sparse", save_winners=True)
    names = [f"s{item}" for item in range(5)]
    for name in names:
        brain.add_stimulus(name, 100)
    brain.add_area("A", 10000, 100, 0.1)
    items = list(sequence_memorize(brain, names, "A", rounds_per_step=10, repetitions=repetitions, **settings))
    brain.set_lri("A", refractory_period=3, inhibition_strength=100.0)
    return items, list(ordered_recall(brain, "A", "s0", max_steps=10, known_assemblies=items))


counts = [len(memorised(repetitions)[1]) for repetitions in (1, 3, 10)]
items, recalled = memorised(3, phase_b_ratio=0.5, beta_boost=0.5)
shared = float(overlap(items[0], items[4]))
print(f"neural-assemblies {version('neural-assemblies')}: {counts} of 5 items recalled after 1, 3 and 10 repetitions;")
print(f"with phase_b_ratio=0.5, beta_boost=0.5 the first and the last item share {shared:.2f} of their winners")
assert counts == [1, 1, 1] and shared > 0.5, (counts, shared)
PYTHON
