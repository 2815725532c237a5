"""Shared by the synchronous and the asynchronous client: requests, delays, ids, and the state of a chain."""

from __future__ import annotations

import json
import os
import random
import secrets
import string
import tempfile
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple, Union

import httpx

from .canonical import canonical, canonical_event, seal
from .errors import AttacheError, Refused, StateError, Unreachable
from .types import BatchMessage, MESSAGES, Computer, build

CLAIM_GRANT = "urn:svc:agent-auth:grant-type:claim"
ASSERTION_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL_MAX = 60.0
#: An access token is exchanged this many seconds before it expires.
REFRESH_AHEAD = 60.0
#: Seconds for which a level of consent is believed.
CONSENT_KEPT = 30.0


@dataclass(frozen=True)
class Retry:
    """Limits of repeated attempts: exponential backoff with jitter, or the server's ``Retry-After``."""

    attempts: int = 6
    #: Seconds.
    delay_min: float = 0.2
    #: Seconds. A longer ``Retry-After`` is not waited for.
    delay_max: float = 30.0

    def delay(self, attempt: int, error: AttacheError, idempotent: bool) -> Optional[float]:
        """Seconds until the next attempt (the first is 1), or None if there is none."""
        again, asked = False, 0.0
        if isinstance(error, Unreachable):
            again = idempotent or error.never_sent
        elif isinstance(error, Refused):
            again, asked = idempotent and error.retryable, error.retry_after or 0.0
        if not again or attempt >= self.attempts or asked > self.delay_max:
            return None
        backoff: float = min(self.delay_min * 2 ** (attempt - 1), self.delay_max)
        return max(asked, backoff * random.uniform(0.5, 1.0))


def base_of(url: str) -> str:
    """A base URL without a slash at its end."""
    if httpx.URL(url).scheme not in ("http", "https"):
        raise ValueError(f"not a base URL: {url}")
    return url.rstrip("/")


def unreachable(url: str, error: httpx.TransportError) -> Unreachable:
    """The error of a request without a response."""
    never_sent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return Unreachable(f"{httpx.URL(url).copy_with(query=None)}: {error or type(error).__name__}", never_sent=never_sent)


def refused(response: httpx.Response) -> Refused:
    """The error of a response that was read."""
    try:
        body = json.loads(response.content)
    except ValueError:
        body = None
    return Refused(response.status_code, body if isinstance(body, dict) else {}, retry_after(response.headers.get("retry-after")))


def retry_after(value: Optional[str]) -> Optional[float]:
    """Seconds of a header ``Retry-After``, which has a number or a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value)) if value.strip().isdigit() else max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


class Pace:
    """The pace of polls (RFC 8628, section 3.5): the server's interval, longer after ``slow_down``, until the code expires."""

    def __init__(self, interval: float, expires_in: float) -> None:
        self.interval = min(max(interval, 1.0), INTERVAL_MAX)
        self.expires = time.monotonic() + expires_in

    def after(self, error: AttacheError) -> float:
        """Seconds until the next poll. Raises the error if it is final."""
        code = error.code if isinstance(error, Refused) else None
        if code == "slow_down":
            asked = error.body.get("interval") if isinstance(error, Refused) else None
            longer = float(asked) if isinstance(asked, (int, float)) else self.interval + 5
            self.interval = min(max(longer, self.interval), INTERVAL_MAX)
        elif code != "authorization_pending":
            passing = isinstance(error, Unreachable) or (isinstance(error, Refused) and error.retryable)
            if not passing or time.monotonic() >= self.expires:
                raise error
        return self.interval


def uuid7() -> str:
    """A fresh UUIDv7 (RFC 9562, section 5.7)."""
    number = (time.time_ns() // 1_000_000) << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def new_cuid() -> str:
    """A fresh id in the form of a CUID2."""
    return secrets.choice(string.ascii_lowercase) + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(23))


class ChainState:
    """The head of a chain and its pending event, in a file that is replaced as a whole, or in memory.

    The pending event is written before it is sent, so a program that crashes sends the same bytes again after its next start.
    """

    def __init__(self, computer: Computer, agent_id: str, path: Union[str, Path, None]) -> None:
        self.path = None if path is None else Path(path)
        self.computer = computer
        self.agent_id = agent_id
        self.next: Dict[str, Any] = {"chain_epoch": 0, "seq": 0, "prev": "GENESIS"}
        self.pending: Optional[Dict[str, Any]] = None
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def _read(self, path: Path) -> None:
        try:
            stored = json.loads(path.read_text("utf-8"))
            owner = (stored["machine_uuid"], stored["agent_id"])
            self.next, self.pending = stored["next"], stored["pending"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(f"{path}: {error}") from error
        if owner != (self.computer.machine_uuid, self.agent_id):
            raise StateError(f"{path} is the state of another chain: computer {owner[0]}, agent {owner[1]}")

    def put(self, event: Mapping[str, Any]) -> None:
        """Seals an event for the next position and stores it as pending."""
        position = {"chain_epoch": self.next["chain_epoch"], "seq": self.next["seq"]}
        draft = {**event, **position, "hash_chain": {"prev": self.next["prev"]}}
        draft["hash_chain"]["self"] = seal(draft)
        self.pending = {"event_id": event["event_id"], "body": canonical(draft).decode()}
        self._write()

    def move(self, position: Mapping[str, Any]) -> None:
        """Seals the pending event again for the position that the server expects."""
        if self.pending is not None:
            self.next = {name: position[name] for name in ("chain_epoch", "seq", "prev")}
            self.put(json.loads(self.pending["body"]))

    def taken(self) -> None:
        """The pending event was recorded: it is the head."""
        if self.pending is not None:
            sealed = json.loads(self.pending["body"])
            self.next = {"chain_epoch": sealed["chain_epoch"], "seq": sealed["seq"] + 1, "prev": sealed["hash_chain"]["self"]}
            self.drop()

    def drop(self) -> None:
        """Forgets the pending event, which takes no position."""
        self.pending = None
        self._write()

    def _write(self) -> None:
        if self.path is None:
            return
        stored = {"version": 1, "machine_uuid": self.computer.machine_uuid, "agent_id": self.agent_id, "next": self.next, "pending": self.pending}
        descriptor, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(stored, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
            if os.name == "posix":
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def same_event(logged: Mapping[str, Any], body: str) -> bool:
    """Whether an event of the log is the sent one, apart from its position and its time."""

    def content(event: Mapping[str, Any]) -> bytes:
        return canonical_event({**event, "chain_epoch": 0, "seq": 0, "ts_edge_ms": 0, "hash_chain": {}})

    return content(logged) == content(json.loads(body))


class SseLines:
    """Server-sent events of a stream (WHATWG HTML), line by line."""

    def __init__(self) -> None:
        self._data: Optional[str] = None
        self._id: Optional[str] = None

    def feed(self, line: str) -> Iterator[Tuple[Optional[str], Dict[str, Any]]]:
        """The message that this line ends, if it ends one: its id and its data."""
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self._data = value if self._data is None else f"{self._data}\n{value}"
        elif name == "id":
            self._id = value
        elif not line:
            if self._data is not None:
                yield self._id, json.loads(self._data)
            self._data = self._id = None


def message_of(data: Mapping[str, Any]) -> Optional[BatchMessage]:
    """The message of a stream; None for a type that this version does not know."""
    kind = MESSAGES.get(str(data.get("type")))
    return None if kind is None else build(kind, data)
