-- What grows with time alone is found by its end: days of usage, and API keys that were revoked or have expired.

CREATE INDEX usage_days_by_day ON usage_days (day);
CREATE INDEX api_keys_by_end ON api_keys (COALESCE(revoked_at, expires_at));
