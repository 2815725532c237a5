//! The overview: usage, computers, agents.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use domain::claim::{Registration, RegistrationType};
use store::machine::Computer;

use super::{AGENTS_MAX, COMPUTERS_MAX, Owner};
use crate::house::House;
use crate::web::{Answer, Frame, Moment, Trouble, page};

#[derive(Template)]
#[template(path = "account/home.html")]
struct HomePage {
    frame: Frame,
    tab: &'static str,
    base_url: String,
    computers: Vec<ComputerRow>,
    agents: Vec<AgentRow>,
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
pub async fn show(State(house): State<House>, owner: Owner) -> Answer {
    let now = house.clock.now();
    let trouble = Trouble::store(&house);
    let (computers, agents) = tokio::join!(
        house.store.computers_of_account(&owner.account, COMPUTERS_MAX),
        house.store.agents_of_account(&owner.account, AGENTS_MAX),
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
            frame: Frame::new(&house, Some(&owner.visitor)),
            tab: "home",
            base_url: house.base_url.clone(),
            computers: computers.map_err(&trouble)?.into_iter().map(computer).collect(),
            agents: agents.map_err(&trouble)?.into_iter().map(agent).collect(),
        },
    ))
}
