"""Requests, responses and outcomes."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Literal, Mapping, Optional, Type, TypedDict, TypeVar, Union



Level = Literal["off", "metadata-only", "full"]
Lane = Literal["memory", "llm", "skill", "security", "squad", "rsi"]
T = TypeVar("T")


@dataclass(frozen=True)
class Claim:
    """A claim attempt, to show to the person: open ``verification_uri`` and type ``user_code``."""

    user_code: str
    verification_uri: str
    #: Seconds.
    expires_in: int
    #: Seconds between polls.
    interval: int


@dataclass(frozen=True)
class Registration:
    """A registered agent. Store ``claim_token`` and ``identity_assertion`` as secrets."""

    registration_id: str
    registration_type: Literal["anonymous", "service_auth"]
    claim_token: str = field(repr=False)
    #: Present if the agent was registered for a person.
    claim: Optional[Claim] = None
    #: Present if the agent was registered anonymously.
    identity_assertion: Optional[str] = field(default=None, repr=False)


@dataclass(frozen=True)
class Tokens:
    """An access token. A claimed agent also gets a new identity assertion, which it exchanges for the next token."""

    access_token: str = field(repr=False)
    #: Seconds.
    expires_in: float
    scope: str
    identity_assertion: Optional[str] = field(default=None, repr=False)
    assertion_expires: Optional[str] = None


@dataclass(frozen=True)
class Computer:
    """A registered computer. Store ``machine_secret`` as a secret."""

    user_cuid: str
    machine_uuid: str
    machine_secret: str = field(repr=False)


@dataclass(frozen=True)
class DeviceCode:
    """A device code: a person types ``user_code`` on ``verification_uri``, or opens ``verification_uri_complete``."""

    device_code: str = field(repr=False)
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


@dataclass(frozen=True)
class Recorded:
    """The event is in the log."""

    event_id: str
    receipt_id: str
    status: Literal["recorded"] = "recorded"


@dataclass(frozen=True)
class Held:
    """The server stored the event and did not forward it. It takes no position in the chain."""

    event_id: str
    #: Such as ``consent_exceeded``.
    reason: str
    warning: str
    status: Literal["held"] = "held"


@dataclass(frozen=True)
class Withheld:
    """The event was not sent: the person's level for the lane is ``off``."""

    lane: str
    status: Literal["withheld"] = "withheld"


Outcome = Union[Recorded, Held, Withheld]


@dataclass(frozen=True)
class ActivityPage:
    """Recorded events, newest first. The first page also has the held events (``unclassified``)."""

    events: List[Dict[str, Any]]
    next_cursor: Optional[str] = None
    unclassified: List[Dict[str, Any]] = field(default_factory=list)
    unclassified_truncated: bool = False


@dataclass(frozen=True)
class AgentSessions:
    """Sessions of agents, the one with the newest event first. Each has the sums over the events that name it."""

    sessions: List[Dict[str, Any]]
    next_cursor: Optional[str] = None


@dataclass(frozen=True)
class AgentSessionTimeline:
    """A session of an agent, and a page of its events, newest first."""

    session: Dict[str, Any]
    events: List[Dict[str, Any]]
    next_cursor: Optional[str] = None


@dataclass(frozen=True)
class Costs:
    """Tokens and costs of models by day, agent kind, project and model. Amounts are in millionths of a US dollar."""

    prices_as_of: str
    first_day: str
    last_day: str
    total_microdollars: int
    unpriced_models: List[Optional[str]]
    rows: List[Dict[str, Any]]
    truncated: bool = False


@dataclass(frozen=True)
class LogKey:
    """A key of the log, or of the part with the number ``log``."""

    vkey: str
    active_from: str
    retired_at: Optional[str] = None
    log: int = 0


@dataclass(frozen=True)
class Space:
    """A set of memories with its own readers."""

    id: str
    name: str
    is_public: bool
    is_favorite: bool
    access_type: Literal["owner", "edit", "read"]
    created_at: str
    owner: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchResult:
    """A memory that fits a query."""

    id: str
    title: str
    url: str
    content: str
    #: 0 to 1.
    similarity: float
    created_at: str
    type: str
    #: The best pieces of the text: ``content`` and ``similarity``.
    chunks: List[Dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Memory:
    """A page or a note."""

    id: str
    title: str
    url: str
    content: str
    created_at: str
    updated_at: str
    type: str
    spaces: List[str] = field(default_factory=list)
    tags: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class MemoryEntry:
    """A memory in a list. ``excerpt`` is the beginning of its text."""

    id: str
    title: str
    url: str
    excerpt: str
    created_at: str
    updated_at: str
    type: str
    spaces: List[str] = field(default_factory=list)
    tags: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class SpaceDeleted:
    """Numbers of memories that were in no other space: moved to the default space, and deleted."""

    moved: int
    deleted: int


class Note(TypedDict, total=False):
    """A text to add. ``content`` is required."""

    content: str
    title: str
    type: Literal["note", "page", "document", "tweet", "notion"]


@dataclass(frozen=True)
class Progress:
    """Number of items with an outcome."""

    processed: int
    total: int
    type: Literal["progress"] = "progress"


@dataclass(frozen=True)
class Success:
    """An item is searchable now."""

    id: str
    url: str
    #: Number of the item, from 0: ``urls`` first, then ``contents``.
    index: Optional[int] = None
    type: Literal["success"] = "success"


@dataclass(frozen=True)
class ItemError:
    """An item was not added."""

    error: str
    message: str
    index: Optional[int] = None
    url: Optional[str] = None
    title: Optional[str] = None
    type: Literal["error"] = "error"


@dataclass(frozen=True)
class Imported:
    """The outcome of an import. ``errors`` has the items that were not imported."""

    created: int
    existing: int
    failed: int
    errors: List[ItemError] = field(default_factory=list)


@dataclass(frozen=True)
class Skipped:
    """An item was left out: ``filtered`` or ``robots_disallowed``."""

    reason: str
    index: Optional[int] = None
    url: Optional[str] = None
    type: Literal["skipped"] = "skipped"


@dataclass(frozen=True)
class Complete:
    """Every item has an outcome."""

    type: Literal["complete"] = "complete"


BatchMessage = Union[Progress, Success, ItemError, Skipped, Complete]
MESSAGES: Dict[str, Type[BatchMessage]] = {
    "progress": Progress, "success": Success, "error": ItemError, "skipped": Skipped, "complete": Complete,
}  # fmt: skip


def build(kind: Type[T], body: Mapping[str, Any], **others: Any) -> T:
    """An object of the members that its class names; names in camelCase are read as snake_case, unknown ones are ignored."""
    known = {entry.name for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    members = {re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name): value for name, value in body.items()}
    return kind(**{name: value for name, value in {**members, **others}.items() if name in known})
