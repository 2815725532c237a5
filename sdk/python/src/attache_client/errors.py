"""Errors of the client. All derive from :class:`AttacheError`."""

from __future__ import annotations

from typing import Any, Mapping, Optional


class AttacheError(Exception):
    """Base class of all errors of this package."""


class Unreachable(AttacheError):
    """The server did not answer: no connection, a broken one, or a timeout."""

    def __init__(self, message: str, *, never_sent: bool = False) -> None:
        super().__init__(message)
        #: The request cannot have reached the server.
        self.never_sent = never_sent


class Refused(AttacheError):
    """The server answered with an error."""

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: Optional[float] = None) -> None:
        #: HTTP status.
        self.status = status
        #: Error code, such as ``access_denied``.
        self.code = str(body.get("error") or f"http_{status}")
        #: Explanation for a person, if the server gave one.
        self.detail: Optional[str] = next((str(body[name]) for name in ("details", "message", "reason") if body.get(name)), None)
        #: The same request may be sent again.
        self.retryable = status in (424, 429, 503) or (status in (502, 504) and "written" not in body)
        #: Seconds to wait before that, if the server gave them.
        self.retry_after = retry_after
        #: All members of the response.
        self.body = dict(body)
        super().__init__(f"{status} {self.code}" + (f": {self.detail}" if self.detail else ""))


class Unconfirmed(AttacheError):
    """It is unknown whether an event was recorded.

    The event is in the state of its chain. The next call of ``send`` or ``resume`` sends the same bytes first, and the server counts them once.
    """

    def __init__(self, event_id: str, cause: AttacheError) -> None:
        super().__init__(f"event {event_id} is not confirmed and is sent again by the next call: {cause}")
        self.event_id = event_id
        self.cause = cause


class BatchFailed(AttacheError):
    """A batch cannot continue, or its stream cannot be resumed. The batch may still be running: join it after ``last_event_id``."""

    def __init__(self, batch_id: str, last_event_id: Optional[str], code: str, message: str) -> None:
        super().__init__(f"batch {batch_id}: {code}: {message}")
        self.batch_id = batch_id
        self.last_event_id = last_event_id
        self.code = code


class CanonicalError(AttacheError, ValueError):
    """A value has no canonical JSON form that the server accepts, or bytes are not canonical."""


class ProofError(AttacheError):
    """A proof, a checkpoint or a key does not verify."""

    def __init__(self, member: str, message: str) -> None:
        super().__init__(f"{member}: {message}")
        #: The faulty member of the proof, with dots: ``chain.prev``.
        self.member = member


class StateError(AttacheError):
    """The state of a chain cannot be read, or belongs to another computer."""
