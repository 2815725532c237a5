//! Polls at the interval of the server (`docs/protocol/limits.md`; RFC 8628, section 3.5).

use std::time::Duration;

use domain::secret::Secret;
use tokio::time::Instant;
use wire::agent_auth::{AgentClaim, TokenResult};
use wire::device::{DeviceCodeResult, DeviceTokenResult};

use crate::{Client, Error};

impl Client {
    /// Polls until a person approves a computer. Fails with `access_denied` if the person denies it, and with
    /// `expired_token` after the code expires. Calls `waiting` with the length of each pause before it.
    pub async fn attached(
        &self,
        code: &DeviceCodeResult,
        waiting: impl FnMut(Duration),
    ) -> Result<DeviceTokenResult, Error> {
        polled(async || self.device_token(&code.device_code).await, code.interval, code.expires_in, waiting).await
    }

    /// Polls until a person confirms an agent. Fails with `expired_token` after the code expires, and with
    /// `invalid_grant` if the registration was revoked. Calls `waiting` with the length of each pause before it.
    pub async fn claimed(
        &self,
        claim_token: &Secret,
        claim: &AgentClaim,
        waiting: impl FnMut(Duration),
    ) -> Result<TokenResult, Error> {
        polled(async || self.token_by_claim(claim_token).await, claim.interval, claim.expires_in, waiting).await
    }
}

/// Maximum interval, after any number of `slow_down`.
const INTERVAL_SECONDS_MAX: u64 = 60;

/// Polls while the request is pending, at the interval that the server requests. Continues while the server cannot be
/// reached, until the code has expired.
async fn polled<T>(
    mut poll: impl AsyncFnMut() -> Result<T, Error>,
    interval_seconds: u64,
    expires_in_seconds: u64,
    mut waiting: impl FnMut(Duration),
) -> Result<T, Error> {
    let mut interval = interval_seconds.clamp(1, INTERVAL_SECONDS_MAX);
    let expires = Instant::now() + Duration::from_secs(expires_in_seconds);
    loop {
        let error = match poll().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        match error.code() {
            Some("authorization_pending") => {}
            // The new interval applies to all later polls (RFC 8628, section 3.5).
            Some("slow_down") => {
                let requested = error.refusal().and_then(|refusal| refusal.number("interval"));
                interval = requested.unwrap_or(interval + 5).clamp(interval, INTERVAL_SECONDS_MAX.max(interval));
            }
            _ if error.is_temporary() && Instant::now() < expires => {}
            _ => return Err(error),
        }
        let pause = Duration::from_secs(interval);
        waiting(pause);
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Refusal;

    fn refused(status: u16, body: serde_json::Value) -> Error {
        Box::new(Refusal { status, body: serde_json::from_value(body).unwrap(), retry_after: None }).into()
    }

    #[tokio::test(start_paused = true)]
    async fn the_interval_is_kept_and_grows_when_the_server_says_so() {
        let mut answers = vec![
            Ok("attached"),
            Err(refused(400, json!({ "error": "authorization_pending" }))),
            Err(refused(400, json!({ "error": "slow_down", "interval": 10 }))),
            Err(refused(400, json!({ "error": "authorization_pending" }))),
        ];
        let mut pauses = Vec::new();
        let outcome = polled(async || answers.pop().unwrap(), 5, 1800, |pause| pauses.push(pause.as_secs())).await;
        assert_eq!((outcome.unwrap(), pauses), ("attached", vec![5, 10, 10]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_decision_against_it_ends_the_polling() {
        for code in ["access_denied", "expired_token", "invalid_grant"] {
            let mut polls = 0;
            let poll = async || {
                polls += 1;
                Err::<(), _>(refused(400, json!({ "error": code })))
            };
            let error = polled(poll, 5, 1800, |_| {}).await.unwrap_err();
            assert_eq!((error.code(), polls), (Some(code), 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_away_is_asked_until_the_code_must_have_expired() {
        let mut polls = 0;
        let poll = async || {
            polls += 1;
            Err::<(), _>(refused(424, json!({ "error": "temporarily_unavailable", "retryable": true })))
        };
        let error = polled(poll, 5, 60, |_| {}).await.unwrap_err();
        assert_eq!((error.code(), polls), (Some("temporarily_unavailable"), 13));
    }
}
