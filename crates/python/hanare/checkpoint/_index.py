"""The index of a generation: what was saved, and where. It is written when all shards are there, and has a checksum of its own.

::

    | mark, 8 bytes | bytes of the terms, 8 | bytes of the body, 8 | checksum of both, 32 | terms, as JSON | body |
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..pool import Region
from ._shards import DIGEST_LEN, Damaged, Shard, digest

_MARK = b"hanareC1"
_HEAD_LEN = 24 + DIGEST_LEN

#: Kinds of checkpoints: who saved them.
ARRAYS, TORCH = "arrays", "torch"


@dataclass(frozen=True)
class Index:
    """What was saved: the kind, all shards, what the kind keeps as JSON, and what it keeps as bytes."""

    kind: str
    shards: list[Shard]
    terms: Any
    body: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the bytes of the region of an index."""
        shards = [shard.to_json() for shard in self.shards]
        terms = json.dumps({"kind": self.kind, "shards": shards, "terms": self.terms}).encode()
        lengths = len(terms).to_bytes(8, "little") + len(self.body).to_bytes(8, "little")
        return _MARK + lengths + digest(lengths + terms + self.body) + terms + self.body


def read_index(region: Region) -> Index:
    """Read the index that lies in a region. **Errors**: `Damaged`, and those of `Region.get`."""
    written = region.get()
    lengths, told, rest = written[8:24], written[24:_HEAD_LEN], written[_HEAD_LEN:]
    terms_len, body_len = int.from_bytes(lengths[:8], "little"), int.from_bytes(lengths[8:], "little")
    if written[:8] != _MARK or terms_len + body_len != len(rest) or digest(lengths + rest) != told:
        raise Damaged(f"the index in region '{region.name}' is not whole")
    try:
        found = json.loads(rest[:terms_len])
        return Index(found["kind"], [Shard.from_json(each) for each in found["shards"]], found["terms"], rest[terms_len:])
    except (ValueError, KeyError, TypeError, RecursionError) as odd:
        raise Damaged(f"the index in region '{region.name}' is of no version that this program knows: {odd}") from odd
