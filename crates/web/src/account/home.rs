//! The overview: the first steps, usage, computers, agents.

use app::services::machines::Computer;
use app::services::usage::UsageDay;
use app::services::usage::{UsageBars, UsageNumbers, UsageOwner};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use chrono::TimeDelta;
use domain::claim::Registration;
use domain::ids::UserAccountId;
use domain::usage::Day;
use domain::{Timestamp, thousands};
use wire::usage::ByteLimit;

use super::AccountOwner;
use super::agent::{agent_kind, agent_name};
use super::computer::computer_name;
use super::pause::PauseView;
use crate::strip::DayStrip;
use crate::{Moment, PageError, PageLayout, PageResult, Site, page};
use api::HttpState;
use api::account::AGENTS_MAX;

/// Number of days in the small charts.
pub(super) const STRIP_DAYS: i64 = 30;
/// Maximum number of ended computers in the list.
const ENDED_MAX: usize = 50;
/// A computer that made a request within this time is active.
const ACTIVE_WITHIN: TimeDelta = TimeDelta::minutes(10);

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct OverviewPages {
    pub(super) site: Site,
    pub(super) bars: UsageBars,
    /// Memories that an account may have (`knowledge.memories_per_account_max`).
    memories_max: u32,
}

impl FromRef<HttpState> for OverviewPages {
    fn from_ref(state: &HttpState) -> Self {
        Self {
            site: Site::from_ref(state),
            bars: FromRef::from_ref(state),
            memories_max: state.app.live.get().knowledge.memories_per_account_max,
        }
    }
}

#[derive(Template)]
#[template(path = "account/home.html")]
struct HomePage {
    frame: PageLayout,
    tab: &'static str,
    base_url: String,
    /// The next steps of a new account; `None` once all are done.
    steps: Option<Steps>,
    computers: Vec<ComputerRow>,
    pause: PauseView,
    agents: Vec<AgentRow>,
    ended_computers: Vec<ComputerRow>,
    ended_agents: Vec<AgentRow>,
    /// `None` if usage cannot be counted at the moment; the page shows the rest.
    usage: Option<Usage>,
    /// `None` while their database is away.
    memories: Option<Memory>,
}

struct Steps {
    has_computer: bool,
    has_agent: bool,
    has_memory: bool,
    done: usize,
}

struct Usage {
    plan: &'static str,
    balance: String,
    /// Page for additional balance, if the operator configured one.
    top_up_url: Option<String>,
    meters: Vec<Meter>,
    reset: Moment,
    history: DayStrip,
}

struct Meter {
    name: &'static str,
    used: String,
    /// `None` without a limit.
    limit: Option<String>,
    percent_used: u64,
    /// Whether more is used than the limit.
    is_over: bool,
}

struct Memory {
    kept: String,
    limit: String,
    percent_used: u64,
}

struct ComputerRow {
    uuid: String,
    name: String,
    state: &'static str,
    is_active: bool,
    last_seen: Moment,
    strip: DayStrip,
}

struct AgentRow {
    id: String,
    name: String,
    kind: &'static str,
    is_active: bool,
    claimed: Option<Moment>,
    last_token: Option<Moment>,
    revoked: Option<Moment>,
}

/// `GET /account`
pub async fn show(State(pages): State<OverviewPages>, owner: AccountOwner) -> PageResult {
    let OverviewPages { site, bars, memories_max } = &pages;
    let now = site.ports.clock.now();
    let page_error = PageError::of(site);
    let (computers, consent, agents, ended, kept, history, usage) = tokio::join!(
        site.machines.attached(&owner.account),
        site.consent.of_account(&owner.account),
        site.agents.list(&owner.account, AGENTS_MAX),
        site.machines.ended(&owner.account, ENDED_MAX),
        site.memories.kept_if_reachable(&owner.account),
        bars.history(&owner.account, STRIP_DAYS),
        numbers(bars, &owner.account),
    );
    let history = history.map_err(PageError::of(site))?;
    let computer = |computer: Computer| computer_row(&computer, &history, now);
    let agents: Vec<Registration> = agents.map_err(&page_error)?;
    let (ended_agents, agents): (Vec<Registration>, Vec<Registration>) =
        agents.into_iter().partition(|agent| agent.revoked_at.is_some());
    let computers = computers.map_err(&page_error)?;
    let pause = PauseView::new(&consent.map_err(&page_error)?.pauses, &computers, now);
    let computers: Vec<ComputerRow> = computers.into_iter().map(computer).collect();
    let (kept, limit) = (kept.map_err(&page_error)?, u64::from(*memories_max));
    let steps = Steps::of(!computers.is_empty(), !agents.is_empty(), kept.is_none_or(|kept| kept > 0));
    Ok(page(
        StatusCode::OK,
        &HomePage {
            frame: PageLayout::new(site, Some(&owner.visitor)),
            tab: "home",
            base_url: site.urls.base.clone(),
            steps: (steps.done < 3).then_some(steps),
            computers,
            pause,
            agents: agents.iter().map(|agent| agent_row(agent, now)).collect(),
            ended_computers: ended.map_err(&page_error)?.into_iter().map(computer).collect(),
            ended_agents: ended_agents.iter().map(|agent| agent_row(agent, now)).collect(),
            usage: usage.map(|numbers| usage_of(bars, &numbers, &history, now)),
            memories: kept.map(|kept| Memory {
                kept: thousands(kept),
                limit: thousands(limit),
                percent_used: percent(kept, limit),
            }),
        },
    ))
}

impl Steps {
    fn of(has_computer: bool, has_agent: bool, has_memory: bool) -> Self {
        let done = [has_computer, has_agent, has_memory].into_iter().filter(|done| *done).count();
        Self { has_computer, has_agent, has_memory, done }
    }
}

