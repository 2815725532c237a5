-- The main database. Sections: accounts and persons, sign-in and mail, agents, computers, consent, held events, usage,
-- notifications, the knowledge API, memories, servers.
--
-- `migrations/postgres` has the same tables, columns and indexes. Where the two files differ, a comment says why.

-- ACCOUNTS AND PERSONS

CREATE TABLE accounts (
    user_account_id TEXT NOT NULL PRIMARY KEY,
    plan TEXT NOT NULL DEFAULT 'FREE' CHECK (plan IN ('FREE', 'PLUS', 'PRO', 'MAX')),
    -- The sum of `balance_entries`.
    balance_cents INTEGER NOT NULL DEFAULT 0,
    name TEXT,
    created_at TEXT NOT NULL,
    -- End of a pause of recording: until then the effective level is off, independent of the recorded levels. Past times have
    -- no effect.
    paused_until TEXT
) STRICT;

CREATE TABLE persons (
    id BLOB NOT NULL PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    name TEXT,
    -- An account has at most one owner.
    account_id TEXT UNIQUE REFERENCES accounts (user_account_id),
    created_at TEXT NOT NULL
) STRICT;

-- Changes of `accounts.balance_cents` with their reasons.
CREATE TABLE balance_entries (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    cents INTEGER NOT NULL,
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

CREATE INDEX balance_entries_by_account ON balance_entries (account_id, id);

-- Accounts that their owners closed. The transaction that inserts the row ends every access; the janitor deletes the contents
-- in steps.
CREATE TABLE account_closings (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (user_account_id),
    -- The owner, whose row is deleted too, unless they signed in again.
    person_id BLOB,
    closed_at TEXT NOT NULL,
    -- Null until all contents are deleted.
    emptied_at TEXT
) STRICT;

CREATE INDEX account_closings_to_empty ON account_closings (closed_at) WHERE emptied_at IS NULL;

-- SIGN-IN AND MAIL

CREATE TABLE sessions (
    token_hash BLOB NOT NULL PRIMARY KEY,
    -- Public id, which pages may show.
    id BLOB NOT NULL,
    person_id BLOB NOT NULL REFERENCES persons (id),
    -- code, operator, or oidc: followed by the name of the provider.
    via TEXT NOT NULL,
    address TEXT,
    user_agent TEXT,
    created_at TEXT NOT NULL,
    -- Written at most once an hour.
    last_used_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    revoked_at TEXT
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX sessions_by_id ON sessions (id);
CREATE INDEX sessions_by_person ON sessions (person_id);
CREATE INDEX sessions_by_end ON sessions (expires_at);

-- One row per e-mail address that requested a code. A request locks it first, so concurrent requests are counted one after the
-- other.
CREATE TABLE signin_addresses (
    email TEXT NOT NULL PRIMARY KEY,
    asked_at TEXT NOT NULL
) STRICT;

CREATE INDEX signin_addresses_by_time ON signin_addresses (asked_at);

-- An e-mail address may have several live codes. Each is valid in the browser that requested it until that browser requests
-- another, so requests from other browsers do not lock out the owner of the address.
CREATE TABLE signin_tickets (
    -- SHA-256 of the secret in the browser.
    ticket_hash BLOB NOT NULL PRIMARY KEY,
    email TEXT NOT NULL,
    -- Network of the request; codes are counted per network.
    network TEXT,
    sealed_code BLOB NOT NULL,
    -- Path after the sign-in.
    next TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL CHECK (state IN ('live', 'superseded', 'used'))
) STRICT, WITHOUT ROWID;

CREATE INDEX signin_tickets_by_email ON signin_tickets (email, created_at);
CREATE INDEX signin_tickets_by_end ON signin_tickets (expires_at);

-- Used states of sign-ins with an OpenID provider: a second use is refused.
CREATE TABLE signin_errands (
    -- SHA-256 of the secret in the browser.
    errand_hash BLOB NOT NULL PRIMARY KEY,
    -- After this time the cookie has expired, and the row can be deleted.
    expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX signin_errands_by_end ON signin_errands (expires_at);

CREATE TABLE mails (
    id BLOB NOT NULL PRIMARY KEY,
    recipient TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at TEXT NOT NULL,
    next_try_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    -- The node that holds the lease, until `next_try_at`. The lease of a node without a row in `nodes` has ended.
    leased_by BLOB,
    sent_at TEXT,
    given_up_at TEXT,
    CHECK (sent_at IS NULL OR given_up_at IS NULL)
) STRICT;

CREATE INDEX mails_due ON mails (next_try_at) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX mails_leased ON mails (leased_by) WHERE leased_by IS NOT NULL;
CREATE INDEX mails_by_time ON mails (created_at);

-- AGENTS

CREATE TABLE registrations (
    id BLOB NOT NULL PRIMARY KEY,
    registration_type TEXT NOT NULL CHECK (registration_type IN ('anonymous', 'service_auth')),
    login_hint TEXT,
    claim_token_hash BLOB NOT NULL UNIQUE,
    claim_token_expires_at TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ip_address TEXT,
    last_token_at TEXT,
    account_id TEXT REFERENCES accounts (user_account_id),
    person_id BLOB REFERENCES persons (id),
    claimed_email TEXT,
    claimed_at TEXT,
    -- The kind of credential with which the person confirmed.
    claimed_via TEXT,
    -- The agent that confirmed the claim with its token. If it is revoked, this agent is revoked too. Null if the person
    -- confirmed in a browser.
    claimed_by BLOB REFERENCES registrations (id),
    -- Rights that the person granted on the page of the agent's computer, separated by commas. Null: the protocol's default
    -- rights of account bearers.
    rights TEXT,
    -- Name that the account set.
    label TEXT,
    revoked_at TEXT,
    -- Updated by every transition, so that other processes find the rows to read again.
    changed_at TEXT NOT NULL,
    CHECK ((account_id IS NULL) = (claimed_at IS NULL)),
    CHECK ((person_id IS NULL) = (claimed_at IS NULL)),
    CHECK ((claimed_email IS NULL) = (claimed_at IS NULL))
) STRICT;

CREATE INDEX registrations_by_account ON registrations (account_id, created_at) WHERE account_id IS NOT NULL;
CREATE INDEX registrations_by_confirmer ON registrations (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX registrations_by_change ON registrations (changed_at);
CREATE INDEX registrations_unclaimed ON registrations (claim_token_expires_at) WHERE claimed_at IS NULL;

CREATE TABLE claim_attempts (
    token_hash BLOB NOT NULL PRIMARY KEY,
    registration_id BLOB NOT NULL REFERENCES registrations (id) ON DELETE CASCADE,
    -- 1 for the first attempt of a registration.
    number INTEGER NOT NULL,
    sealed_code BLOB NOT NULL,
    email TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    wrong_tries INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL CHECK (state IN ('live', 'superseded', 'burnt', 'completed')),
    UNIQUE (registration_id, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX claim_attempts_live ON claim_attempts (registration_id) WHERE state = 'live';
CREATE INDEX claim_attempts_by_end ON claim_attempts (expires_at);

CREATE TABLE access_tokens (
    token_hash BLOB NOT NULL PRIMARY KEY,
    registration_id BLOB NOT NULL REFERENCES registrations (id) ON DELETE CASCADE,
    scope TEXT NOT NULL CHECK (scope IN ('svc.events', 'svc.account')),
    account_id TEXT REFERENCES accounts (user_account_id),
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    revoked_at TEXT,
    CHECK ((account_id IS NULL) = (scope = 'svc.events'))
) STRICT, WITHOUT ROWID;

CREATE INDEX access_tokens_by_registration ON access_tokens (registration_id);
CREATE INDEX access_tokens_by_end ON access_tokens (expires_at);

-- Keys that sign identity assertions.
CREATE TABLE assertion_keys (
    kid TEXT NOT NULL PRIMARY KEY,
    seed BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('next', 'active', 'retired')),
    created_at TEXT NOT NULL,
    activated_at TEXT,
    retired_at TEXT
) STRICT;

-- At most one key signs, and at most one is announced.
CREATE UNIQUE INDEX assertion_keys_one ON assertion_keys (state) WHERE state <> 'retired';

-- Secrets of the server, such as the key that seals codes.
CREATE TABLE server_keys (
    name TEXT NOT NULL PRIMARY KEY,
    secret BLOB NOT NULL
) STRICT;

-- COMPUTERS

CREATE TABLE identities (
    user_cuid TEXT NOT NULL PRIMARY KEY,
    account_id TEXT REFERENCES accounts (user_account_id),
    -- Machine id of the chain on which the service reports changes of consent for this identity, and the chain's newest
    -- position.
    control_machine_uuid BLOB UNIQUE,
    control_chain_epoch INTEGER NOT NULL DEFAULT 0,
    control_seq INTEGER NOT NULL DEFAULT 0,
    -- Seal of its newest event; null at the start of an epoch.
    control_prev BLOB,
    created_at TEXT NOT NULL
) STRICT;

CREATE INDEX identities_by_account ON identities (account_id) WHERE account_id IS NOT NULL;

CREATE TABLE machines (
    machine_uuid BLOB NOT NULL PRIMARY KEY,
    user_cuid TEXT NOT NULL REFERENCES identities (user_cuid),
    name TEXT,
    -- Null after the owner detached the computer.
    secret_hash BLOB UNIQUE,
    account_id TEXT REFERENCES accounts (user_account_id),
    first_seen_at TEXT NOT NULL,
    last_seen_at TEXT NOT NULL,
    attached_at TEXT,
    -- The agent that approved the attachment with its token. If it is revoked, the attachment ends. Null if the person or an
    -- operator approved it.
    attached_by BLOB REFERENCES registrations (id),
    -- See `accounts.paused_until`.
    paused_until TEXT,
    -- The party that started the pause: a computer may only end its own pauses.
    paused_by TEXT CHECK (paused_by IN ('person', 'agent', 'computer')),
    CHECK ((account_id IS NULL) = (attached_at IS NULL))
) STRICT;

CREATE INDEX machines_by_account ON machines (account_id, first_seen_at) WHERE account_id IS NOT NULL;
-- Finds the first computer of an identity.
CREATE INDEX machines_by_identity ON machines (user_cuid, first_seen_at, machine_uuid);
CREATE INDEX machines_by_approver ON machines (attached_by) WHERE attached_by IS NOT NULL;
-- Computers that were never attached, by their last request.
CREATE INDEX machines_unattached ON machines (last_seen_at) WHERE account_id IS NULL AND secret_hash IS NOT NULL;

-- Computers that are or were attached to an account, so that the account may read their records. An identity is not sufficient,
-- because any computer may register under any identity.
CREATE TABLE attachments (
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    machine_uuid BLOB NOT NULL,
    user_cuid TEXT NOT NULL,
    -- Name that this account set. Another account that attaches the same computer does not see it.
    label TEXT,
    PRIMARY KEY (account_id, machine_uuid, user_cuid)
) STRICT, WITHOUT ROWID;

-- Finds whether a computer was ever attached.
CREATE INDEX attachments_by_machine ON attachments (machine_uuid);

-- Ids that cannot be registered again: events recorded under them stay in the log, and other accounts must not read them.
CREATE TABLE spent_machines (
    machine_uuid BLOB NOT NULL PRIMARY KEY,
    -- The identity, until the rows that only this computer needed are deleted.
    user_cuid TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX spent_machines_to_clean ON spent_machines (machine_uuid) WHERE user_cuid IS NOT NULL;

CREATE TABLE device_codes (
    device_code_hash BLOB NOT NULL PRIMARY KEY,
    -- HMAC of the code that a person types. All codes share one context, so that a typed code can be looked up.
    sealed_user_code BLOB NOT NULL UNIQUE,
    machine_uuid BLOB NOT NULL,
    user_cuid TEXT NOT NULL,
    ip_address TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'claimed', 'denied', 'expired', 'superseded')),
    -- An agent on the computer that requests confirmation too, and its tool. The registration may be deleted before the person
    -- answers.
    agent_registration BLOB,
    agent_tool TEXT,
    -- Hash of a key of the knowledge API that the computer created and requests; scopes are separated by commas.
    key_hash BLOB,
    key_scopes TEXT,
    account_id TEXT REFERENCES accounts (user_account_id),
    -- The person who answered, and the kind of their credential.
    person_id BLOB REFERENCES persons (id),
    settled_via TEXT,
    settled_at TEXT,
    -- Updated by every transition, so that other processes find the rows to read again.
    changed_at TEXT NOT NULL,
    CHECK ((settled_at IS NULL) = (state = 'pending')),
    CHECK ((account_id IS NOT NULL) = (state = 'claimed'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX device_codes_pending ON device_codes (machine_uuid) WHERE state = 'pending';
CREATE INDEX device_codes_by_machine ON device_codes (machine_uuid, created_at);
CREATE INDEX device_codes_by_change ON device_codes (changed_at);
CREATE INDEX device_codes_by_end ON device_codes (expires_at);

-- Wrong user codes. Guesses by agents are counted separately, so that an agent cannot prevent its person from attaching
-- computers.
CREATE TABLE device_guesses (
    id BLOB NOT NULL PRIMARY KEY,
    person_id BLOB NOT NULL REFERENCES persons (id),
    by_agent INTEGER NOT NULL DEFAULT 0,
    guessed_at TEXT NOT NULL
) STRICT;

CREATE INDEX device_guesses_by_person ON device_guesses (person_id, guessed_at);
CREATE INDEX device_guesses_by_end ON device_guesses (guessed_at);

-- CONSENT

CREATE TABLE consent_levels (
    user_cuid TEXT NOT NULL REFERENCES identities (user_cuid),
    -- Null: all computers of the identity.
    machine_uuid BLOB,
    -- Null: all lanes.
    lane TEXT CHECK (lane IN ('memory', 'llm', 'skill', 'security', 'squad', 'rsi')),
    level TEXT NOT NULL CHECK (level IN ('off', 'metadata-only', 'full')),
    reason TEXT,
    -- The level that a computer sets for itself is a second row of the scope; the lower of the two is in effect.
    set_by TEXT NOT NULL DEFAULT 'person' CHECK (set_by IN ('person', 'agent', 'computer')),
    changed_at TEXT NOT NULL
) STRICT;

-- One level for each scope and kind of author; nulls are treated as equal.
CREATE UNIQUE INDEX consent_levels_scope ON consent_levels (
    user_cuid, COALESCE(machine_uuid, x''), COALESCE(lane, ''), (set_by = 'computer')
);

-- Events that report changes of consent, written in the transaction of the change and deleted after the statistics service has
-- accepted them.
CREATE TABLE consent_outbox (
    event_id BLOB NOT NULL PRIMARY KEY,
    user_cuid TEXT NOT NULL REFERENCES identities (user_cuid),
    account_id TEXT,
    chain_epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (user_cuid, chain_epoch, seq)
) STRICT, WITHOUT ROWID;

-- HELD EVENTS

-- Events that were acknowledged but not forwarded.
CREATE TABLE held_events (
    id BLOB NOT NULL PRIMARY KEY,
    -- The owner of the credential: machine:<uuid>, registration:<id> or account:<id>.
    sender TEXT NOT NULL,
    registration_id BLOB,
    machine_uuid BLOB,
    -- The account that may read it; null for unclaimed registrations, and for computers, because a computer may change its
    -- account.
    account_id TEXT,
    user_cuid TEXT,
    -- Members of the event that could be parsed.
    event_id BLOB,
    event_type TEXT,
    agent_id TEXT,
    event_machine_uuid BLOB,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    body_sha256 BLOB NOT NULL,
    body_bytes INTEGER NOT NULL,
    -- The size that counts towards the quotas.
    charged_bytes INTEGER NOT NULL,
    seal BLOB,
    received_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('held', 'released', 'discarded')),
    state_at TEXT,
    receipt_id BLOB,
    -- Null if consent forbids storing it, and after the entry is released or discarded. Last, because SQLite reads columns
    -- after a long one through its overflow pages.
    body BLOB,
    CHECK ((state = 'held') = (state_at IS NULL))
) STRICT;

-- The same bytes of the same sender are one entry while they are held. Event ids grow with time, so inserts into the first
-- index are at its end; digests do not, so the second index contains only events without a readable id.
CREATE UNIQUE INDEX held_events_event ON held_events (event_id, sender, body_sha256)
    WHERE state = 'held' AND event_id IS NOT NULL;
CREATE UNIQUE INDEX held_events_body ON held_events (sender, body_sha256) WHERE state = 'held' AND event_id IS NULL;
CREATE INDEX held_events_by_machine ON held_events (machine_uuid, id) WHERE state = 'held' AND machine_uuid IS NOT NULL;
CREATE INDEX held_events_by_account ON held_events (account_id, id) WHERE state = 'held' AND account_id IS NOT NULL;
CREATE INDEX held_events_by_registration ON held_events (registration_id, received_at, charged_bytes)
    WHERE registration_id IS NOT NULL;
-- The operator's page counts held events by reason using only this index.
CREATE INDEX held_events_by_reason ON held_events (reason, received_at) WHERE state = 'held';
CREATE INDEX held_events_by_end ON held_events (state_at) WHERE state_at IS NOT NULL;

-- The sum of `charged_bytes` of held events, in one row, because SQLite has one writer. On PostgreSQL it has several rows, so
-- that transactions do not wait for each other.
CREATE TABLE held_totals (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    bytes INTEGER NOT NULL
) STRICT;

INSERT INTO held_totals (id, bytes) VALUES (1, 0);

-- The same sum per sender, updated in the same transaction as `held_totals`.
CREATE TABLE held_senders (
    sender TEXT NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- USAGE

-- Forwarded events that count as usage, by computer, identity and UTC day of receipt.
CREATE TABLE usage_days (
    user_cuid TEXT NOT NULL,
    machine_uuid BLOB NOT NULL,
    -- Days since 1970-01-01.
    day INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    retrospectives INTEGER NOT NULL,
    PRIMARY KEY (user_cuid, machine_uuid, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_days_by_day ON usage_days (day);

-- Number of leaves of the embedded log that are counted in `usage_days`, updated in the transaction that counts them.
CREATE TABLE usage_cursor (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    counted INTEGER NOT NULL
) STRICT;

INSERT INTO usage_cursor (id, counted) VALUES (1, 0);

-- Events per UTC day of computers without an account and of unclaimed agents, for their daily quota.
CREATE TABLE sender_days (
    -- machine:<uuid> or registration:<id>.
    sender TEXT NOT NULL,
    -- Days since 1970-01-01.
    day INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (sender, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX sender_days_by_day ON sender_days (day);

-- NOTIFICATIONS

CREATE TABLE webhooks (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    -- Comma before and after each.
    kinds TEXT NOT NULL,
    -- Signing keys, 32 bytes. The older one also signs until it expires.
    secret BLOB NOT NULL,
    old_secret BLOB,
    old_secret_until TEXT,
    created_at TEXT NOT NULL,
    disabled_at TEXT,
    disabled_why TEXT CHECK (disabled_why IN ('owner', 'gone', 'failing')),
    -- Set while an operator has disabled it: separate from the state above, which its owner and the server change.
    disabled_by_operator_at TEXT,
    -- Time of the first failure after the last success, and the number of failures since.
    failing_since TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    last_success_at TEXT,
    last_failure_at TEXT,
    -- Lease of the process that sends to the endpoint, one delivery at a time, and its node. The lease of a node without a row
    -- in `nodes` has ended.
    lease BLOB,
    leased_until TEXT,
    leased_by BLOB,
    -- Notifications that were dropped because too many waited for the endpoint: their number, and the time of the last one.
    dropped INTEGER NOT NULL DEFAULT 0,
    dropped_at TEXT,
    CHECK ((disabled_at IS NULL) = (disabled_why IS NULL))
) STRICT;

CREATE INDEX webhooks_by_account ON webhooks (account_id, created_at);
CREATE INDEX webhooks_leased ON webhooks (leased_by) WHERE lease IS NOT NULL;

-- The outbox of notifications: each row is inserted in the transaction of the reported fact.
CREATE TABLE webhook_deliveries (
    webhook_id BLOB NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    notification_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    -- The exact bytes of the body.
    body TEXT NOT NULL,
    -- Number of further facts of the same kind that this notification reports.
    more INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    -- Null after the delivery is settled: delivered or given up.
    next_try_at TEXT,
    tries INTEGER NOT NULL DEFAULT 0,
    last_try_at TEXT,
    -- Result of the last try.
    status INTEGER,
    error TEXT,
    settled_at TEXT,
    is_delivered INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (webhook_id, notification_id),
    CHECK ((next_try_at IS NULL) = (settled_at IS NOT NULL))
) STRICT;

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_try_at) WHERE next_try_at IS NOT NULL;
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (webhook_id, created_at);
CREATE INDEX webhook_deliveries_settled ON webhook_deliveries (settled_at) WHERE settled_at IS NOT NULL;

CREATE TABLE feeds (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (user_account_id),
    -- SHA-256 of the secret in the link.
    token_hash BLOB NOT NULL UNIQUE,
    -- Comma before and after each.
    kinds TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

-- No foreign key to `feeds`: a concurrent deletion of the feed would make the transaction of the fact fail.
CREATE TABLE feed_entries (
    account_id TEXT NOT NULL,
    notification_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    -- The body that webhooks receive.
    body TEXT NOT NULL,
    -- See `webhook_deliveries.more`.
    more INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    PRIMARY KEY (account_id, notification_id)
) STRICT;

CREATE INDEX feed_entries_newest ON feed_entries (account_id, created_at, notification_id);
CREATE INDEX feed_entries_oldest ON feed_entries (created_at);

-- AUDIT LINKS

CREATE TABLE audit_links (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    -- SHA-256 of the secret in the link.
    token_hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    -- The session that it shows; null if it shows a lane.
    session_id BLOB,
    lane TEXT,
    -- Days since 1970-01-01 of the first day of the lane that it shows.
    first_day INTEGER,
    with_content INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    last_used_at TEXT,
    CHECK ((session_id IS NULL) = (lane IS NOT NULL)),
    CHECK ((lane IS NULL) = (first_day IS NULL))
) STRICT;

CREATE INDEX audit_links_by_account ON audit_links (account_id, created_at);
CREATE INDEX audit_links_expired ON audit_links (expires_at);

-- RULES

-- How far the reader of recorded events has come, and the number of its writes: of two readers, only one can write.
CREATE TABLE rule_cursor (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    -- Place in the tree of the first event that is not read.
    place INTEGER NOT NULL,
    turn INTEGER NOT NULL
) STRICT;

INSERT INTO rule_cursor (id, place, turn) VALUES (1, 0, 0);

-- Accounts with a rule or with the weekly digest. The row is locked before the account's rules.
CREATE TABLE watched_accounts (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (user_account_id),
    watched_since TEXT NOT NULL,
    -- Whether the values of events before that time are in `seen_values`.
    is_learned INTEGER NOT NULL DEFAULT 0,
    -- Time of the next digest; null if the digest is off.
    digest_at TEXT,
    -- Counts for the next digest, as JSON.
    digest TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX watched_accounts_due ON watched_accounts (digest_at) WHERE digest_at IS NOT NULL;
CREATE INDEX watched_accounts_new ON watched_accounts (account_id) WHERE NOT is_learned;

CREATE TABLE rules (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    name TEXT NOT NULL,
    -- Conditions as JSON.
    conditions TEXT NOT NULL,
    sends_mail INTEGER NOT NULL,
    sends_notices INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    -- Matching events since the last message, as JSON.
    state TEXT NOT NULL DEFAULT '{}',
    -- Time from which the next message may be sent; null if there is nothing to report.
    due_at TEXT
) STRICT;

CREATE INDEX rules_by_account ON rules (account_id, created_at);
CREATE INDEX rules_due ON rules (due_at) WHERE due_at IS NOT NULL;

-- Tools, projects and computers of the events of watched accounts, so that the first event of each can be told.
CREATE TABLE seen_values (
    account_id TEXT NOT NULL,
    novelty TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (account_id, novelty, value)
) STRICT;

-- KNOWLEDGE API

CREATE TABLE api_keys (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    name TEXT NOT NULL,
    key_hash BLOB NOT NULL UNIQUE,
    -- Separated by commas.
    scopes TEXT NOT NULL,
    -- A JSON array of ids. Null: all spaces of the account.
    spaces TEXT,
    -- The computer that has the key, which is revoked when the attachment ends; null for keys that a person or an operator
    -- created.
    machine_uuid BLOB,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    last_used_at TEXT,
    revoked_at TEXT
) STRICT;

CREATE INDEX api_keys_by_account ON api_keys (account_id, created_at);
CREATE INDEX api_keys_by_machine ON api_keys (machine_uuid) WHERE machine_uuid IS NOT NULL;
CREATE INDEX api_keys_by_end ON api_keys (COALESCE(revoked_at, expires_at));

CREATE TABLE spaces (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    name TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    -- The default for requests without a space.
    is_default INTEGER NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

CREATE INDEX spaces_by_account ON spaces (account_id, created_at);
CREATE UNIQUE INDEX spaces_default ON spaces (account_id) WHERE is_default = 1;

-- Includes the owner of the space.
CREATE TABLE space_members (
    space_id BLOB NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    access TEXT NOT NULL CHECK (access IN ('owner', 'edit', 'read')),
    is_favorite INTEGER NOT NULL,
    PRIMARY KEY (space_id, account_id)
) STRICT;

CREATE INDEX space_members_by_account ON space_members (account_id);

CREATE TABLE knowledge_settings (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (user_account_id),
    -- A JSON object.
    settings TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;

-- Content that a filter rejected, with the reason.
CREATE TABLE verdicts (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    batch_id BLOB NOT NULL,
    -- The position of the item in the batch.
    item INTEGER NOT NULL,
    -- A URL, or the title of a note.
    subject TEXT NOT NULL,
    -- A JSON object.
    verdict TEXT NOT NULL,
    created_at TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX verdicts_by_item ON verdicts (batch_id, item);
CREATE INDEX verdicts_by_account ON verdicts (account_id, created_at);
CREATE INDEX verdicts_by_time ON verdicts (created_at);

CREATE TABLE batches (
    id BLOB NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (user_account_id),
    -- Imports are processed like batches.
    kind TEXT NOT NULL DEFAULT 'batch' CHECK (kind IN ('batch', 'import')),
    -- A JSON array of ids.
    spaces TEXT NOT NULL,
    -- The spaces of the sender's key, as a JSON array; the batch changes only these. Null: all spaces of the account.
    key_spaces TEXT,
    -- The request's `Idempotency-Key`, by which a repeated request finds the batch, and SHA-256 of its body. The key is set to
    -- null when a new request reuses it after it expired.
    idempotency_key TEXT,
    body_sha256 BLOB,
    -- Id of the request that submitted it, as log lines have it.
    request_id TEXT,
    total INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'failed')),
    -- Reason of a failure.
    reason TEXT,
    cancelled_at TEXT,
    created_at TEXT NOT NULL,
    finished_at TEXT,
    -- The process that holds the lease, and the end of the lease.
    runner TEXT,
    leased_until TEXT
) STRICT;

CREATE INDEX batches_by_account ON batches (account_id, created_at);
CREATE UNIQUE INDEX batches_by_idempotency_key ON batches (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX batches_running ON batches (account_id) WHERE state = 'running';
CREATE INDEX batches_by_time ON batches (created_at);

CREATE TABLE batch_items (
    batch_id BLOB NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    -- A URL, or a note as a JSON object, which is deleted when the item has an outcome. The note of an import contains a
    -- memory, or the fault of a line.
    url TEXT,
    note TEXT,
    -- Position of the item among the finished items of the batch, from 1: a stream can be resumed from any position.
    finished INTEGER,
    -- A JSON object.
    outcome TEXT,
    PRIMARY KEY (batch_id, position),
    CHECK ((finished IS NULL) = (outcome IS NULL))
) STRICT;

CREATE UNIQUE INDEX batch_items_finished ON batch_items (batch_id, finished);

-- MEMORIES

-- Counts of an account index. A transaction that changes memories updates this row first, which serialises the changes of an
-- account: other processes follow them by `changes`.
CREATE TABLE account_indexes (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    account_id TEXT NOT NULL UNIQUE REFERENCES accounts (user_account_id),
    memories INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    -- Total length of all chunks, in words.
    words INTEGER NOT NULL,
    -- The sum of `memories.bytes`, which the plan limits.
    bytes INTEGER NOT NULL DEFAULT 0,
    -- One bit per language of its memories: a query is stemmed in each of these languages.
    languages INTEGER NOT NULL DEFAULT 0,
    -- Number of the newest change.
    changes INTEGER NOT NULL
) STRICT;

CREATE TABLE memories (
    id BLOB NOT NULL PRIMARY KEY,
    account_index INTEGER NOT NULL REFERENCES account_indexes (number),
    type TEXT NOT NULL,
    title TEXT NOT NULL,
    -- URL of a page.
    url TEXT,
    -- Size of content, title and URL, in bytes.
    bytes INTEGER NOT NULL DEFAULT 0,
    -- Language in which its words are stemmed.
    language TEXT NOT NULL,
    -- Digest of the canonical URL or of the note, by which duplicates are found. Not unique: a key limited to spaces must not
    -- detect other memories, so its write creates a separate memory.
    dedupe BLOB NOT NULL,
    -- The spaces of the key that wrote it, as a JSON array. Null: the writer had access to all spaces of the account.
    writer_spaces TEXT,
    -- Digest of the shown content, which differs if a page has changed.
    version BLOB NOT NULL,
    -- Copies of `memory_spaces` and of `memory_tags` (sorted) as JSON arrays, so that a list of memories reads one table.
    spaces TEXT NOT NULL,
    tags TEXT NOT NULL DEFAULT '[]',
    chunks INTEGER NOT NULL,
    words INTEGER NOT NULL,
    -- Value of `account_indexes.changes` at the last change of the memory.
    changed INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    -- Last, because SQLite reads columns after a long one through its overflow pages.
    content TEXT NOT NULL
) STRICT;

CREATE INDEX memories_alike ON memories (account_index, dedupe, id);
CREATE INDEX memories_by_account_index ON memories (account_index, id);
CREATE INDEX memories_by_type ON memories (account_index, type, id);
CREATE INDEX memories_by_change ON memories (account_index, changed);

-- Deletions of memories, for processes that follow the changes.
CREATE TABLE memories_deleted (
    account_index INTEGER NOT NULL REFERENCES account_indexes (number),
    changed INTEGER NOT NULL,
    memory_id BLOB NOT NULL,
    PRIMARY KEY (account_index, changed)
) STRICT;

-- A tag belongs to the memory: every reader of the memory sees it.
CREATE TABLE memory_tags (
    memory_id BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    account_index INTEGER NOT NULL REFERENCES account_indexes (number),
    PRIMARY KEY (memory_id, tag)
) STRICT;

CREATE INDEX memory_tags_by_tag ON memory_tags (account_index, tag, memory_id);

CREATE TABLE memory_spaces (
    space_id BLOB NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    memory_id BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    PRIMARY KEY (space_id, memory_id)
) STRICT;

CREATE INDEX memory_spaces_by_memory ON memory_spaces (memory_id);

-- The number of memories of an account in a space.
CREATE TABLE space_indexes (
    space_id BLOB NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    account_index INTEGER NOT NULL REFERENCES account_indexes (number),
    memories INTEGER NOT NULL,
    PRIMARY KEY (space_id, account_index)
) STRICT;

CREATE TABLE chunks (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    memory_id BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    content TEXT NOT NULL,
    -- Length in words; words of the title are weighted.
    words INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX chunks_by_memory ON chunks (memory_id, ordinal);

-- The chunks of each space. A search of a space reads its newest chunks, and tests whether a chunk belongs to it, without
-- reading other chunks.
CREATE TABLE space_chunks (
    space_id BLOB NOT NULL REFERENCES spaces (id) ON DELETE CASCADE,
    account_index INTEGER NOT NULL,
    -- No foreign key, which would need another index: the transaction that deletes a chunk deletes these rows first.
    chunk_id INTEGER NOT NULL,
    PRIMARY KEY (space_id, account_index, chunk_id)
) STRICT, WITHOUT ROWID;

-- Embeddings of chunks, as 16-bit floats, little-endian, from which every vector index is built. Each chunk has a row; the
-- model is empty while there is no embedding.
CREATE TABLE vectors (
    chunk_id INTEGER NOT NULL PRIMARY KEY REFERENCES chunks (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;

CREATE INDEX vectors_by_model ON vectors (model, chunk_id);

-- Stems of chunks, each with the number of its account index as a prefix, so that words are counted per account. PostgreSQL
-- uses a table of postings instead.
CREATE VIRTUAL TABLE words USING fts5 (stems, content = '', contentless_delete = 1, tokenize = 'ascii');
CREATE VIRTUAL TABLE words_counted USING fts5vocab (words, row);

-- THE SERVERS

-- The installation that this database belongs to, with the newest known checkpoint of its embedded log. A log that does not
-- continue the checkpoint is refused.
CREATE TABLE installation (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    installation_id BLOB NOT NULL,
    -- Null without an embedded log.
    log_vkey TEXT,
    log_checkpoint TEXT,
    log_size INTEGER,
    remembered_at TEXT,
    -- The next position in the installation's own chain, in which the service records acts of operators.
    act_chain_epoch INTEGER NOT NULL DEFAULT 0,
    act_seq INTEGER NOT NULL DEFAULT 0,
    act_prev BLOB
) STRICT;

-- Acts of operators, each written in the transaction of its effect. The event is sent to the statistics service afterwards.
CREATE TABLE operator_acts (
    -- Also the id of the event.
    id BLOB NOT NULL PRIMARY KEY,
    chain_epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    -- The event, byte for byte as it is sent.
    body BLOB NOT NULL,
    done_at TEXT NOT NULL,
    -- Null until the statistics service has accepted the event.
    sent_at TEXT,
    UNIQUE (chain_epoch, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX operator_acts_unsent ON operator_acts (chain_epoch, seq) WHERE sent_at IS NULL;

-- Values of live settings that take precedence over file and environment until they end.
CREATE TABLE setting_overrides (
    path TEXT NOT NULL,
    -- Name of the host of a node; empty for all nodes.
    node TEXT NOT NULL,
    -- JSON.
    value TEXT NOT NULL,
    -- Null until an operator removes it.
    until TEXT,
    -- Who set it, as its act names the operator.
    set_by TEXT NOT NULL,
    set_at TEXT NOT NULL,
    PRIMARY KEY (path, node)
) STRICT, WITHOUT ROWID;

-- Parts of the service that an operator has paused.
CREATE TABLE service_pauses (
    -- The paused part, such as intake.
    part TEXT NOT NULL,
    -- For whom: all, account:ID, machine:ID or lane:NAME.
    scope TEXT NOT NULL,
    -- Id of the act that began it.
    id BLOB NOT NULL UNIQUE,
    until TEXT NOT NULL,
    -- Who began it, as its act names the operator.
    set_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (part, scope)
) STRICT, WITHOUT ROWID;

-- Orders of operators to another node.
CREATE TABLE node_orders (
    -- Id of its act too.
    id BLOB NOT NULL PRIMARY KEY,
    -- Id of the node that executes and answers it; null for every node, without an answer.
    node BLOB,
    -- The act as JSON.
    act TEXT NOT NULL,
    dry_run INTEGER NOT NULL,
    -- Time at which an order without an answer has failed, and an order to all nodes ends.
    until TEXT NOT NULL,
    -- Status and body as JSON; null until it is executed or has failed.
    answer TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX node_orders_open ON node_orders (id) WHERE answer IS NULL;

-- Requests of operators with an Idempotency-Key, of the last day.
CREATE TABLE operator_requests (
    -- SHA-256 of author and key.
    key BLOB NOT NULL PRIMARY KEY,
    -- SHA-256 of method, path and body.
    content BLOB NOT NULL,
    -- Id of the act that it is, which is recorded with its effect.
    act BLOB NOT NULL,
    begun_at TEXT NOT NULL,
    -- Status and body as JSON; null until it is answered.
    answer TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX operator_requests_begun ON operator_requests (begun_at);

-- The nodes on this database. Each updates its row about every five seconds and deletes it when it stops; a row without updates
-- belongs to a process that crashed.
CREATE TABLE nodes (
    id BLOB NOT NULL PRIMARY KEY,
    -- Name of its host.
    name TEXT NOT NULL,
    -- Bound addresses of the public and the operator's listener.
    address TEXT NOT NULL,
    operator_address TEXT NOT NULL,
    version TEXT NOT NULL,
    -- SHA-256 of the settings that are expected to be equal on all nodes.
    configuration BLOB NOT NULL,
    -- The same settings as JSON: for each path a prefix of the SHA-256 of its value, not the value.
    settings TEXT NOT NULL,
    started_at TEXT NOT NULL,
    last_beat_at TEXT NOT NULL,
    -- Time by which its machine's clock is ahead of the database's clock.
    clock_ahead_ms INTEGER NOT NULL,
    -- Why it is not ready; null while it is.
    unready TEXT,
    is_draining INTEGER NOT NULL,
    -- Whether it holds the lease of the log's sequencer.
    has_sequencer INTEGER NOT NULL,
    -- Number of running batches that it has leased.
    batches INTEGER NOT NULL,
    -- Keys with recently crashed actors, as JSON.
    crashed_keys TEXT NOT NULL,
    -- Its tree of actors as JSON, as it was then; JSON null if the supervisor did not answer.
    tree TEXT NOT NULL
) STRICT;

-- Written to test whether the database accepts writes.
CREATE TABLE heartbeat (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    beats INTEGER NOT NULL
) STRICT;

INSERT INTO heartbeat (id, beats) VALUES (1, 0);
