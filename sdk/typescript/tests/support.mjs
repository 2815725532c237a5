// A person who approves, and a relay that loses answers, for tests against a running server.
//
// The tests need a server: ATTACHE_TEST_URL, the cookie of a signed-in person ATTACHE_TEST_SESSION and an API key ATTACHE_TEST_KEY.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const URL_ = process.env.ATTACHE_TEST_URL ?? "";
export const KEY = process.env.ATTACHE_TEST_KEY ?? "";
export const QUICK = { retry: { attempts: 5, delayMin: 0.01 } };
export const ONCE = { retry: { attempts: 1 } };
export const withServer = URL_ === "" ? { skip: "ATTACHE_TEST_URL names no server" } : {};

const folder = process.env.ATTACHE_TEST_VECTORS ?? new URL("../../../tests/vectors", import.meta.url).pathname;

/** @param {string} name @returns {any} */
export function vectors(name) {
  return JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8"));
}

/** The signed-in person, who answers on the pages. */
export const ada = {
  /** @param {string} path @param {object} body */
  async post(path, body) {
    const headers = { cookie: process.env.ATTACHE_TEST_SESSION ?? "", "content-type": "application/json" };
    const answer = await fetch(URL_ + path, { method: "POST", headers, body: JSON.stringify(body) });
    assert.equal(answer.status, 200, await answer.text());
  },
  /** @param {{ user_code: string }} code */
  approve: (code) => ada.post("/api/v1/device/approve", { user_code: code.user_code }),
  /** @param {{ user_code: string }} code */
  deny: (code) => ada.post("/api/v1/device/deny", { user_code: code.user_code }),
  /** @param {{ user_code: string, verification_uri: string }} claim */
  complete: (claim) => {
    const attempt = new URL(claim.verification_uri).searchParams.get("attempt");
    return ada.post("/api/v1/agent-auth/claim/complete", { claim_attempt_token: attempt, user_code: claim.user_code });
  },
};

/** @param {number} pause */
function refusal(pause) {
  const body = '{"error": "temporarily_unavailable", "reason": "now"}';
  const head = `HTTP/1.1 424 Failed Dependency\r\nRetry-After: ${pause}\r\nContent-Type: application/json\r\nConnection: close\r\n`;
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
}

/** A file in a folder that ends with the test. @param {import("node:test").TestContext} t */
export function stateFile(t) {
  const path = mkdtempSync(join(tmpdir(), "attache-"));
  t.after(() => rmSync(path, { recursive: true }));
  return join(path, "chain.json");
}

/**
 * A relay before the server that can lose answers. `watched` begins the requests that it counts and whose answers it treats: `lose` answers are lost after
 * the server has given them, `refuse` has the seconds of `Retry-After` of requests that are refused with 424, with `withhold` no answer arrives, and `cutAfter` has numbers of messages after which a stream breaks in the middle of the next one.
 *
 * @param {import("node:test").TestContext} t
 */
export async function relay(t) {
  const { hostname, port } = new URL(URL_);
  const plan = { watched: "POST /api/v1/events ", seen: 0, lose: 0, withhold: false, withheld: () => {}, refuse: /** @type {number[]} */ ([]), cutAfter: /** @type {number[]} */ ([]), url: "" };
  /** @type {Set<import("node:net").Socket>} */
  const sockets = new Set();
  const listener = createServer((client) => {
    const server = createConnection(Number(port), hostname);
    let [treatment, messages, passed] = ["pass", 0, 0];
    const end = () => [client, server].forEach((socket) => socket.destroy());
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on("error", end).on("close", end);
    }
    client.on("data", (chunk) => {
      const line = chunk.toString("latin1", 0, 100);
      if (/^(GET|POST|DELETE) /.test(line)) {
        [treatment, passed] = ["pass", 0];
        if (line.startsWith(plan.watched)) {
          plan.seen += 1;
          const pause = plan.refuse.shift();
          if (pause !== undefined) {
            treatment = "refuse";
            client.end(refusal(pause));
          } else if (plan.lose > 0) [treatment, plan.lose] = ["lose", plan.lose - 1];
          else if (plan.cutAfter.length > 0) [treatment, messages] = ["cut", plan.cutAfter.shift() ?? 0];
          else if (plan.withhold) treatment = "withhold";
        }
      }
      if (treatment !== "refuse") server.write(chunk);
    });
    server.on("data", (chunk) => {
      if (treatment === "lose") return end();
      if (treatment === "withhold") return plan.withheld();
      if (treatment === "cut") {
        const parts = chunk.toString("latin1").split("data: ");
        if (passed + parts.length - 1 > messages) {
          client.end(`${parts.slice(0, messages - passed + 1).join("data: ")}data: {`, "latin1", end);
          treatment = "withhold";
          return;
        }
        passed += parts.length - 1;
      }
      client.write(chunk);
    });
  });
  await new Promise((listening) => listener.listen(0, "127.0.0.1", () => listening(undefined)));
  plan.url = `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (listener.address()).port}`;
  t.after(() => {
    listener.close();
    sockets.forEach((socket) => socket.destroy());
  });
  return plan;
}
