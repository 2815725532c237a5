// Requests, responses and outcomes. Bodies of the protocol have the names of its members; a test compares them with the server's /openapi.json.

import type { JsonObject } from "./canonical.js";

export type Level = "off" | "metadata-only" | "full";
export type Lane = "memory" | "llm" | "skill" | "security" | "squad" | "rsi";
export type MemoryType = "note" | "page" | "document" | "tweet" | "notion";

/** A claim attempt, to show to the person: open `verification_uri` and type `user_code`. */
export interface Claim {
  user_code: string;
  verification_uri: string;
  /** Seconds. */
  expires_in: number;
  /** Seconds between polls. */
  interval: number;
}

/** A registered agent. Store `claim_token` and `identity_assertion` as secrets. */
export interface Registration {
  registration_id: string;
  registration_type: "anonymous" | "service_auth";
  claim_token: string;
  /** Present if the agent was registered for a person. */
  claim?: Claim;
  /** Present if the agent was registered anonymously. */
  identity_assertion?: string;
}

/** An access token. A claimed agent also gets a new identity assertion, which it exchanges for the next token. */
export interface Tokens {
  access_token: string;
  /** Seconds. */
  expires_in: number;
  scope: string;
  identity_assertion?: string;
  assertion_expires?: string;
}

/** A registered computer. Store `machine_secret` as a secret. */
export interface Computer {
  user_cuid: string;
  machine_uuid: string;
  machine_secret: string;
}

/** A device code: a person types `user_code` on `verification_uri`, or opens `verification_uri_complete`. */
export interface DeviceCode {
  device_code: string;
  user_code: string;
  verification_uri: string;
  verification_uri_complete: string;
  expires_in: number;
  interval: number;
}

/** The account, its usage, its computers and its agents. A section that could not be read is named in `errors`. */
export interface AccountSummary {
  version: number;
  generated_at: string;
  sections: { account?: { id: string; email: string | null; name: string | null }; [section: string]: unknown };
  errors: { [section: string]: string };
}

/** The outcome of an event. */
export type Outcome =
  /** The event is in the log. */
  | { status: "recorded"; eventId: string; receiptId: string }
  /** The server stored the event and did not forward it, for a reason such as `consent_exceeded`. It takes no position in the chain. */
  | { status: "held"; eventId: string; reason: string; warning: string }
  /** The event was not sent: the person's level for the lane is `off`. */
  | { status: "withheld"; lane: Lane };

/** A type of the event registry. */
export interface EventType {
  event_type: string;
  lane: Lane;
  content_fields: string[];
  payload_schema: unknown;
}

/** Recorded events, newest first. The first page also has the held events (`unclassified`). */
export interface ActivityPage {
  events: ActivityEntry[];
  next_cursor: string | null;
  unclassified?: HeldEntry[];
  unclassified_truncated?: boolean;
}

/** Filter of sessions; `since` is a date-time or milliseconds since 1970, `day` a UTC day such as `2026-01-31`. */
export type SessionQuery = {
  limit?: number;
  cursor?: string;
  since?: string;
  day?: string;
  agent?: string;
  project?: string;
  computer?: string;
};

export interface AgentSessions {
  sessions: AgentSession[];
  next_cursor: string | null;
}

/** A session of an agent: sums over the events that name it. Times ending in `_ms` are milliseconds. */
export interface AgentSession {
  id: string;
  machine_uuid: string;
  agent_id: string;
  session_uuid: string;
  project_id: string | null;
  folder: string | null;
  started_ms: number;
  last_ms: number;
  ended_ms: number | null;
  received_at: string;
  waiting_ms: number;
  tool_ms: number;
  events: number;
  tool_calls: number;
  failures: number;
  blocked: number;
  prompts: number;
  model_calls: number;
  subagents: number;
  files: number;
  input_tokens: number;
  output_tokens: number;
  cost_microdollars: number;
  unpriced: boolean;
  models: ModelUse[];
}

export interface ModelUse {
  model: string | null;
  calls: number;
  input_tokens: number;
  output_tokens: number;
}

/** Tokens and costs of models, at list prices. Amounts are in millionths of a US dollar. */
export interface Costs {
  prices_as_of: string;
  first_day: string;
  last_day: string;
  total_microdollars: number;
  unpriced_models: (string | null)[];
  rows: CostRow[];
  truncated: boolean;
}

export interface CostRow {
  day: string;
  agent_id: string;
  project_id: string | null;
  model: string | null;
  calls: number;
  input_tokens: number;
  output_tokens: number;
  cost_microdollars: number | null;
}

export interface AgentSessionTimeline {
  session: AgentSession;
  events: SessionEvent[];
  next_cursor: string | null;
}

