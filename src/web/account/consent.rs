//! How much every computer may record, lane by lane: a row for all computers, and one for each.
//!
//! Every row is a form of its own. What it sends is compared with what holds, and only what differs is set: looking at a level and
//! saving the row does not turn what is inherited into what was chosen.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use domain::consent::{ConsentLevel, ConsentRule};
use domain::envelope::Lane;
use domain::ids::{MachineUuid, UserCuid};
use serde::Deserialize;
use store::consent::ConsentRecord;
use store::machine::Computer;

use super::{COMPUTERS_MAX, Owner};
use crate::house::House;
use crate::http::consent::set;
use crate::web::{Answer, Frame, PageForm, Shown, Trouble, page};

/// How the column for all lanes is named in a form.
const ALL_LANES: &str = "all";

#[derive(Template)]
#[template(path = "account/consent.html")]
struct ConsentPage {
    frame: Frame,
    tab: &'static str,
    lanes: Vec<&'static str>,
    rows: Vec<Row>,
    saved: Option<String>,
    default_level: &'static str,
}

struct Row {
    /// What the form of the row is called, and sends.
    scope: String,
    name: String,
    cells: Vec<Cell>,
}

struct Cell {
    /// `all`, or the lane.
    lane: &'static str,
    label: String,
    choices: Vec<Choice>,
    /// Whether somebody chose it here, or it holds because of a more general choice.
    own: bool,
}

struct Choice {
    level: &'static str,
    words: &'static str,
    chosen: bool,
}

/// `?saved=…`
#[derive(Debug, Deserialize)]
pub struct Told {
    saved: Option<String>,
}

/// `GET /account/consent`
pub async fn show(State(house): State<House>, owner: Owner, Query(told): Query<Told>) -> Answer {
    let matrix = Matrix::load(&house, &owner).await?;
    let everywhere = Scope::Everywhere;
    let rows = std::iter::once((everywhere, "All computers".to_owned()))
        .chain(matrix.computers.iter().map(|computer| {
            let name = computer.name.clone().unwrap_or_else(|| nameless(computer.machine_uuid));
            (Scope::Machine(computer.user_cuid.clone(), computer.machine_uuid), name)
        }))
        .map(|(scope, name)| matrix.row(&scope, name))
        .collect();
    let saved = told.saved.as_deref().map(|saved| match saved {
        "0" => "Nothing was different, so nothing was changed.".to_owned(),
        "later" => {
            "Saved, and in force. The record of it follows as soon as the statistics service answers again.".to_owned()
        }
        _ => "Saved, and in force from now on.".to_owned(),
    });
    Ok(page(
        StatusCode::OK,
        &ConsentPage {
            frame: Frame::new(&house, Some(&owner.visitor)),
            tab: "consent",
            lanes: Lane::ALL.iter().map(|lane| lane.as_str()).collect(),
            rows,
            saved,
            default_level: words(house.settings.consent.default_level),
        },
    ))
}

/// `POST /account/consent`: `scope` and a level for `all` and for each lane.
pub async fn save(
    State(house): State<House>,
    owner: Owner,
    PageForm(form): PageForm<BTreeMap<String, String>>,
) -> Answer {
    let matrix = Matrix::load(&house, &owner).await?;
    let scope = form.get("scope").and_then(|scope| matrix.scope(scope)).ok_or_else(|| {
        Trouble::shown(
            &house,
            Some(&owner.visitor),
            StatusCode::NOT_FOUND,
            Shown {
                title: "This computer is not attached to your account",
                text: "It was detached meanwhile, or it was never yours. Nothing was changed.",
                next: "The consent page shows the computers that are.",
                link: "/account/consent".into(),
                label: "To consent",
            },
        )
    })?;
    let (mut written, mut forwarded) = (0, true);
    for lane in columns() {
        let named = lane.map_or(ALL_LANES, Lane::as_str);
        let Some(level) = form.get(named).and_then(|level| level.parse::<ConsentLevel>().ok()) else { continue };
        if level == matrix.holds(&scope, lane).0 {
            continue;
        }
        let (identities, machine) = match &scope {
            Scope::Everywhere => (matrix.identities.clone(), None),
            Scope::Machine(identity, machine) => (vec![identity.clone()], Some(*machine)),
        };
        let done = set(&house, identities, ConsentRule { machine, lane, level }, None).await;
        let done = done.map_err(|error| Trouble::api(&house, &error))?;
        written += done.written;
        forwarded &= done.forwarded;
    }
    let told = if forwarded { written.to_string() } else { "later".into() };
    let root = house.root_path();
    Ok(Redirect::to(&format!("{root}/account/consent?saved={told}")).into_response())
}

