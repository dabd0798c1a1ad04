"""Two ranks of one mesh: python two_ranks.py RENDEZVOUS."""

import layer_checks
import sharding_checks
import table_checks
import unit_checks
from ranks import main
from torch.distributed.tensor import init_device_mesh


def check(rank):
    mesh = init_device_mesh("cpu", (2,))
    layer_checks.check(rank, mesh)
    table_checks.check(rank, mesh)
    unit_checks.check(rank, mesh)
    sharding_checks.check(rank, mesh)


if __name__ == "__main__":
    main(check, 2)
