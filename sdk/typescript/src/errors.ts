/** Base class of all errors of this package. */
export class AttacheError extends Error {
  override readonly name: string = "AttacheError";
}

/** The server did not answer: no connection, a broken one, or a timeout. */
export class Unreachable extends AttacheError {
  override readonly name = "Unreachable";
  /** The request cannot have reached the server. */
  readonly neverSent: boolean;

  constructor(url: string, cause: unknown) {
    const inner = (cause as { cause?: { code?: string; message?: string } } | undefined)?.cause;
    const words = cause instanceof Error ? cause.message : String(cause);
    super(`${url}: ${inner?.message ?? words}`, { cause });
    this.neverSent = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(inner?.code ?? "");
  }
}

/** The server answered with an error. */
export class Refused extends AttacheError {
  override readonly name = "Refused";
  /** Error code, such as `access_denied`. */
  readonly code: string;
  /** Explanation for a person, if the server gave one. */
  readonly detail: string | undefined;
  /** The same request may be sent again. */
  readonly retryable: boolean;

  constructor(
    /** HTTP status. */
    readonly status: number,
    /** All members of the response. */
    readonly body: Readonly<Record<string, unknown>>,
    /** Seconds to wait before the request is sent again, if the server gave them. */
    readonly retryAfter?: number,
  ) {
    const code = typeof body["error"] === "string" ? body["error"] : `http_${status}`;
    const detail = ["details", "message", "reason"].map((name) => body[name]).find((value) => typeof value === "string" && value !== "");
    super(`${status} ${code}${detail === undefined ? "" : `: ${detail}`}`);
    this.code = code;
    this.detail = detail as string | undefined;
    this.retryable = [424, 429, 503].includes(status) || ([502, 504].includes(status) && !("written" in body));
  }
}

/**
 * It is unknown whether an event was recorded.
 *
 * The event is in the state of its chain. The next call of `send` or `resume` sends the same bytes first, and the server counts them once.
 */
export class Unconfirmed extends AttacheError {
  override readonly name = "Unconfirmed";

  constructor(
    readonly eventId: string,
    override readonly cause: unknown,
  ) {
    const words = cause instanceof Error ? cause.message : String(cause);
    super(`event ${eventId} is not confirmed and is sent again by the next call: ${words}`, { cause });
  }
}

/** A batch cannot continue, or its stream cannot be resumed. The batch may still be running: join it after `lastEventId`. */
export class BatchFailed extends AttacheError {
  override readonly name = "BatchFailed";

  constructor(
    readonly batchId: string,
    readonly lastEventId: string | undefined,
    readonly code: string,
    message: string,
  ) {
    super(`batch ${batchId}: ${code}: ${message}`);
  }
}

/** A value has no canonical JSON form that the server accepts, or bytes are not canonical. */
export class CanonicalError extends AttacheError {
  override readonly name = "CanonicalError";
}

/** A proof, a checkpoint or a key does not verify. */
export class ProofError extends AttacheError {
  override readonly name = "ProofError";

  constructor(
    /** The faulty member of the proof, with dots: `chain.prev`. */
    readonly member: string,
    message: string,
  ) {
    super(`${member}: ${message}`);
  }
}

/** The state of a chain cannot be read, or belongs to another computer. */
export class StateError extends AttacheError {
  override readonly name = "StateError";
}
