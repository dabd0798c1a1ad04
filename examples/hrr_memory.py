"""Fifty thousand records in one file, found by two of their five roles, by another process too.

The records are characters of Unicode, from the tables that Python brings along: the first and the last word of their
name, category, direction and width, under the characters as names. Queries are two roles of characters drawn at random.
Beside `hrr.Memory`, which ranks all records by the cosine of their vectors, stand an exact search for the records that
hold both fillers and the cosines of all vectors in float64. One seed: an illustration, not a benchmark.

Run: python examples/hrr_memory.py
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from torch_hrr.hrr.records import Memory

ROLES = ("first word", "last word", "category", "direction", "width")
# Matches asked for at most.
MOST = 20


def characters(count: int) -> dict[str, dict[str, str]]:
    """Records of named characters, those of Chinese after all others: their names differ by a number alone."""
    # Surrogates are no characters.
    every = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    named = [each for each in every if unicodedata.name(each, "")]
    named.sort(key=lambda each: unicodedata.name(each).startswith("CJK"))
    records = {}
    for each in named[:count]:
        words = unicodedata.name(each).split()
        direction, width = unicodedata.bidirectional(each), unicodedata.east_asian_width(each)
        values = (words[0], words[-1], unicodedata.category(each), direction, width)
        records[each] = {role: value for role, value in zip(ROLES, values, strict=True) if value}
    return records


def found(memory: Memory, queries: list[dict[str, str]]) -> list[list[tuple[str, float]]]:
    """Names and cosines of the best records."""
    return [[(match.name, match.cosine) for match in one] for one in memory.search(queries, MOST)]


def found_elsewhere(path: str, queries: list[dict[str, str]]) -> list[list[tuple[str, float]]]:
    """The same by a process that opens the file anew."""
    command = [sys.executable, __file__, "--answer", path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, input=json.dumps(queries), capture_output=True, text=True, env=environment, check=True
    )
    return [[(name, cosine) for name, cosine in one] for one in json.loads(done.stdout)]


def largest_cosines(memory: Memory, queries: list[dict[str, str]], count: int) -> torch.Tensor:
    """The largest cosines of every query with all vectors, in float64."""
    rows = F.normalize(torch.stack([memory.encode(query) for query in queries]).double(), dim=-1)
    parts = [rows @ F.normalize(part.double(), dim=-1).mT for part in memory.vectors.split(5000)]
    return torch.cat(parts, -1).topk(count).values


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Stores the records, prints what the searches agree in and returns it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--answer", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.answer:
        with Memory(options.answer) as memory:
            print(json.dumps(found(memory, json.load(sys.stdin))))
        return {}

    records, choose = characters(options.records), random.Random(options.seed)
    queries = []
    for name in choose.sample(sorted(records), options.queries):
        record = records[name]
        queries.append({role: record[role] for role in choose.sample(list(record), 2)})
    exact = [{name for name, record in records.items() if query.items() <= record.items()} for query in queries]
    wanted = [min(len(names), MOST) for names in exact]
    results: dict[str, float] = {}

    def report(name: str, share: float) -> None:
        results[name] = share
        print(f"  {name:<63} {share:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "characters.db")
        with Memory(path, options.dim, options.seed) as memory:
            start = time.perf_counter()
            memory.store_many(records)
            print(f"{len(memory)} records stored in {time.perf_counter() - start:.0f} s, ", end="")
            memory.search(queries[0])
            start = time.perf_counter()
            answers = found(memory, queries)
            spent = 1000 * (time.perf_counter() - start) / len(queries)
            print(f"{os.path.getsize(path) >> 20} MB; {len(queries)} queries, {spent:.0f} ms each")
            cosines = largest_cosines(memory, queries, 10)
        elsewhere = found_elsewhere(path, queries)

    pairs = zip(answers, wanted, exact, strict=True)
    hits = sum(len({name for name, _ in one[:count]} & names) for one, count, names in pairs)
    report(f"records with both fillers among the first, of {sum(wanted)}", hits / sum(wanted))
    given = torch.tensor([[cosine for _, cosine in one[:10]] for one in answers], dtype=torch.float64)
    same = (given - cosines).abs().lt(1e-6).all(-1).double().mean()
    report("queries whose 10 cosines are those of float64 over all vectors", float(same))
    again = sum(one == other for one, other in zip(answers, elsewhere, strict=True))
    report("queries that another process answers with the same bits", again / len(queries))
    return results


if __name__ == "__main__":
    main()
