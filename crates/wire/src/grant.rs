//! Grant types and scopes of the two token endpoints (RFC 6749).

/// Grant type of a claim token (`docs/protocol/agents.md#token`). Servers accept any vendor in place of `svc`.
pub const CLAIM_GRANT: &str = "urn:svc:agent-auth:grant-type:claim";

/// Grant type of an identity assertion (RFC 7523).
pub const ASSERTION_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Grant type of a device code (RFC 8628).
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Scope of an unclaimed agent: it may send events, which are held.
pub const SCOPE_EVENTS: &str = "svc.events";

/// Scope of a claimed agent: it acts for an account.
pub const SCOPE_ACCOUNT: &str = "svc.account";