export interface SessionEvent {
  event_id: string;
  event_type: string;
  lane: Lane;
  ts_edge_ms: number;
  received_at: string;
  consent_level: Level;
  summary: string;
  activity: string | null;
  skill: string | null;
  subagent: string | null;
  model: string | null;
  succeeded: boolean | null;
  duration_ms: number | null;
  input_tokens: number | null;
  output_tokens: number | null;
}

export interface ActivityEntry {
  event_id: string;
  event_type: string;
  lane: Lane;
  agent_id: string;
  machine_uuid: string;
  ts_edge_ms: number;
  received_at: string;
  consent_level: Level;
  redacted: boolean;
  chain_epoch: number;
  seq: number;
  receipt_id: string;
  /** The event in a sentence; absent if an external statistics service answers, as the next two. */
  summary?: string;
  tone?: "plain" | "failed" | "blocked" | "waiting" | "alert";
  proof_status?: "included" | "pending";
}

/** A held event. A member is null if the server could not read it. */
export interface HeldEntry {
  event_id: string | null;
  event_type: string | null;
  agent_id: string | null;
  machine_uuid: string | null;
  reason: string;
  received_at: string;
}

/** A key of the log. The active one has `retired_at` null. */
export interface LogKey {
  vkey: string;
  active_from: string;
  retired_at: string | null;
  /** The part of the log; absent for the first part. */
  log?: number;
}

/** An audit proof. Members about the tree are null while `status` is `pending`. */
export interface AuditProof {
  schema: string;
  status: "included" | "pending";
  event_id: string;
  receipt_id: string;
  hash_alg: string;
  canonical_b64: string;
  self: string;
  chain: { machine_id: string; agent_id: string; chain_epoch: number; seq: number; prev: string; prev_event_id: string | null };
  leaf_b64: string;
  leaf_hash: string;
  leaf_index: number | null;
  tree_size: number | null;
  root_hash: string | null;
  inclusion_path: string[] | null;
  checkpoint: string | null;
  vkey: string;
}

/** The signed size and root of the log. */
export interface Checkpoint {
  origin: string;
  size: number;
  /** Lowercase hex. */
  root: string;
  /** The signed note, to store and compare with later ones. */
  note: string;
}

/** The content of a verified proof. */
export interface Verified {
  eventId: string;
  receiptId: string;
  /** The event as it was recorded, without `hash_chain.self`. */
  event: JsonObject;
  seal: string;
  /** Milliseconds since 1970 at which the server received the event. */
  receivedAtMs: number;
  leafIndex: number;
  checkpoint: Checkpoint;
}

/** A set of memories with its own readers. */
export interface Space {
  id: string;
  name: string;
  isPublic: boolean;
  isFavorite: boolean;
  owner: { firstName: string; lastName: string };
  accessType: "owner" | "edit" | "read";
  createdAt: string;
}

/** A memory that fits a query. */
export interface SearchResult {
  id: string;
  title: string;
  url: string;
  content: string;
  /** 0 to 1. */
  similarity: number;
  createdAt: string;
  type: MemoryType;
  /** The best pieces of the text. */
  chunks: { content: string; similarity: number }[];
}

/** A page or a note. */
export interface Memory {
  id: string;
  title: string;
  url: string;
  content: string;
  createdAt: string;
  updatedAt: string;
  type: MemoryType;
  spaces: string[];
  tags?: string[];
}

/** A memory in a list: the beginning of its text instead of the whole. */
export type MemoryEntry = Omit<Memory, "content"> & { excerpt: string };

/** The members of a memory to change; `tags` and `spaces` are all of them. */
export interface MemoryChange {
  title?: string;
  content?: string;
  tags?: string[];
  spaces?: string[];
}

/** The outcome of an import. `errors` has the items that were not imported; `index` is the number of the line, from 0. */
export interface Imported {
  created: number;
  existing: number;
  failed: number;
  errors: { index: number; error: string; message: string }[];
}

/** A text to add. */
export interface Note {
  content: string;
  title?: string;
  type?: MemoryType;
}

/** A message of a batch's stream. */
export type BatchMessage =
  /** Number of items with an outcome. */
  | { type: "progress"; processed: number; total: number }
  /** An item is searchable now. `index` is its number, from 0: `urls` first, then `contents`. */
  | { type: "success"; id: string; url: string; index?: number }
  /** An item was not added. */
  | { type: "error"; error: string; message: string; index?: number; url?: string; title?: string }
  /** An item was left out: `filtered` or `robots_disallowed`. */
  | { type: "skipped"; reason: string; index?: number; url?: string }
  /** Every item has an outcome. */
  | { type: "complete" };
