export { canonical, canonicalEvent, parseCanonical, seal, type JsonObject } from "./canonical.js";
export { Chain, type ChainOptions, type ChainStorage, type SendOptions } from "./chain.js";
export { Client, type AgentOptions, type WaitOptions } from "./client.js";
export { AttacheError, BatchFailed, CanonicalError, ProofError, Refused, StateError, Unconfirmed, Unreachable } from "./errors.js";
export type { Options, Retry } from "./http.js";
export { Batch, Knowledge } from "./knowledge.js";
export { leafHash, openCheckpoint, verify, verifyConsistency, verifyInclusion } from "./proof.js";
export type * from "./types.js";
