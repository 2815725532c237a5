"""A person who approves, and a relay that loses answers, for tests against a running server.

The tests need a server: ``ATTACHE_TEST_URL``, the cookie of a signed-in person ``ATTACHE_TEST_SESSION`` and an API key ``ATTACHE_TEST_KEY``.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any, Dict, List, Tuple
from urllib.parse import parse_qs, urlsplit

import httpx

from attache_client import Claim, DeviceCode, Retry

URL = os.environ.get("ATTACHE_TEST_URL", "")
KEY = os.environ.get("ATTACHE_TEST_KEY", "")
VECTORS = Path(os.environ.get("ATTACHE_TEST_VECTORS") or Path(__file__).parents[3] / "tests" / "vectors")
QUICK = Retry(attempts=5, delay_min=0.01)
ONCE = Retry(attempts=1)


def vectors(name: str) -> Dict[str, Any]:
    return dict(json.loads((VECTORS / f"{name}.json").read_text("utf-8")))


REFUSAL = (
    b"HTTP/1.1 424 Failed Dependency\r\nRetry-After: %d\r\nContent-Type: application/json\r\nContent-Length: 53\r\nConnection: close\r\n\r\n"
    b'{"error": "temporarily_unavailable", "reason": "now"}'
)


class Person:
    """The signed-in person, who answers on the pages."""

    def _post(self, path: str, body: Dict[str, Any]) -> None:
        answer = httpx.post(URL + path, json=body, headers={"cookie": os.environ["ATTACHE_TEST_SESSION"]})
        assert answer.status_code == 200, answer.text

    def approve(self, code: DeviceCode) -> None:
        self._post("/api/v1/device/approve", {"user_code": code.user_code})

    def deny(self, code: DeviceCode) -> None:
        self._post("/api/v1/device/deny", {"user_code": code.user_code})

    def complete(self, claim: Claim) -> None:
        attempt = parse_qs(urlsplit(claim.verification_uri).query)["attempt"][0]
        self._post("/api/v1/agent-auth/claim/complete", {"claim_attempt_token": attempt, "user_code": claim.user_code})

    def consent(self, machine_uuid: str, level: str) -> None:
        self._post("/api/v1/consent", {"machine_uuid": machine_uuid, "level": level})


class Relay:
    """A relay before the server that can lose answers."""

    def __init__(self) -> None:
        target = urlsplit(URL)
        self._target = (target.hostname or "", target.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        #: Beginnings of request lines that the relay counts, and whose answers it treats.
        self.watched = b"POST /api/v1/events "
        self.seen = 0
        #: Number of answers that are lost after the server has given them.
        self.lose = 0
        #: Requests that are refused with 424 before they reach the server: the seconds of ``Retry-After``.
        self.refuse: List[int] = []
        #: Set once an answer is held back.
        self.withheld = threading.Event()
        self.withhold = False
        #: Number of messages of a stream that pass before it breaks in the middle of the next one, for each of these answers.
        self.cut_after: List[int] = []
        self._open: List[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        for one in [self._listener, *self._open]:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._open += [client, server]
            plans: List[Tuple[str, int]] = []
            threading.Thread(target=self._there, args=(client, server, plans), daemon=True).start()
            threading.Thread(target=self._back, args=(client, server, plans), daemon=True).start()

    def _there(self, client: socket.socket, server: socket.socket, plans: List[Tuple[str, int]]) -> None:
        try:
            while chunk := client.recv(65536):
                # A body may arrive apart from its head.
                if chunk.split(b" ", 1)[0] in (b"GET", b"POST", b"DELETE"):
                    plans.clear()
                    if chunk.startswith(self.watched):
                        self.seen += 1
                        plans.append(self._plan())
                    if plans and plans[0][0] == "refuse":
                        client.sendall(REFUSAL % plans[0][1])
                        client.shutdown(socket.SHUT_WR)
                        while client.recv(65536):
                            pass
                        break
                server.sendall(chunk)
        except OSError:
            pass
        _end(client, server)

    def _plan(self) -> Tuple[str, int]:
        if self.refuse:
            return ("refuse", self.refuse.pop(0))
        if self.lose:
            self.lose -= 1
            return ("lose", 0)
        if self.cut_after:
            return ("cut", self.cut_after.pop(0))
        return ("withhold" if self.withhold else "pass", 0)

    def _back(self, client: socket.socket, server: socket.socket, plans: List[Tuple[str, int]]) -> None:
        passed = 0
        try:
            while chunk := server.recv(65536):
                plan, messages = plans[0] if plans else ("pass", 0)
                if plan == "lose":
                    break
                if plan == "withhold":
                    self.withheld.set()
                    continue
                if plan == "cut":
                    parts = chunk.split(b"data: ")
                    if passed + len(parts) - 1 > messages:
                        client.sendall(b"data: ".join(parts[: messages - passed + 1]) + b"data: {")
                        break
                    passed += len(parts) - 1
                client.sendall(chunk)
        except OSError:
            pass
        _end(client, server)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