/// All lanes first, then each.
fn columns() -> impl Iterator<Item = Option<Lane>> {
    std::iter::once(None).chain(Lane::ALL.into_iter().map(Some))
}

enum Scope {
    Everywhere,
    Machine(UserCuid, MachineUuid),
}

/// Everything that the page needs to know.
struct Matrix {
    identities: Vec<UserCuid>,
    computers: Vec<Computer>,
    records: Vec<ConsentRecord>,
    default_level: ConsentLevel,
}

impl Matrix {
    async fn load(house: &House, owner: &Owner) -> Result<Self, Trouble> {
        let (store, trouble) = (&house.store, Trouble::store(house));
        let (identities, computers, records) = tokio::join!(
            store.identities_of_account(&owner.account),
            store.computers_of_account(&owner.account, COMPUTERS_MAX),
            store.consent_of_account(&owner.account),
        );
        Ok(Self {
            identities: identities.map_err(&trouble)?,
            computers: computers.map_err(&trouble)?,
            records: records.map_err(&trouble)?,
            default_level: house.settings.consent.default_level,
        })
    }

    fn scope(&self, text: &str) -> Option<Scope> {
        if text == ALL_LANES {
            return Some(Scope::Everywhere);
        }
        let computer = self.computers.iter().find(|computer| computer.machine_uuid.to_string() == text)?;
        Some(Scope::Machine(computer.user_cuid.clone(), computer.machine_uuid))
    }

    /// The level that holds for a cell, and whether it was chosen in this very cell. Baselines of several identities are written together;
    /// where they differ all the same, the strictest is shown.
    fn holds(&self, scope: &Scope, lane: Option<Lane>) -> (ConsentLevel, bool) {
        match scope {
            Scope::Machine(identity, machine) => self.holds_for(identity, Some(*machine), lane),
            Scope::Everywhere => {
                let each = self.identities.iter().map(|identity| self.holds_for(identity, None, lane));
                each.min_by_key(|(level, _)| *level).unwrap_or((self.default_level, false))
            }
        }
    }

    fn holds_for(&self, identity: &UserCuid, machine: Option<MachineUuid>, lane: Option<Lane>) -> (ConsentLevel, bool) {
        let applies = |rule: &ConsentRule| {
            (rule.machine.is_none() || rule.machine == machine) && (rule.lane.is_none() || rule.lane == lane)
        };
        let rules = self.records.iter().filter(|record| record.user_cuid == *identity).map(|record| &record.rule);
        let found = rules.filter(|rule| applies(rule)).max_by_key(|rule| (rule.machine.is_some(), rule.lane.is_some()));
        found.map_or((self.default_level, false), |rule| (rule.level, rule.machine == machine && rule.lane == lane))
    }

    fn row(&self, scope: &Scope, name: String) -> Row {
        let cells = columns()
            .map(|lane| {
                let (holds, own) = self.holds(scope, lane);
                let levels = [ConsentLevel::Off, ConsentLevel::MetadataOnly, ConsentLevel::Full];
                Cell {
                    lane: lane.map_or(ALL_LANES, Lane::as_str),
                    label: format!("{name}, {}", lane.map_or("all lanes", Lane::as_str)),
                    choices: levels
                        .map(|level| Choice { level: level.as_str(), words: words(level), chosen: level == holds })
                        .into(),
                    own,
                }
            })
            .collect();
        let scope = match scope {
            Scope::Everywhere => ALL_LANES.to_owned(),
            Scope::Machine(_, machine) => machine.to_string(),
        };
        Row { scope, name, cells }
    }
}

/// The end of its id, which is told in full on the overview. Its beginning is a time, and alike for computers of one day.
fn nameless(machine: MachineUuid) -> String {
    let uuid = machine.to_string();
    format!("Computer …{}", &uuid[uuid.len() - 8..])
}

fn words(level: ConsentLevel) -> &'static str {
    match level {
        ConsentLevel::Off => "Nothing",
        ConsentLevel::MetadataOnly => "No content",
        ConsentLevel::Full => "Everything",
    }
}
