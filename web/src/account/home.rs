//! The overview: usage, computers, agents.

use api::account::{AGENTS_MAX, COMPUTERS_MAX};
use app::services::usage::{UsageBars, UsageOwner};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::Timestamp;
use domain::claim::{Registration, RegistrationType};
use domain::ids::UserAccountId;
use store::machine::Computer;

use super::AccountOwner;
use crate::{Moment, PageError, PageLayout, PageResult, Site, page};
use wire::usage::Measure;

#[derive(Template)]
#[template(path = "account/home.html")]
struct HomePage {
    frame: PageLayout,
    tab: &'static str,
    base_url: String,
    computers: Vec<ComputerRow>,
    agents: Vec<AgentRow>,
    /// `None` if usage cannot be counted at the moment; the page shows the rest.
    usage: Option<Usage>,
}

struct Usage {
    plan: &'static str,
    balance: String,
    /// Page for additional balance, if the operator configured one.
    top_up_url: Option<String>,
    meters: [Meter; 2],
}

struct Meter {
    name: &'static str,
    percent_left: String,
    reset: Moment,
}

struct ComputerRow {
    uuid: String,
    name: Option<String>,
    attached: Option<Moment>,
    last_seen: Moment,
}

struct AgentRow {
    id: String,
    kind: &'static str,
    claimed: Option<Moment>,
    last_token: Option<Moment>,
    address: Option<String>,
    revoked: Option<Moment>,
}

/// `GET /account`
pub async fn show(State(site): State<Site>, State(bars): State<UsageBars>, owner: AccountOwner) -> PageResult {
    let now = site.ports.clock.now();
    let page_error = PageError::store(&site);
    let (computers, agents, usage) = tokio::join!(
        site.ports.store.computers_of_account(&owner.account, COMPUTERS_MAX),
        site.ports.store.agents_of_account(&owner.account, AGENTS_MAX),
        usage(&bars, &owner.account, now),
    );
    let computer = |computer: Computer| ComputerRow {
        uuid: computer.machine_uuid.to_string(),
        name: computer.name,
        attached: computer.attached_at.map(|at| Moment::new(at, now)),
        last_seen: Moment::new(computer.last_seen_at, now),
    };
    let agent = |agent: Registration| AgentRow {
        id: agent.id.to_string(),
        kind: match agent.registration_type {
            RegistrationType::Anonymous => "registered anonymously",
            RegistrationType::ServiceAuth => "registered for you",
        },
        claimed: agent.claim.map(|claim| Moment::new(claim.at, now)),
        last_token: agent.last_token_at.map(|at| Moment::new(at, now)),
        address: agent.ip_address,
        revoked: agent.revoked_at.map(|at| Moment::new(at, now)),
    };
    Ok(page(
        StatusCode::OK,
        &HomePage {
            frame: PageLayout::new(&site, Some(&owner.visitor)),
            tab: "home",
            base_url: site.urls.base.clone(),
            computers: computers.map_err(&page_error)?.into_iter().map(computer).collect(),
            agents: agents.map_err(&page_error)?.into_iter().map(agent).collect(),
            usage,
        },
    ))
}

async fn usage(bars: &UsageBars, account: &UserAccountId, now: Timestamp) -> Option<Usage> {
    let owner = UsageOwner::Account(account.clone());
    let bar = tokio::time::timeout(bars.account_settings().section_deadline, bars.bar(&owner)).await;
    let bar = bar.ok()?.ok()??;
    let meter = |name, measure: Measure| Meter {
        name,
        percent_left: measure.percent_left.to_string(),
        reset: Moment::new(measure.reset_at, now),
    };
    let (dollars, cents) = (bar.balance_cents / 100, (bar.balance_cents % 100).abs());
    let sign = if bar.balance_cents < 0 { "-" } else { "" };
    Some(Usage {
        plan: bar.plan.as_str(),
        balance: format!("{sign}${}.{cents:02}", dollars.abs()),
        top_up_url: bars.account_settings().top_up_url.clone(),
        meters: [meter("Memory events", bar.memory), meter("Retrospectives", bar.retrospective)],
    })
}
