//! `[webhooks]`

use std::time::Duration;

use domain::fair::FairLimits;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// `[webhooks]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct WebhookSettings {
    pub enabled: bool,
    pub per_account_max: u32,
    pub waiting_max: u32,
    pub in_flight_max: usize,
    pub in_flight_per_account_max: usize,
    pub in_flight_slow_max: usize,
    #[serde(with = "humantime_serde")]
    pub slow_after: Duration,
    #[serde(with = "humantime_serde")]
    pub turn: Duration,
    #[serde(with = "humantime_serde")]
    pub look_every: Duration,
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub give_up_after: Duration,
    #[serde(with = "humantime_serde")]
    pub disable_after: Duration,
    #[serde(with = "humantime_serde")]
    pub old_secret_kept: Duration,
    pub allow_http: bool,
    pub ports: Vec<u16>,
    pub allow_private: Vec<IpNet>,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            per_account_max: 10,
            waiting_max: 1000,
            in_flight_max: 32,
            in_flight_per_account_max: 4,
            in_flight_slow_max: 8,
            slow_after: Duration::from_secs(2),
            turn: Duration::from_secs(5),
            look_every: Duration::from_secs(2),
            timeout: Duration::from_secs(15),
            give_up_after: Duration::from_hours(80),
            disable_after: Duration::from_hours(5 * 24),
            old_secret_kept: Duration::from_hours(24),
            allow_http: false,
            ports: vec![443, 8443],
            allow_private: Vec::new(),
        }
    }
}

impl WebhookSettings {
    /// The places of requests.
    pub(super) fn places(&self) -> FairLimits {
        FairLimits {
            slow_max: self.in_flight_slow_max,
            ..FairLimits::new(self.in_flight_max, self.in_flight_per_account_max)
        }
    }

    /// The invalid values, as pairs of field and rule.
    pub fn problems(&self) -> Vec<(&'static str, &'static str)> {
        let year = Duration::from_hours(365 * 24);
        let minutes = |time: Duration| !time.is_zero() && time <= Duration::from_mins(5);
        let rules = [
            (self.per_account_max > 0, "per_account_max", "must be at least 1"),
            (self.waiting_max > 0, "waiting_max", "must be at least 1"),
            (self.in_flight_max > 0, "in_flight_max", "must be at least 1"),
            (self.in_flight_per_account_max > 0, "in_flight_per_account_max", "must be at least 1"),
            (self.in_flight_slow_max > 0, "in_flight_slow_max", "must be at least 1"),
            (minutes(self.turn), "turn", "must be longer than 0s, and at most 5m"),
            (!self.look_every.is_zero(), "look_every", "must be longer than 0s"),
            (minutes(self.timeout), "timeout", "must be longer than 0s, and at most 5m"),
            (self.give_up_after <= year, "give_up_after", "must be at most 365 days"),
            (self.disable_after <= year, "disable_after", "must be at most 365 days"),
            (self.old_secret_kept <= year, "old_secret_kept", "must be at most 365 days"),
            (
                !self.ports.is_empty() && !self.ports.contains(&0),
                "ports",
                "must name at least one port, and none of them 0",
            ),
        ];
        rules.into_iter().filter(|(is_valid, _, _)| !is_valid).map(|(_, field, rule)| (field, rule)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_off_and_each_rule_is_checked() {
        let default = WebhookSettings::default();
        assert!(!default.enabled);
        assert_eq!(default.problems(), []);
        let broken = WebhookSettings {
            per_account_max: 0,
            waiting_max: 0,
            in_flight_max: 0,
            in_flight_per_account_max: 0,
            in_flight_slow_max: 0,
            turn: Duration::ZERO,
            look_every: Duration::ZERO,
            timeout: Duration::from_hours(1),
            give_up_after: Duration::MAX,
            disable_after: Duration::MAX,
            old_secret_kept: Duration::MAX,
            ports: vec![0],
            ..default
        };
        assert_eq!(broken.problems().len(), 12);
    }
}
