// A log of hash-chained events in Fastify and pg, as its users would write it themselves.
//
//   node events-postgres.mjs postgres://user@address/database
//
// What arrived while a group was committed is the next group: one transaction with the heads of its chains locked, the ids compared, and
// one INSERT for all events. An event is parsed, canonicalised, hashed and compared, its bearer is looked up by the hash of the token
// (once, then from memory), its id and its place in the chain are checked. Every answer of 202 is durable. No tree, no registry, no usage.
import { createHash, randomUUID } from "node:crypto";
import canonicalize from "canonicalize";
import Fastify from "fastify";
import pg from "pg";

class Refusal extends Error {
  constructor(status, code) {
    super(code);
    this.status = status;
  }
}

const sha256 = (text) => createHash("sha256").update(text).digest("hex");

const pool = new pg.Pool({ connectionString: process.argv[2], max: 8 });
await pool.query(`
  CREATE TABLE machines (token_hash TEXT PRIMARY KEY, machine TEXT NOT NULL);
  CREATE TABLE heads (chain TEXT PRIMARY KEY, seq BIGINT NOT NULL, head TEXT NOT NULL);
  CREATE TABLE events (
    n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id UUID NOT NULL UNIQUE, chain TEXT NOT NULL, seq BIGINT NOT NULL,
    self TEXT NOT NULL, body TEXT NOT NULL, at BIGINT NOT NULL
  );
`);

const HEADS = {
  name: "heads",
  text: "SELECT chain, seq, head FROM heads WHERE chain = ANY($1::TEXT[]) ORDER BY chain FOR UPDATE",
};
const KNOWN = { name: "known", text: "SELECT event_id, self FROM events WHERE event_id = ANY($1::UUID[])" };
const ADD = {
  name: "add",
  text: `INSERT INTO events (event_id, chain, seq, self, body, at)
    SELECT * FROM unnest($1::UUID[], $2::TEXT[], $3::BIGINT[], $4::TEXT[], $5::TEXT[], $6::BIGINT[])`,
};
const MOVE = {
  name: "move",
  text: `INSERT INTO heads (chain, seq, head) SELECT * FROM unnest($1::TEXT[], $2::BIGINT[], $3::TEXT[])
    ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, head = excluded.head`,
};

// The group that waits while the one before is committed.
let group = [];
let committing = false;

async function take(client, waiting) {
  const chains = [...new Set(waiting.map(({ event }) => event.chain))];
  const heads = new Map();
  for (const { chain, seq, head } of (await client.query({ ...HEADS, values: [chains] })).rows) {
    heads.set(chain, { seq: Number(seq), head });
  }
  const known = new Map();
  const ids = waiting.map(({ event }) => event.id);
  for (const { event_id, self } of (await client.query({ ...KNOWN, values: [ids] })).rows) known.set(event_id, self);
  const columns = [[], [], [], [], [], []];
  const moved = new Set();
  for (const one of waiting) {
    const { id, chain, seq, prev, self, body } = one.event;
    const before = known.get(id);
    if (before === self) continue;
    const head = heads.get(chain);
    const continues = head ? head.seq + 1 === seq && head.head === prev : seq === 0 && prev === "GENESIS";
    if (before || !continues) {
      one.refusal = new Refusal(409, before ? "event_id" : "chain");
      continue;
    }
    [id, chain, seq, self, body, Date.now()].forEach((value, column) => columns[column].push(value));
    known.set(id, self);
    heads.set(chain, { seq, head: self });
    moved.add(chain);
  }
  if (moved.size === 0) return;
  await client.query({ ...ADD, values: columns });
  const rows = [...moved].map((chain) => [chain, heads.get(chain).seq, heads.get(chain).head]);
  await client.query({ ...MOVE, values: [0, 1, 2].map((column) => rows.map((row) => row[column])) });
}

async function commit() {
  committing = true;
  while (group.length > 0) {
    const waiting = group;
    group = [];
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      await take(client, waiting);
      await client.query("COMMIT");
      for (const { refusal, resolve, reject } of waiting) refusal ? reject(refusal) : resolve();
      client.release();
    } catch (error) {
      // The connection may be inside a failed transaction.
      client.release(error);
      for (const { reject } of waiting) reject(error);
    }
  }
  committing = false;
}

function append(event) {
  return new Promise((resolve, reject) => {
    group.push({ event, resolve, reject });
    if (!committing) commit();
  });
}

const app = Fastify({ logger: false, bodyLimit: 256 * 1024 });

app.setErrorHandler((error, _request, reply) => {
  reply.code(error.status ?? error.statusCode ?? 500).send({ error: error.message });
});

const machines = new Map();

async function authenticated(request) {
  const token = request.headers.authorization?.slice("Bearer ".length);
  const hash = token && sha256(token);
  if (hash && !machines.has(hash)) {
    const { rows } = await pool.query("SELECT machine FROM machines WHERE token_hash = $1", [hash]);
    if (rows.length > 0) machines.set(hash, rows[0].machine);
  }
  const machine = machines.get(hash);
  if (!machine) throw new Refusal(401, "token");
  return machine;
}

app.post("/api/v1/machines", async (request, reply) => {
  const token = `msk_${randomUUID()}`;
  await pool.query("INSERT INTO machines VALUES ($1, $2)", [sha256(token), request.body.machine_uuid]);
  reply.code(201);
  return { machine_secret: token };
});

app.post("/api/v1/events", async (request, reply) => {
  const machine = await authenticated(request);
  const event = request.body;
  if (event.scope.machine_id !== machine) throw new Refusal(403, "machine");
  const { self, ...link } = event.hash_chain;
  const body = canonicalize({ ...event, hash_chain: link });
  if (sha256(body) !== self) throw new Refusal(422, "hash");
  const chain = `${machine}/${event.chain_epoch}`;
  await append({ id: event.event_id, chain, seq: event.seq, prev: link.prev, self, body });
  reply.code(202);
  return { receipt_id: event.event_id };
});

await app.listen({ port: 0, host: "127.0.0.1" });
console.log(`127.0.0.1:${app.server.address().port}`);
