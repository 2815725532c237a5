// A log of hash-chained events in Fastify and better-sqlite3, as its users would write it themselves.
//
//   node events.mjs single|turn|tree DATABASE
//
// `single` commits each event by itself. `turn` commits together what arrived in one turn of the event loop. `tree` is `turn`
// with an RFC 6962 tree: a leaf and its inner nodes are rows, and a root is signed with Ed25519 every 500 ms.
// An event is parsed, canonicalised, hashed and compared, its bearer is looked up by the hash of the token, its id and its
// place in the chain are checked. Every answer of 202 is durable: WAL, synchronous=FULL.
import { createHash, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import Database from "better-sqlite3";
import canonicalize from "canonicalize";
import Fastify from "fastify";

const [mode, file] = process.argv.slice(2);
const SIGN_EVERY_MS = 500;

class Refusal extends Error {
  constructor(status, code) {
    super(code);
    this.status = status;
  }
}

const sha256 = (text) => createHash("sha256").update(text).digest("hex");

const db = new Database(file);
db.pragma("journal_mode = WAL");
db.pragma("synchronous = FULL");
db.exec(`
  CREATE TABLE machines (token_hash TEXT PRIMARY KEY, machine TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE heads (chain TEXT PRIMARY KEY, seq INTEGER NOT NULL, head TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE events (
    n INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, chain TEXT NOT NULL, seq INTEGER NOT NULL,
    self TEXT NOT NULL, body TEXT NOT NULL, at INTEGER NOT NULL
  );
  CREATE TABLE nodes (level INTEGER, place INTEGER, hash BLOB NOT NULL, PRIMARY KEY (level, place)) WITHOUT ROWID;
  CREATE TABLE checkpoints (size INTEGER PRIMARY KEY, root BLOB NOT NULL, signature BLOB NOT NULL);
`);

// The tree.

const hashOf = (tag, ...parts) => {
  const hash = createHash("sha256").update(tag);
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const LEAF = Buffer.from([0]);
const NODE = Buffer.from([1]);

const addNode = db.prepare("INSERT INTO nodes VALUES (?, ?, ?)");
const nodeAt = db.prepare("SELECT hash FROM nodes WHERE level = ? AND place = ?").pluck();
const addCheckpoint = db.prepare("INSERT INTO checkpoints VALUES (?, ?, ?)");
const lastCheckpoint = db.prepare("SELECT size, root, signature FROM checkpoints ORDER BY size DESC LIMIT 1");
const { privateKey } = generateKeyPairSync("ed25519");
let size = 0;
let signed = 0;
// The roots of the full subtrees at the right edge, by level.
let edge = [];

function grow(self) {
  let hash = hashOf(LEAF, Buffer.from(self, "hex"));
  let place = size;
  let level = 0;
  addNode.run(level, place, hash);
  while (place & 1) {
    hash = hashOf(NODE, edge[level], hash);
    edge[level] = null;
    place >>>= 1;
    level += 1;
    addNode.run(level, place, hash);
  }
  edge[level] = hash;
  size += 1;
}

function checkpoint() {
  if (signed === size) return;
  let root = null;
  for (const hash of edge) if (hash) root = root ? hashOf(NODE, hash, root) : hash;
  addCheckpoint.run(size, root, sign(null, root, privateKey));
  signed = size;
}

const split = (count) => 2 ** (31 - Math.clz32(count - 1));

function subtree(from, to) {
  const count = to - from;
  if ((count & (count - 1)) === 0 && from % count === 0) return nodeAt.get(31 - Math.clz32(count), from / count);
  const middle = from + split(count);
  return hashOf(NODE, subtree(from, middle), subtree(middle, to));
}

function path(leaf, from, to) {
  if (to - from === 1) return [];
  const middle = from + split(to - from);
  return leaf < middle
    ? [...path(leaf, from, middle), subtree(middle, to)]
    : [...path(leaf, middle, to), subtree(from, middle)];
}

// The log.

const addMachine = db.prepare("INSERT OR REPLACE INTO machines VALUES (?, ?)");
const machineOf = db.prepare("SELECT machine FROM machines WHERE token_hash = ?").pluck();
const headOf = db.prepare("SELECT seq, head FROM heads WHERE chain = ?");
const known = db.prepare("SELECT self FROM events WHERE event_id = ?").pluck();
const eventOf = db.prepare("SELECT n, body FROM events WHERE event_id = ?");
const moveHead = db.prepare(
  "INSERT INTO heads VALUES (?, ?, ?) ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, head = excluded.head",
);
const addEvent = db.prepare("INSERT INTO events (event_id, chain, seq, self, body, at) VALUES (?, ?, ?, ?, ?, ?)");

function take(event) {
  const before = known.get(event.id);
  if (before === event.self) return;
  if (before) throw new Refusal(409, "event_id");
  const head = headOf.get(event.chain);
  const continues = head ? head.seq + 1 === event.seq && head.head === event.prev : event.seq === 0 && event.prev === "GENESIS";
  if (!continues) throw new Refusal(409, "chain");
  if (mode === "tree") grow(event.self);
  addEvent.run(event.id, event.chain, event.seq, event.self, event.body, Date.now());
  moveHead.run(event.chain, event.seq, event.self);
}

const takeAlone = db.transaction(take);
const takeAll = db.transaction((group) => {
  for (const waiting of group) {
    try {
      take(waiting.event);
    } catch (error) {
      // What the law refuses has written nothing; anything else undoes the group.
      if (!(error instanceof Refusal)) throw error;
      waiting.refusal = error;
    }
  }
});

let group = [];

function commit() {
  const waiting = group;
  group = [];
  // A group that is undone takes the tree back too.
  const [sizeBefore, edgeBefore] = [size, edge.slice()];
  try {
    takeAll.immediate(waiting);
  } catch (error) {
    [size, edge] = [sizeBefore, edgeBefore];
    for (const { reject } of waiting) reject(error);
    return;
  }
  for (const { refusal, resolve, reject } of waiting) refusal ? reject(refusal) : resolve();
}

function append(event) {
  if (mode === "single") return takeAlone.immediate(event);
  return new Promise((resolve, reject) => {
    if (group.push({ event, resolve, reject }) === 1) setImmediate(commit);
  });
}

// The server.

const app = Fastify({ logger: false, bodyLimit: 256 * 1024 });

app.setErrorHandler((error, _request, reply) => {
  reply.code(error.status ?? error.statusCode ?? 500).send({ error: error.message });
});

function authenticated(request) {
  const token = request.headers.authorization?.slice("Bearer ".length);
  const machine = token && machineOf.get(sha256(token));
  if (!machine) throw new Refusal(401, "token");
  return machine;
}

app.post("/api/v1/machines", async (request, reply) => {
  const token = `msk_${randomUUID()}`;
  addMachine.run(sha256(token), request.body.machine_uuid);
  reply.code(201);
  return { machine_secret: token };
});

app.post("/api/v1/events", async (request, reply) => {
  const machine = authenticated(request);
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

app.get("/api/v1/audit/verify", async (request) => {
  authenticated(request);
  const event = eventOf.get(request.query.event_id);
  if (!event) throw new Refusal(404, "event");
  const last = lastCheckpoint.get();
  if (!last || event.n > last.size) return { status: "pending", event: event.body };
  return {
    status: "included",
    event: event.body,
    leaf_index: event.n - 1,
    tree_size: last.size,
    root: last.root.toString("hex"),
    signature: last.signature.toString("base64"),
    inclusion_path: path(event.n - 1, 0, last.size).map((hash) => hash.toString("hex")),
  };
});

if (mode === "tree") setInterval(checkpoint, SIGN_EVERY_MS);
await app.listen({ port: 0, host: "127.0.0.1" });
console.log(`127.0.0.1:${app.server.address().port}`);
