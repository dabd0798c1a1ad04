"""How many blocks of a kernel an SM holds, as NVIDIA's occupancy calculator has it."""

from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True)
class Device:
    """What an SM of a compute capability has."""

    warps: int
    blocks: int
    shared: int
    shared_of_block: int
    registers: int = 65536
    registers_of_thread: int = 255
    threads_of_block: int = 1024


KIB = 1024
# CUDA Programming Guide, "Compute Capabilities": the tables of device, SM and memory information per capability.
DEVICES = {
    "sm_75": Device(warps=32, blocks=16, shared=64 * KIB, shared_of_block=64 * KIB),
    "sm_80": Device(warps=64, blocks=32, shared=164 * KIB, shared_of_block=163 * KIB),
    "sm_86": Device(warps=48, blocks=16, shared=100 * KIB, shared_of_block=99 * KIB),
    "sm_87": Device(warps=48, blocks=16, shared=164 * KIB, shared_of_block=163 * KIB),
    "sm_89": Device(warps=48, blocks=24, shared=100 * KIB, shared_of_block=99 * KIB),
    "sm_90": Device(warps=64, blocks=32, shared=228 * KIB, shared_of_block=227 * KIB),
    "sm_100": Device(warps=64, blocks=32, shared=228 * KIB, shared_of_block=227 * KIB),
    "sm_103": Device(warps=64, blocks=32, shared=228 * KIB, shared_of_block=227 * KIB),
    "sm_110": Device(warps=48, blocks=24, shared=228 * KIB, shared_of_block=227 * KIB),
    "sm_120": Device(warps=48, blocks=24, shared=100 * KIB, shared_of_block=99 * KIB),
    "sm_121": Device(warps=48, blocks=24, shared=100 * KIB, shared_of_block=99 * KIB),
}


def device_of(architecture: str) -> Device:
    """Of "sm_90", or of a variant such as "sm_90a"."""
    try:
        return DEVICES[architecture.rstrip("af")]
    except KeyError:
        raise ValueError(f"{architecture}: DEVICES does not know what its SMs have") from None


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def blocks_of_sm(architecture: str, registers: int, threads: int, shared: int) -> int:
    """How many blocks an SM holds, 0 where a block does not fit at all.

    As NVIDIA's occupancy calculator (cuda_occupancy.h of the toolkit) has it: a warp's registers are allocated in units
    of 256, warps in one of four partitions; a block's shared memory in units of 128 bytes (256 before 8.0), 1 KiB of it
    reserved from 8.0 on. All of the SM's shared memory is assumed to be carved out where a kernel asks for it.
    """
    device = device_of(architecture)
    before_ampere = architecture == "sm_75"
    warps = -(-threads // WARP)
    if threads > device.threads_of_block or shared > device.shared_of_block or registers > device.registers_of_thread:
        return 0
    registers_of_warp = round_up(max(registers, 1) * WARP, 256)
    if registers_of_warp * round_up(warps, 4) > device.registers:
        return 0
    warps_by_registers = device.registers // 4 // registers_of_warp * 4
    shared_of_block = round_up(shared if before_ampere else shared + KIB, 256 if before_ampere else 128)
    limits = [device.blocks, device.warps // warps, warps_by_registers // warps]
    if shared_of_block > 0:
        limits.append(device.shared // shared_of_block)
    return min(limits)


def occupancy(architecture: str, registers: int, threads: int, shared: int) -> float:
    """The share of an SM's warps that can be resident at once."""
    blocks = blocks_of_sm(architecture, registers, threads, shared)
    return blocks * -(-threads // WARP) / device_of(architecture).warps
