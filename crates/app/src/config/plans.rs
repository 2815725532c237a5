//! `[plans.<PLAN>]`: the allowance of each plan, and `[account]`: the account page and summary.

use std::time::Duration;

use domain::usage::{Allowance, ByPlan, Plan};
use serde::{Deserialize, Serialize};

/// The allowances of all plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE", from = "GivenPlans")]
pub struct PlanSettings {
    free: Allowance,
    plus: Allowance,
    pro: Allowance,
    max: Allowance,
}

impl Default for PlanSettings {
    fn default() -> Self {
        let month = |memory_events, retrospectives, mebibytes: u64| Allowance {
            memory_events,
            retrospectives,
            window_days: 30,
            event_bytes_per_day: mebibytes << 20,
            memory_bytes: mebibytes << 20,
        };
        Self {
            free: month(10_000, 10, 256),
            plus: month(100_000, 100, 1024),
            pro: month(1_000_000, 1_000, 4096),
            max: month(0, 0, 0),
        }
    }
}

impl PlanSettings {
    /// The allowance of a plan.
    pub fn of(&self, plan: Plan) -> Allowance {
        match plan {
            Plan::Free => self.free,
            Plan::Plus => self.plus,
            Plan::Pro => self.pro,
            Plan::Max => self.max,
        }
    }

    /// The value of one limit for each plan.
    pub fn each<T: Copy>(&self, limit: impl Fn(Allowance) -> T) -> ByPlan<T> {
        ByPlan::new(|plan| limit(self.of(plan)))
    }

    /// The longest window of all plans, in days.
    pub fn longest_window_days(&self) -> u32 {
        Plan::ALL.iter().map(|plan| self.of(*plan).window_days).fold(0, u32::max)
    }

    /// The allowance of a plan, mutable.
    pub fn of_mut(&mut self, plan: Plan) -> &mut Allowance {
        match plan {
            Plan::Free => &mut self.free,
            Plan::Plus => &mut self.plus,
            Plan::Pro => &mut self.pro,
            Plan::Max => &mut self.max,
        }
    }

    pub(super) fn problems(&self) -> Vec<(String, String)> {
        let short = Plan::ALL.iter().copied().filter(|plan| self.of(*plan).window_days == 0);
        short.map(|plan| (format!("{}.window_days", plan.as_str()), "must be at least 1".to_owned())).collect()
    }
}

/// A file may set some fields of a plan; the others keep their defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE", default, deny_unknown_fields)]
struct GivenPlans {
    free: GivenAllowance,
    plus: GivenAllowance,
    pro: GivenAllowance,
    max: GivenAllowance,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GivenAllowance {
    memory_events: Option<u64>,
    retrospectives: Option<u64>,
    window_days: Option<u32>,
    event_bytes_per_day: Option<u64>,
    memory_bytes: Option<u64>,
}

impl From<GivenPlans> for PlanSettings {
    fn from(given: GivenPlans) -> Self {
        let otherwise = Self::default();
        let over = |otherwise: Allowance, given: &GivenAllowance| Allowance {
            memory_events: given.memory_events.unwrap_or(otherwise.memory_events),
            retrospectives: given.retrospectives.unwrap_or(otherwise.retrospectives),
            window_days: given.window_days.unwrap_or(otherwise.window_days),
            event_bytes_per_day: given.event_bytes_per_day.unwrap_or(otherwise.event_bytes_per_day),
            memory_bytes: given.memory_bytes.unwrap_or(otherwise.memory_bytes),
        };
        Self {
            free: over(otherwise.free, &given.free),
            plus: over(otherwise.plus, &given.plus),
            pro: over(otherwise.pro, &given.pro),
            max: over(otherwise.max, &given.max),
        }
    }
}

/// `[account]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml describes each setting")]
pub struct AccountSettings {
    #[serde(with = "humantime_serde")]
    pub section_deadline: Duration,
    pub top_up_url: Option<String>,
}

impl Default for AccountSettings {
    fn default() -> Self {
        Self { section_deadline: Duration::from_secs(2), top_up_url: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_keeps_settings_that_are_not_named() {
        let read: PlanSettings = serde_json::from_str(r#"{"PLUS": {"memory_events": 7}}"#).unwrap();
        let mut expected = PlanSettings::default();
        expected.of_mut(Plan::Plus).memory_events = 7;
        assert_eq!(read, expected);
        let written = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<PlanSettings>(&written).unwrap(), read);
        for wrong in [r#"{"plus": {}}"#, r#"{"PLUS": {"events": 7}}"#, r#"{"PLUS": {"memory_events": -1}}"#] {
            assert!(serde_json::from_str::<PlanSettings>(wrong).is_err(), "{wrong}");
        }
    }
}