fn computer_row(computer: &Computer, history: &[UsageDay], now: Timestamp) -> ComputerRow {
    let is_active = is_active(computer.last_seen_at, now);
    ComputerRow {
        uuid: computer.machine_uuid.to_string(),
        name: computer_name(computer),
        state: state_of(computer, now),
        is_active,
        last_seen: Moment::new(computer.last_seen_at, now),
        strip: strip_of(history.iter().filter(|day| day.recorder.machine == computer.machine_uuid), now),
    }
}

fn is_active(last: Timestamp, now: Timestamp) -> bool {
    now - last <= ACTIVE_WITHIN
}

/// The class of the dot of a computer.
pub(super) fn state_of(computer: &Computer, now: Timestamp) -> &'static str {
    match (&computer.account, is_active(computer.last_seen_at, now)) {
        (None, _) => "is-ended",
        (Some(_), true) => "is-live",
        (Some(_), false) => "is-idle",
    }
}

fn agent_row(agent: &Registration, now: Timestamp) -> AgentRow {
    AgentRow {
        id: agent.id.to_string(),
        name: agent_name(agent),
        kind: agent_kind(agent),
        is_active: agent.last_token_at.is_some_and(|last| is_active(last, now)),
        claimed: agent.claim.as_ref().map(|claim| Moment::new(claim.at, now)),
        last_token: agent.last_token_at.map(|at| Moment::new(at, now)),
        revoked: agent.revoked_at.map(|at| Moment::new(at, now)),
    }
}

/// The memory events of some days of usage, for each of the last [`STRIP_DAYS`] days.
pub(super) fn strip_of<'d>(history: impl Iterator<Item = &'d UsageDay>, now: Timestamp) -> DayStrip {
    let first = Day::of(now).number() - STRIP_DAYS + 1;
    let mut days = vec![0_u64; usize::try_from(STRIP_DAYS).unwrap_or_default()];
    for day in history {
        let place = usize::try_from(day.day.number() - first).ok().and_then(|place| days.get_mut(place));
        if let Some(count) = place {
            *count += day.used.memory;
        }
    }
    DayStrip::new(days, "memory events")
}

async fn numbers(bars: &UsageBars, account: &UserAccountId) -> Option<UsageNumbers> {
    let owner = UsageOwner::Account(account.clone());
    let numbers = tokio::time::timeout(bars.account_settings().section_deadline, bars.numbers(&owner)).await;
    numbers.ok()?.ok()?
}

fn usage_of(bars: &UsageBars, numbers: &UsageNumbers, history: &[UsageDay], now: Timestamp) -> Usage {
    let UsageNumbers { bar, used, allowance } = numbers;
    let byte_meter = |name, of: ByteLimit| Meter {
        name,
        used: megabytes(of.used),
        limit: of.limit.map(megabytes),
        percent_used: percent(of.used, of.limit.unwrap_or_default()),
        is_over: of.limit.is_some_and(|limit| of.used > limit),
    };
    let limits = bar.limits.map(|limits| {
        let of_memories = limits.memory_bytes.map(|of| byte_meter("Texts of memories", of));
        [Some(byte_meter("Events sent today (UTC)", limits.event_bytes)), of_memories]
    });
    let meter = |name, used: u64, limit: u64| Meter {
        name,
        used: thousands(used),
        limit: (limit > 0).then(|| thousands(limit)),
        percent_used: percent(used, limit),
        is_over: limit > 0 && used > limit,
    };
    let (dollars, cents) = (bar.balance_cents / 100, (bar.balance_cents % 100).abs());
    let sign = if bar.balance_cents < 0 { "-" } else { "" };
    Usage {
        plan: bar.plan.as_str(),
        balance: format!("{sign}${}.{cents:02}", dollars.abs()),
        top_up_url: bars.account_settings().top_up_url.clone(),
        meters: [
            meter("Memory events", used.memory, allowance.memory_events),
            meter("Retrospectives", used.retrospectives, allowance.retrospectives),
        ]
        .into_iter()
        .chain(limits.into_iter().flatten().flatten())
        .collect(),
        reset: Moment::new(bar.memory.reset_at, now),
        history: strip_of(history.iter(), now),
    }
}

/// The used share of a limit in percent, rounded up: one of ten thousand is visible. Without a limit it is 0.
fn percent(used: u64, limit: u64) -> u64 {
    if limit == 0 { 0 } else { used.saturating_mul(100).div_ceil(limit).min(100) }
}

/// Bytes in MB, rounded up to a tenth: any use is visible.
fn megabytes(bytes: u64) -> String {
    let tenths = if bytes < 100 << 20 { (bytes * 10).div_ceil(1 << 20) } else { bytes.div_ceil(1 << 20) * 10 };
    let whole = thousands(tenths / 10);
    if tenths.is_multiple_of(10) { format!("{whole} MB") } else { format!("{whole}.{} MB", tenths % 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_megabytes() {
        let texts = [0, 1, 1 << 20, 1_600_000, 256 << 20, 300_000_000, 5 << 30].map(megabytes);
        assert_eq!(texts, ["0 MB", "0.1 MB", "1 MB", "1.6 MB", "256 MB", "287 MB", "5,120 MB"]);
    }

    #[test]
    fn a_share_is_visible_from_the_first_event_and_ends_at_all() {
        assert_eq!(
            [(0, 10_000), (1, 10_000), (10_000, 10_000), (20_000, 10_000), (5, 0)]
                .map(|(used, limit)| percent(used, limit)),
            [0, 1, 100, 100, 0]
        );
    }
}
