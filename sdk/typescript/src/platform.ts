// Functions on the platform: hashes, random values, base64.

/** WebCrypto. Node 18 has it in a module only. */
export async function webCrypto(): Promise<Crypto> {
  // A name that bundlers for browsers do not follow.
  const module: string = "node:crypto";
  return globalThis.crypto ?? ((await import(module)) as { webcrypto: Crypto }).webcrypto;
}

export type Bytes = Uint8Array<ArrayBuffer>;

export async function sha256(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await (await webCrypto()).subtle.digest("SHA-256", bytes));
}

export function utf8(text: string): Bytes {
  return new TextEncoder().encode(text) as Bytes;
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes of lowercase hex; undefined if it is none. */
export function fromHex(text: string): Bytes | undefined {
  if (!/^([0-9a-f]{2})*$/.test(text)) return undefined;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** The bytes of base64 with padding; undefined if it is none. */
export function fromBase64(text: string): Bytes | undefined {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

export function concat(...parts: Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A fresh UUIDv7 (RFC 9562, section 5.7). */
export async function uuid7(): Promise<string> {
  const bytes = (await webCrypto()).getRandomValues(new Uint8Array(16));
  const time = Date.now().toString(16).padStart(12, "0");
  const random = hex(bytes).slice(12);
  const variant = "89ab"[parseInt(random.charAt(4), 16) % 4] ?? "8";
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(1, 4)}-${variant}${random.slice(5, 8)}-${random.slice(8)}`;
}

/** A fresh id in the form of a CUID2. */
export async function newCuid(): Promise<string> {
  const bytes = (await webCrypto()).getRandomValues(new Uint8Array(24));
  return Array.from(bytes, (byte, at) => (at === 0 ? 10 + (byte % 26) : byte % 36).toString(36)).join("");
}

/** Waits; ends early with the signal's reason. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
