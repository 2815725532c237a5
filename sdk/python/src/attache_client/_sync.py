"""The synchronous clients. Generated from ``_async.py`` by ``scripts/unasync.py``."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Iterator, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union
from urllib.parse import quote

import httpx

from . import _core as core
from ._core import ChainState, Pace, Retry, SseLines
from .errors import AttacheError, BatchFailed, ProofError, Refused, Unconfirmed, Unreachable
from .proof import Checkpoint, open_checkpoint, verify_consistency
from .types import (
    ActivityPage, AgentSessions, AgentSessionTimeline, BatchMessage, Claim, Complete, Computer, Costs, DeviceCode, Held, Imported, ItemError, Lane, Level,
    LogKey, Memory, MemoryEntry, Note, Outcome, Recorded, Registration, SearchResult, Space, SpaceDeleted, Tokens, Withheld, build,
)  # fmt: skip

T = TypeVar("T")
C = TypeVar("C", bound="_Http")
Waiting = Callable[[float], None]


class _Http:
    """Sends requests to one surface of a server, and retries them where that is safe."""

    def __init__(
        self,
        base_url: str,
        token: Optional[str] = None,
        *,
        timeout: float = 30.0,
        retry: Retry = Retry(),
        http: Optional[httpx.Client] = None,
    ) -> None:
        self.base_url = core.base_of(base_url)
        self._token = token
        self._retry = retry
        self._timeout = timeout
        # Redirects are not followed, so that credentials reach only this server.
        self._http = http or httpx.Client(timeout=timeout, follow_redirects=False)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def _bearer(self) -> Optional[str]:
        return self._token

    def _renew(self, token: Optional[str]) -> bool:
        """Replaces a token that the server refused; False if there is no other."""
        return False

    def _send(self, method: str, path: str, *, stream: bool = False, token: Optional[str] = None, **options: Any) -> httpx.Response:
        """Sends a request once. A status other than 2xx is an error."""
        url, token = self.base_url + path, token or self._bearer()
        if stream:
            # A stream has a message or a comment at least every 15 s.
            options["timeout"] = httpx.Timeout(self._timeout, read=max(self._timeout, 60.0))
        headers = {**options.pop("headers", {}), **({"authorization": f"Bearer {token}"} if token else {})}
        try:
            response = self._http.send(self._http.build_request(method, url, headers=headers, **options), stream=stream)
            if response.is_success:
                return response
            response.read()
            response.close()
        except httpx.TransportError as error:
            raise core.unreachable(url, error) from error
        raise core.refused(response)

    def _request(self, method: str, path: str, *, idempotent: Optional[bool] = None, **options: Any) -> httpx.Response:
        """Sends a request; repeats it if it is idempotent or was never sent."""
        again = method == "GET" if idempotent is None else idempotent
        attempt, renewed = 0, False
        while True:
            attempt += 1
            token = options.get("token") or self._bearer()
            try:
                return self._send(method, path, **{**options, "token": token})
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and error.status == 401 and not renewed and not options.get("token") and self._renew(token):
                    renewed = True
                    continue
                delay = self._retry.delay(attempt, error, again)
                if delay is None:
                    raise
            time.sleep(delay)

    def _json(self, method: str, path: str, **options: Any) -> Any:
        return (self._request(method, path, **options)).json()


class Client(_Http):
    """The account and agent API of a server.

    ``token`` is the credential of requests: the machine secret of a computer or the access token of an agent. See :meth:`as_computer` and
    :meth:`as_agent`.
    """

    _tokens: Optional[Tokens] = None
    _expires = 0.0
    _on_refresh: Optional[Callable[[Tokens], None]] = None
    _renewal: threading.Lock

    def as_computer(self, computer: Computer) -> Client:
        """A client that acts as a computer. It shares the connections of this one."""
        return Client(self.base_url, computer.machine_secret, retry=self._retry, http=self._http)

    def as_agent(self, tokens: Tokens, on_refresh: Optional[Callable[[Tokens], None]] = None) -> Client:
        """A client that acts as an agent, and exchanges its identity assertion before the access token expires.

        ``on_refresh`` receives the new tokens, to store their identity assertion.
        """
        agent = Client(self.base_url, retry=self._retry, http=self._http)
        agent._tokens, agent._on_refresh = tokens, on_refresh
        agent._expires = time.monotonic() + tokens.expires_in
        agent._renewal = threading.Lock()
        return agent

    def _bearer(self) -> Optional[str]:
        if self._tokens is None:
            return self._token
        if time.monotonic() > self._expires - core.REFRESH_AHEAD:
            self._renew(self._tokens.access_token)
        return self._tokens.access_token

    def _renew(self, token: Optional[str]) -> bool:
        if self._tokens is None or self._tokens.identity_assertion is None:
            return False
        # Concurrent requests share one exchange.
        with self._renewal:
            if self._tokens.access_token == token:
                bare = Client(self.base_url, retry=self._retry, http=self._http)
                self._tokens = bare.exchange_assertion(self._tokens.identity_assertion)
                self._expires = time.monotonic() + self._tokens.expires_in
                if self._on_refresh is not None:
                    self._on_refresh(self._tokens)
        return True

    def register_agent(self, login_hint: Optional[str] = None) -> Registration:
        """Registers an agent: for the person with an e-mail address, whose claim then starts, or anonymously."""
        body = {"type": "service_auth", "login_hint": login_hint} if login_hint else {"type": "anonymous"}
        answer = self._json("POST", "/api/v1/agent-auth/identity", json=body)
        claim = build(Claim, answer["claim"]) if answer.get("claim") else None
        return build(Registration, answer, claim=claim)

    def start_claim(self, claim_token: str, email: Optional[str] = None) -> Claim:
        """Starts a claim, or starts it again with a new link and code. ``email`` binds it to one person."""
        body = {"claim_token": claim_token, **({"email": email} if email else {})}
        return build(Claim, (self._json("POST", "/api/v1/agent-auth/claim", json=body))["claim"])

    def wait_claimed(self, claim_token: str, claim: Claim, waiting: Optional[Waiting] = None) -> Tokens:
        """Polls until a person completes the claim. Calls ``waiting`` with the length of each pause.

        Raises :class:`Refused` with the code ``expired_token`` after the end of the claim, and ``invalid_grant`` if the agent was revoked.
        """
        pace = Pace(claim.interval, claim.expires_in)
        while True:
            try:
                return self.exchange_claim(claim_token)
            except (Refused, Unreachable) as error:
                pause = pace.after(error)
            if waiting is not None:
                waiting(pause)
            time.sleep(pause)

    def exchange_claim(self, claim_token: str) -> Tokens:
        """Exchanges a claim token once. Raises :class:`Refused` with ``authorization_pending`` before the claim."""
        return self._token_by({"grant_type": core.CLAIM_GRANT, "claim_token": claim_token})

    def exchange_assertion(self, identity_assertion: str) -> Tokens:
        """Exchanges an identity assertion for an access token and, after the claim, a new assertion."""
        return self._token_by({"grant_type": core.ASSERTION_GRANT, "assertion": identity_assertion})

    def _token_by(self, form: Mapping[str, str]) -> Tokens:
        return build(Tokens, self._json("POST", "/api/v1/agent-auth/token", data=form, idempotent=True))

    def revoke_token(self, access_token: str) -> None:
        """Ends an access token. The identity assertion remains valid."""
        self._request("POST", "/api/v1/agent-auth/revoke", data={"token": access_token}, idempotent=True)

    def register_computer(
        self,
        name: Optional[str] = None,
        *,
        user_cuid: Optional[str] = None,
        machine_uuid: Optional[str] = None,
        enrolment_key: Optional[str] = None,
    ) -> Computer:
        """Registers a computer, by default with fresh ids. Its secret is part of this response only: store it."""
        body = {"user_cuid": user_cuid or core.new_cuid(), "machine_uuid": machine_uuid or core.uuid7(), **({"name": name} if name else {})}
        return build(Computer, self._json("POST", "/api/v1/machines", json=body, token=enrolment_key))

    def device_code(self, computer: Computer) -> DeviceCode:
        """Requests the code with which a person attaches the computer to their account."""
        body = {"user_cuid": computer.user_cuid, "machine_uuid": computer.machine_uuid}
        return build(DeviceCode, self._json("POST", "/api/v1/device/code", json=body, token=computer.machine_secret))

    def wait_attached(self, code: DeviceCode, waiting: Optional[Waiting] = None) -> str:
        """Polls until a person approves the computer, at the server's pace. Returns the account's id.

        Raises :class:`Refused` with the code ``access_denied`` or ``expired_token``.
        """
        pace = Pace(code.interval, code.expires_in)
        body = {"grant_type": core.DEVICE_GRANT, "device_code": code.device_code}
        while True:
            try:
                return str((self._json("POST", "/api/v1/device/token", json=body))["user_account_id"])
            except (Refused, Unreachable) as error:
                pause = pace.after(error)
            if waiting is not None:
                waiting(pause)
            time.sleep(pause)

    def chain(self, computer: Computer, agent_id: str = "svc-cli", state: Union[str, Path, None] = None) -> Chain:
        """The chain of one agent kind on a computer. ``state`` is a file that belongs to it alone, without which a restart cannot resume."""
        return Chain(self.as_computer(computer), ChainState(computer, agent_id, state))

    def account_summary(self) -> Dict[str, Any]:
        """Account, usage, computers and agents. For agents."""
        return dict(self._json("GET", "/api/v1/account/summary"))

    def activity(
        self, *, limit: Optional[int] = None, cursor: Optional[str] = None, since: Optional[str] = None, lane: Optional[Lane] = None
    ) -> ActivityPage:
        """A page of recorded events, newest first."""
        given = {"limit": limit, "cursor": cursor, "since": since, "lane": lane}
        query = {name: value for name, value in given.items() if value is not None}
        return build(ActivityPage, self._json("GET", "/api/v1/activity", params=query))

    def sessions(
        self,
        *,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
        since: Optional[str] = None,
        day: Optional[str] = None,
        agent: Optional[str] = None,
        project: Optional[str] = None,
        computer: Optional[str] = None,
    ) -> AgentSessions:
        """A page of sessions of agents, the one with the newest event first. ``day`` is a UTC day such as ``2026-01-31``."""
        given = {"limit": limit, "cursor": cursor, "since": since, "day": day, "agent": agent, "project": project, "computer": computer}
        query = {name: value for name, value in given.items() if value is not None}
        return build(AgentSessions, self._json("GET", "/api/v1/activity/sessions", params=query))

    def costs(self, days: int = 30) -> Costs:
        """Tokens and costs of models in the last days, 1 to 400, at list prices. Amounts are in millionths of a US dollar."""
        return build(Costs, self._json("GET", "/api/v1/usage/costs", params={"days": days}))

    def session(self, session_id: str, *, limit: Optional[int] = None, cursor: Optional[str] = None) -> AgentSessionTimeline:
        """A session of an agent, and a page of its events, newest first."""
        query = {name: value for name, value in {"limit": limit, "cursor": cursor}.items() if value is not None}
        return build(AgentSessionTimeline, self._json("GET", f"/api/v1/activity/sessions/{session_id}", params=query))

    def consent(self, lane: Lane, machine_uuid: Optional[str] = None) -> Level:
        """The effective level of a computer: its own with a machine secret, ``machine_uuid`` as an agent."""
        query = {"lane": lane, **({"machine_uuid": machine_uuid} if machine_uuid else {})}
        level: Level = (self._json("GET", "/api/v1/consent", params=query))["level"]
        return level

    def set_consent(
        self, level: Level, *, lane: Optional[Lane] = None, machine_uuid: Optional[str] = None, reason: Optional[str] = None
    ) -> Level:
        """Sets a level; returns the level in force."""
        given = {"level": level, "lane": lane, "machine_uuid": machine_uuid, "reason": reason}
        body = {name: value for name, value in given.items() if value is not None}
        answer: Level = (self._json("POST", "/api/v1/consent", json=body, idempotent=True))["level"]
        return answer

    def pause_recording(self, seconds: int, machine_uuid: Optional[str] = None) -> str:
        """Pauses recording, on this computer or as an agent on all; returns the time at which the pause ends by itself."""
        body = {"seconds": seconds, **({"machine_uuid": machine_uuid} if machine_uuid else {})}
        until: str = (self._json("POST", "/api/v1/consent/pause", json=body, idempotent=True))["paused_until"]
        return until

    def end_pause(self, machine_uuid: Optional[str] = None) -> None:
        """Ends a pause early that this computer began; the pause of another party only a person ends."""
        self._json("DELETE", "/api/v1/consent/pause", params={"machine_uuid": machine_uuid} if machine_uuid else {})

    def event_registry(self) -> Dict[str, Dict[str, Any]]:
        """Event types by name, each with ``lane``, ``content_fields`` and ``payload_schema``."""
        answer = self._json("GET", "/api/v1/events/registry")
        return {entry["event_type"]: entry for entry in answer["event_types"]}

    def proof(self, event_id: str) -> Dict[str, Any]:
        """The audit proof of an event as it is now: ``included``, or ``pending`` until a checkpoint covers the event."""
        return dict(self._json("GET", "/api/v1/audit/verify", params={"event_id": event_id}))

    def wait_proof(self, event_id: str, timeout: float = 30.0) -> Dict[str, Any]:
        """The audit proof of an event, once a checkpoint covers it. Verify it with :func:`attache_client.verify`."""
        end = time.monotonic() + timeout
        while True:
            proof = self.proof(event_id)
            if proof["status"] == "included" or time.monotonic() > end:
                return proof
            time.sleep(0.25)

    def log_keys(self) -> List[LogKey]:
        """The keys of the log. Pin the active one (``retired_at`` is None) from a source that you trust."""
        return [build(LogKey, key) for key in (self._json("GET", "/api/v1/audit/keys"))["keys"]]

    def observe(self, vkey: str, seen: Optional[Checkpoint] = None, log: int = 0) -> Checkpoint:
        """The newest checkpoint, verified: signed by the key, and of a log that only grew since ``seen``. Store it for the next call.

        ``log`` is the part of the log with this key, as in :class:`LogKey`.
        """
        part = {"log": str(log)} if log else {}
        newest = open_checkpoint((self._request("GET", "/api/v1/audit/checkpoint", params=part)).text, vkey)
        if seen is None or seen.size == 0:
            return newest
        if newest.size < seen.size:
            raise ProofError("checkpoint", f"the log was rolled back from {seen.size} to {newest.size} events")
        query = {"from": str(seen.size), "to": str(newest.size), **part}
        proof = [] if newest.size == seen.size else (self._json("GET", "/api/v1/audit/consistency", params=query))["proof"]
        verify_consistency(seen.size, newest.size, seen.root, newest.root, proof)
        return newest


class Chain:
    """Records events on one chain, each exactly once.

    An event is sealed, stored in the state and sent until the server has answered. After :class:`Unconfirmed`, or a crash, the next call of
    :meth:`send` or :meth:`resume` sends the same bytes first. One process at a time may use a state.
    """

    def __init__(self, client: Client, state: ChainState) -> None:
        self._client = client
        self._state = state
        self._lock = threading.Lock()
        self._registry: Optional[Dict[str, Dict[str, Any]]] = None
        self._levels: Dict[str, Tuple[float, Level]] = {}

    @property
    def pending(self) -> Optional[str]:
        """Id of the event whose outcome is unknown, if there is one."""
        return None if self._state.pending is None else str(self._state.pending["event_id"])

    def send(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        level: Optional[Level] = None,
        lane: Optional[Lane] = None,
        event_id: Optional[str] = None,
        project_id: Optional[str] = None,
        session_uuid: Optional[str] = None,
        redacted: bool = False,
    ) -> Outcome:
        """Records an event.

        Without ``level``, the person's consent decides: at ``off`` nothing is sent, at ``metadata-only`` the content fields of the event type
        are removed first. With ``level``, the event is sent as it is. With the ``event_id`` of the pending event, that event is sent again.
        """
        with self._lock:
            settled = self._deliver()
            if event_id is not None and isinstance(settled, (Recorded, Held)) and settled.event_id == event_id:
                return settled
            known = (self._types()).get(event_type, {})
            place = lane or known.get("lane")
            if place is None:
                raise ValueError(f"{event_type!r} is not a registered event type; with lane= it is sent anyway, and held")
            kept = dict(payload)
            if level is None:
                level = self._level(place)
                if level == "off":
                    return Withheld(place)
                if level != "full":
                    content = set(known.get("content_fields", []))
                    kept = {name: value for name, value in kept.items() if name not in content}
            computer = self._state.computer
            scope = {"user_id": computer.user_cuid, "machine_id": computer.machine_uuid, "agent_id": self._state.agent_id}
            scope.update({name: value for name, value in {"project_id": project_id, "session_uuid": session_uuid}.items() if value is not None})
            event = {"schema_version": "v1", "event_id": event_id or core.uuid7(), "event_type": event_type, "lane": place}
            event.update(consent_level=level, ts_edge_ms=time.time_ns() // 1_000_000, redacted=redacted or kept != dict(payload))
            self._state.put({**event, "scope": scope, "payload": kept})
            outcome = self._deliver()
            assert outcome is not None
            return outcome

    def resume(self) -> Optional[Outcome]:
        """Sends the pending event of an earlier call or process again; None if there is none."""
        with self._lock:
            return self._deliver()

    def _types(self) -> Dict[str, Dict[str, Any]]:
        if self._registry is None:
            self._registry = self._client.event_registry()
        return self._registry

    def _level(self, lane: Lane) -> Level:
        read, level = self._levels.get(lane, (float("-inf"), None))
        if level is None or time.monotonic() > read + core.CONSENT_KEPT:
            level = self._client.consent(lane)
            self._levels[lane] = (time.monotonic(), level)
        return level

    def _deliver(self) -> Optional[Outcome]:
        """Sends the pending event until it is settled."""
        moved = False
        while self._state.pending is not None:
            event_id, body = str(self._state.pending["event_id"]), str(self._state.pending["body"])
            headers = {"content-type": "application/json"}
            try:
                answer = self._client._json("POST", "/api/v1/events", content=body.encode(), headers=headers, idempotent=True)
            except Refused as error:
                expected = error.body.get("expected")
                if error.code in ("chain_conflict", "chain_broken") and isinstance(expected, dict) and not moved:
                    moved = True
                    self._state.move(expected)
                    continue
                if error.code == "event_id_conflict":
                    return self._other(event_id, body, error)
                if error.status == 413:
                    self._state.drop()
                    raise
                raise Unconfirmed(event_id, error) from error
            except Unreachable as error:
                raise Unconfirmed(event_id, error) from error
            if answer.get("held"):
                self._state.drop()
                warning = str(answer.get("warning", ""))
                return Held(event_id, warning.partition(":")[0], warning)
            self._state.taken()
            return Recorded(event_id, str(answer["receipt_id"]))
        return None

    def _other(self, event_id: str, body: str, error: Refused) -> Outcome:
        """The log has an event with this id: the same one at an earlier position, or another."""
        try:
            proof = self._client.proof(event_id)
        except AttacheError as failed:
            if isinstance(failed, Refused) and not failed.retryable:
                self._state.drop()
                raise error from failed
            raise Unconfirmed(event_id, failed) from failed
        self._state.drop()
        if not core.same_event(json.loads(base64.b64decode(proof["canonical_b64"])), body):
            raise error
        return Recorded(event_id, str(proof["receipt_id"]))


class Knowledge(_Http):
    """The knowledge API of a server. ``token`` is an API key."""

    def spaces(self) -> List[Space]:
        """The spaces of the account, the default space first."""
        return [build(Space, space) for space in (self._json("GET", "/v1/spaces"))["spaces"]]

    def create_space(self, name: str, *, is_public: bool = False) -> Space:
        """Creates a space."""
        body = {"spaceName": name, "isPublic": is_public}
        return build(Space, (self._json("POST", "/v1/spaces/create", json=body))["space"])

    def update_space(
        self, space_id: str, *, name: Optional[str] = None, is_public: Optional[bool] = None, is_favorite: Optional[bool] = None
    ) -> Space:
        """Changes name, publicity or mark of a space."""
        given = {"spaceName": name, "isPublic": is_public, "isFavorite": is_favorite}
        body = {name: value for name, value in given.items() if value is not None}
        return build(Space, (self._json("PATCH", f"/v1/spaces/{quote(space_id)}", json=body, idempotent=True))["space"])

    def delete_space(self, space_id: str, *, delete_memories: bool = False) -> SpaceDeleted:
        """Deletes a space. Memories that are in no other space move to the default space, or are deleted too."""
        params = {"memories": "delete"} if delete_memories else {}
        return build(SpaceDeleted, self._json("DELETE", f"/v1/spaces/{quote(space_id)}", params=params))

    def search(self, query: str, *, limit: int = 10, threshold: float = 0.0, spaces: Sequence[str] = ()) -> List[SearchResult]:
        """Memories that fit a query, most similar first."""
        body = {"query": query, "limit": limit, "threshold": threshold, **({"spaces": list(spaces)} if spaces else {})}
        return [build(SearchResult, found) for found in (self._json("POST", "/v1/search", json=body, idempotent=True))["results"]]

    def memory(self, memory_id: str) -> Memory:
        """A memory with its whole text."""
        return build(Memory, self._json("GET", f"/v1/memories/{quote(memory_id)}"))

    def memories(
        self, *, space: Optional[str] = None, type: Optional[str] = None, tag: Optional[str] = None, day: Optional[str] = None
    ) -> Iterator[MemoryEntry]:
        """The memories of a space, type, tag or day (UTC, ``2026-01-31``), newest first, read in pages."""
        given = {"space": space, "type": type, "tag": tag, "day": day, "limit": "100"}
        params = {name: value for name, value in given.items() if value is not None}
        while True:
            page = self._json("GET", "/v1/memories", params=params)
            for memory in page["memories"]:
                yield build(MemoryEntry, memory)
            if page["nextCursor"] is None:
                return
            params["cursor"] = page["nextCursor"]

    def update_memory(
        self,
        memory_id: str,
        *,
        title: Optional[str] = None,
        content: Optional[str] = None,
        tags: Optional[Sequence[str]] = None,
        spaces: Optional[Sequence[str]] = None,
    ) -> Memory:
        """Changes the given members of a memory; ``tags`` and ``spaces`` are all of them."""
        given = {"title": title, "content": content, "tags": tags and list(tags), "spaces": spaces and list(spaces)}
        body = {name: value for name, value in given.items() if value is not None}
        return build(Memory, self._json("PATCH", f"/v1/memories/{quote(memory_id)}", json=body, idempotent=True))

    def delete_memory(self, memory_id: str) -> None:
        """Deletes a memory, or removes it from the spaces of a limited key."""
        self._request("DELETE", f"/v1/memories/{quote(memory_id)}")

    def export(self) -> Iterator[Dict[str, Any]]:
        """All memories, oldest first. An error means that the export is incomplete."""
        response = self._request("GET", "/v1/export", stream=True)
        try:
            for line in response.iter_lines():
                if line:
                    yield json.loads(line)
        except httpx.TransportError as error:
            raise core.unreachable(self.base_url, error) from error
        finally:
            response.close()

    def import_memories(self, memories: Sequence[Mapping[str, Any]]) -> Imported:
        """Stores lines of an export, at most 10,000 at once. A memory that the account has remains as it is, so an import may be repeated."""
        lines = "".join(json.dumps(memory, ensure_ascii=False) + "\n" for memory in memories).encode()
        headers = {"content-type": "application/x-ndjson"}
        response = self._request("POST", "/v1/import", content=lines, headers=headers, idempotent=True, stream=True)
        errors: List[ItemError] = []
        try:
            for line in response.iter_lines():
                message = json.loads(line) if line else {}
                if message.get("type") == "error":
                    errors.append(build(ItemError, message))
                elif message.get("type") == "complete":
                    return build(Imported, message, errors=errors)
        except httpx.TransportError as error:
            raise core.unreachable(self.base_url, error) from error
        finally:
            response.close()
        raise core.unreachable(self.base_url, httpx.RemoteProtocolError("the answer to an import is incomplete"))

    def add(
        self, *, urls: Sequence[str] = (), contents: Sequence[Note] = (), spaces: Sequence[str] = (), idempotency_key: Optional[str] = None
    ) -> Batch:
        """Adds pages and notes. Returns once the server has stored the batch, which continues if this program ends.

        Another request with the same ``idempotency_key`` and the same items within 24 hours joins the same batch.
        """
        given = {"urls": list(urls), "contents": list(contents), "spaces": list(spaces)}
        body = {name: value for name, value in given.items() if value}
        # A request whose answer was lost is repeated with its key, and joins the same batch.
        headers = {"idempotency-key": idempotency_key or core.uuid7()}
        response = self._request("POST", "/v1/batch-add", json=body, headers=headers, stream=True, idempotent=True)
        return Batch(self, response.headers["x-batch-id"], None, response)

    def join(self, batch_id: str, last_event_id: Optional[str] = None) -> Batch:
        """The stream of a batch, from its beginning or after a message."""
        return Batch(self, batch_id, last_event_id, None)

    def cancel(self, batch_id: str) -> None:
        """Cancels a batch: items without an outcome get the error ``cancelled``."""
        self._request("DELETE", f"/v1/batch-add/{quote(batch_id)}", idempotent=True)


class Batch:
    """The messages of a batch, to iterate over. An interrupted stream is resumed after the last message, without gaps and duplicates."""

    def __init__(self, knowledge: Knowledge, batch_id: str, last_event_id: Optional[str], response: Optional[httpx.Response]) -> None:
        self.id = batch_id
        #: Id of the last message, after which the stream can be joined.
        self.last_event_id = last_event_id
        self._knowledge = knowledge
        self._response = response

    def __iter__(self) -> Iterator[BatchMessage]:
        attempt = 0
        while True:
            try:
                response, self._response = self._response or self._join(), None
            except Unreachable as error:
                raise BatchFailed(self.id, self.last_event_id, "unreachable", str(error)) from error
            lines = SseLines()
            try:
                if response.status_code == 204:
                    return  # The last message was read before.
                for line in response.iter_lines():
                    for message_id, data in lines.feed(line):
                        self.last_event_id = message_id or self.last_event_id
                        if data.get("fatal"):
                            raise BatchFailed(self.id, self.last_event_id, str(data.get("error")), str(data.get("message")))
                        attempt = 0
                        message = core.message_of(data)
                        if message is not None:
                            yield message
                        if isinstance(message, Complete):
                            return
            except httpx.TransportError:
                pass
            finally:
                response.close()
            attempt += 1
            if attempt > self._knowledge._retry.attempts:
                raise BatchFailed(self.id, self.last_event_id, "interrupted", "the stream ends again and again")
            time.sleep(min(self._knowledge._retry.delay_min * attempt, 1.0))

    def _join(self) -> httpx.Response:
        headers = {"last-event-id": self.last_event_id} if self.last_event_id else {}
        return self._knowledge._request("GET", f"/v1/batch-add/{quote(self.id)}", headers=headers, stream=True)
