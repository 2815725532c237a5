// Canonical JSON (RFC 8785) within the limits of an event, and the seal of an event.

import { CanonicalError } from "./errors.js";
import { sha256, hex, utf8 } from "./platform.js";

const DEPTH_MAX = 32;

/** An object of JSON. */
export type JsonObject = { [name: string]: unknown };

/**
 * The RFC 8785 form of a value. Members that are `undefined` are left out, as by `JSON.stringify`.
 *
 * Refuses the values that the server refuses: whole numbers beyond ±(2^53 - 1), lone surrogates, and nesting deeper than 32.
 */
export function canonical(value: unknown): string {
  return write(value, 0);
}

/** Parses an object and refuses every text that is not its own canonical form. */
export function parseCanonical(text: Uint8Array): JsonObject {
  let value: unknown;
  let source: string;
  try {
    source = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(text);
    value = JSON.parse(source);
  } catch (error) {
    throw new CanonicalError(error instanceof Error ? error.message : String(error));
  }
  if (!isObject(value)) throw new CanonicalError("not an object");
  if (canonical(value) !== source) throw new CanonicalError("not in canonical form");
  return value;
}

/** The canonical bytes of an event, as text: RFC 8785 without `hash_chain.self`. */
export function canonicalEvent(event: JsonObject): string {
  return canonical({ ...event, hash_chain: { ...(event["hash_chain"] as JsonObject), self: undefined } });
}

/** The seal: SHA-256 of the canonical bytes of an event. */
export async function seal(event: JsonObject): Promise<string> {
  return hex(await sha256(utf8(canonicalEvent(event))));
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function write(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      return text(value);
    case "number":
      return number(value);
    case "boolean":
      return String(value);
    case "object": {
      if (value === null) return "null";
      if (depth >= DEPTH_MAX) throw new CanonicalError(`nested deeper than ${DEPTH_MAX}`);
      if (Array.isArray(value)) return `[${value.map((inner) => write(inner, depth + 1)).join()}]`;
      // The default order of sort is that of UTF-16 code units, which RFC 8785 asks for.
      const members = Object.entries(value).filter(([, inner]) => inner !== undefined);
      members.sort(([a], [b]) => (a < b ? -1 : 1));
      return `{${members.map(([name, inner]) => `${text(name)}:${write(inner, depth + 1)}`).join()}}`;
    }
    default:
      throw new CanonicalError(`a ${typeof value} has no form in JSON`);
  }
}

function text(value: string): string {
  if (/\p{Surrogate}/u.test(value)) throw new CanonicalError("a lone surrogate");
  return JSON.stringify(value);
}

function number(value: number): string {
  // From 10^21 on, RFC 8785 writes an exponent, which the server reads as a double.
  const tooLarge = Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21;
  if (!Number.isFinite(value) || tooLarge) throw new CanonicalError(`${value} is beyond the numbers of JSON`);
  return JSON.stringify(value);
}
