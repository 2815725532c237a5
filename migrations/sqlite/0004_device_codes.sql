-- Device codes: how a computer asks to be attached, and who typed wrong ones.

CREATE TABLE device_codes (
    device_code_hash BLOB NOT NULL PRIMARY KEY,
    -- HMAC of the code that a person types. All share one context, so that a typed code can be looked up.
    sealed_user_code BLOB NOT NULL UNIQUE,
    machine_uuid BLOB NOT NULL,
    user_cuid TEXT NOT NULL,
    ip_address TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'claimed', 'denied', 'expired', 'superseded')),
    account_id TEXT REFERENCES accounts (user_account_id),
    -- Who settled it, and with which credential.
    person_id BLOB REFERENCES persons (id),
    settled_via TEXT,
    settled_at TEXT,
    -- Moves with every transition, so that another process can learn what to read again.
    changed_at TEXT NOT NULL,
    CHECK ((settled_at IS NULL) = (state = 'pending')),
    CHECK ((account_id IS NOT NULL) = (state = 'claimed'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX device_codes_pending ON device_codes (machine_uuid) WHERE state = 'pending';
CREATE INDEX device_codes_by_machine ON device_codes (machine_uuid, created_at);
CREATE INDEX device_codes_by_change ON device_codes (changed_at);
CREATE INDEX device_codes_by_end ON device_codes (expires_at);

CREATE TABLE device_guesses (
    id BLOB NOT NULL PRIMARY KEY,
    person_id BLOB NOT NULL REFERENCES persons (id),
    guessed_at TEXT NOT NULL
) STRICT;

CREATE INDEX device_guesses_by_person ON device_guesses (person_id, guessed_at);
CREATE INDEX device_guesses_by_end ON device_guesses (guessed_at);
