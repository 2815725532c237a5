//! Limits for each client address, on requests that are costly or help guessing. An excess request is refused with 424 and `Retry-After`,
//! because the specification reserves 429 for the statistics service.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actors::service_pause::ServicePauses;
use app::config::LimitSettings;
use arc_swap::ArcSwap;
use domain::service_pause::ServicePart;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::addresses::network;
use super::error::ApiError;

/// Attempts between two removals of addresses without recent attempts.
const FORGET_EVERY: u64 = 4096;

/// The limiters, each with its own count per address.
#[derive(Debug)]
pub struct RateLimiters {
    limiters: ArcSwap<Limiters>,
    pauses: ServicePauses,
}

#[derive(Debug)]
struct Limiters {
    settings: LimitSettings,
    registrations: Limiter,
    claim_starts: Limiter,
    code_guesses: Limiter,
    sign_ins: Limiter,
    link_reads: Limiter,
    operator_failures: Limiter,
}

impl RateLimiters {
    /// Limiters with these quotas. While a part of the service is paused, its requests are refused and not counted.
    pub fn new(settings: &LimitSettings, pauses: ServicePauses) -> Self {
        Self { limiters: ArcSwap::from_pointee(Limiters::new(settings)), pauses }
    }

    /// Replaces quotas that differ, and starts to count from zero then.
    pub fn retune(&self, settings: &LimitSettings) {
        if self.limiters.load().settings != *settings {
            self.limiters.store(Arc::new(Limiters::new(settings)));
        }
    }

    /// Counts a registration of an agent or a computer.
    pub fn registration(&self, address: IpAddr) -> Result<(), ApiError> {
        self.pauses.check(ServicePart::Registration)?;
        self.limiters.load().registrations.check(address)
    }

    /// Counts the start of a claim.
    pub fn claim_start(&self, address: IpAddr) -> Result<(), ApiError> {
        self.limiters.load().claim_starts.check(address)
    }

    /// Counts a code that a person typed.
    pub fn code_guess(&self, address: IpAddr) -> Result<(), ApiError> {
        self.limiters.load().code_guesses.check(address)
    }

    /// Counts a request for a sign-in code by mail.
    pub fn mailed_sign_in(&self, address: IpAddr) -> Result<(), ApiError> {
        self.pauses.check(ServicePart::Mail)?;
        self.sign_in(address)
    }

    /// Counts a request to sign in.
    pub fn sign_in(&self, address: IpAddr) -> Result<(), ApiError> {
        self.pauses.check(ServicePart::SignIn)?;
        self.limiters.load().sign_ins.check(address)
    }

    /// Counts a reading of a feed or an audit link.
    pub fn link_read(&self, address: IpAddr) -> Result<(), ApiError> {
        self.limiters.load().link_reads.check(address)
    }

    /// Counts a request to the operator's API without a valid credential, or without the role.
    pub fn operator_failure(&self, address: IpAddr) -> Result<(), ApiError> {
        self.limiters.load().operator_failures.check(address)
    }
}

impl Limiters {
    fn new(settings: &LimitSettings) -> Self {
        Self {
            settings: settings.clone(),
            registrations: Limiter::new("too_many_registrations", settings.registrations_per_minute),
            claim_starts: Limiter::new("too_many_claims", settings.claim_starts_per_minute),
            code_guesses: Limiter::new("too_many_guesses", settings.code_guesses_per_minute),
            sign_ins: Limiter::new("too_many_sign_ins", settings.sign_ins_per_minute),
            link_reads: Limiter::new("too_many_link_reads", settings.link_reads_per_minute),
            operator_failures: Limiter::new("too_many_failures", settings.operator_failures_per_minute),
        }
    }
}

#[derive(Debug)]
struct Limiter {
    reason: &'static str,
    counts: Option<DefaultKeyedRateLimiter<IpAddr>>,
    tries: AtomicU64,
}

impl Limiter {
    fn new(reason: &'static str, per_minute: u32) -> Self {
        let quota = NonZeroU32::new(per_minute).map(Quota::per_minute);
        Self { reason, counts: quota.map(RateLimiter::keyed), tries: AtomicU64::new(0) }
    }

    fn check(&self, address: IpAddr) -> Result<(), ApiError> {
        let Some(counts) = &self.counts else { return Ok(()) };
        if self.tries.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
            counts.retain_recent();
            counts.shrink_to_fit();
        }
        counts.check_key(&network(address)).map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            ApiError::unavailable(self.reason, wait.max(Duration::from_secs(1)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn an_address_that_tries_too_often_must_wait_and_others_need_not() {
        let settings = LimitSettings { code_guesses_per_minute: 2, ..LimitSettings::default() };
        let limits = RateLimiters::new(&settings, ServicePauses::new(&domain::Clock::system()));
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        assert!(limits.code_guess(one).is_ok() && limits.code_guess(one).is_ok());
        assert_eq!(limits.code_guess(one).unwrap_err().code(), Code::TemporarilyUnavailable);
        assert!(limits.code_guess(other).is_ok());
        assert!(limits.claim_start(one).is_ok());
        // Another quota starts with a count of 0.
        limits.retune(&LimitSettings { code_guesses_per_minute: 1, ..settings });
        assert!(limits.code_guess(one).is_ok() && limits.code_guess(one).is_err());
    }

    #[test]
    fn addresses_that_have_not_tried_for_long_are_forgotten() {
        // A limit so high that one attempt leaves the full quota.
        let settings = LimitSettings { registrations_per_minute: u32::MAX, ..LimitSettings::default() };
        let limits = RateLimiters::new(&settings, ServicePauses::new(&domain::Clock::system()));
        for address in 0..10 * u32::try_from(FORGET_EVERY).unwrap() {
            assert!(limits.registration(std::net::Ipv4Addr::from_bits(address).into()).is_ok());
        }
        let remembered = limits.limiters.load().registrations.counts.as_ref().unwrap().len();
        assert!(remembered <= 2 * usize::try_from(FORGET_EVERY).unwrap(), "{remembered}");
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together_and_zero_is_no_limit() {
        let settings = LimitSettings {
            registrations_per_minute: 1,
            claim_starts_per_minute: 0,
            code_guesses_per_minute: 1,
            ..LimitSettings::default()
        };
        let limits = RateLimiters::new(&settings, ServicePauses::new(&domain::Clock::system()));
        assert!(limits.registration("2001:db8::1".parse().unwrap()).is_ok());
        assert!(limits.registration("2001:db8::2".parse().unwrap()).is_err());
        assert!(limits.registration("2001:db8:0:1::1".parse().unwrap()).is_ok());
        assert!((0..100).all(|_| limits.claim_start("2001:db8::1".parse().unwrap()).is_ok()));
    }
}
