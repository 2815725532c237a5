"""Client of attache.

>>> from attache_client import Client
>>> server = Client("http://127.0.0.1:8080")  # doctest: +SKIP
>>> computer = server.register_computer()  # doctest: +SKIP
>>> server.chain(computer).send("memory.stored", {"memory_id": "m1"})  # doctest: +SKIP

``Client`` and ``Knowledge`` have asynchronous twins, ``AsyncClient`` and ``AsyncKnowledge``.
"""

from ._async import AsyncBatch, AsyncChain, AsyncClient, AsyncKnowledge
from ._core import Retry
from ._sync import Batch, Chain, Client, Knowledge
from .canonical import canonical, parse_canonical, seal
from .errors import AttacheError, BatchFailed, CanonicalError, ProofError, Refused, StateError, Unconfirmed, Unreachable
from .proof import Checkpoint, Verified, open_checkpoint, verify, verify_consistency, verify_inclusion
from .types import (
    ActivityPage, AgentSessions, AgentSessionTimeline, BatchMessage, Claim, Complete, Computer, Costs, DeviceCode, Held, Imported, ItemError, Lane, Level, LogKey,
    Memory, MemoryEntry, Note, Outcome, Progress, Recorded, Registration, SearchResult, Skipped, Space, SpaceDeleted, Success, Tokens, Withheld,
)  # fmt: skip

__version__ = "0.1.0"

__all__ = [
    "ActivityPage", "AgentSessionTimeline", "AgentSessions", "AsyncBatch", "AsyncChain", "AsyncClient", "AsyncKnowledge", "AttacheError", "Batch", "BatchFailed", "BatchMessage",
    "CanonicalError", "Chain", "Checkpoint", "Claim", "Client", "Complete", "Computer", "Costs", "DeviceCode", "Held", "Imported", "ItemError", "Knowledge",
    "Lane", "Level", "LogKey", "Memory", "MemoryEntry", "Note", "Outcome", "Progress", "ProofError", "Recorded", "Refused", "Registration", "Retry", "SearchResult",
    "Skipped", "Space", "SpaceDeleted", "StateError", "Success", "Tokens", "Unconfirmed", "Unreachable", "Verified", "Withheld", "canonical", "open_checkpoint",
    "parse_canonical", "seal", "verify", "verify_consistency", "verify_inclusion",
]  # fmt: skip
