//! How much every computer may record, lane by lane: a row for all computers, and one for each. The levels are those of the person; where
//! a computer set a level of itself, it is named beside them.
//!
//! Every row is a separate form. Its levels are compared with the effective levels, and only differences are written: saving a row
//! without a change does not turn an inherited level into a chosen one. Afterwards the levels of the form are in force, except that lanes
//! with the level of *all lanes* follow its change.

use std::collections::BTreeMap;

use api::account::COMPUTERS_MAX;
use app::services::consent::Consent;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use domain::consent::{Author, ConsentLevel, ConsentRule, computer_rule, person_rule};
use domain::envelope::Lane;
use domain::ids::{MachineUuid, UserCuid};
use serde::Deserialize;
use store::consent::ConsentRecord;
use store::machine::Computer;

use super::AccountOwner;
use crate::{PageError, PageErrorTexts, PageForm, PageLayout, PageQuery, PageResult, Site, page};

/// Name of the field for all lanes in a form.
const ALL_LANES: &str = "all";

#[derive(Template)]
#[template(path = "account/consent.html")]
struct ConsentPage {
    frame: PageLayout,
    tab: &'static str,
    lanes: Vec<&'static str>,
    rows: Vec<Row>,
    saved: Option<String>,
    default_level: &'static str,
}

struct Row {
    /// Value of the field `scope` in the form of this row.
    scope: String,
    name: String,
    cells: Vec<Cell>,
}

struct Cell {
    /// `all`, or the lane.
    lane: &'static str,
    label: String,
    choices: Vec<Choice>,
    /// Whether the level was chosen in this cell; otherwise it is inherited.
    own: bool,
    /// The level that the computer set for itself; where the person's is higher, this one is in force.
    by_computer: Option<&'static str>,
}

struct Choice {
    /// Empty where nothing is chosen.
    level: &'static str,
    words: &'static str,
    chosen: bool,
}

/// `?saved=…`
#[derive(Debug, Deserialize)]
pub struct SavedQuery {
    saved: Option<String>,
}

/// `GET /account/consent`
pub async fn show(
    State(site): State<Site>,
    State(consent): State<Consent>,
    owner: AccountOwner,
    PageQuery(query): PageQuery<SavedQuery>,
) -> PageResult {
    let matrix = Matrix::load(&site, &owner).await?;
    let everywhere = Scope::Everywhere;
    let rows = std::iter::once((everywhere, "All computers".to_owned()))
        .chain(matrix.computers.iter().map(|computer| {
            let name = computer.name.clone().unwrap_or_else(|| nameless(computer.machine_uuid));
            (Scope::Machine(computer.user_cuid.clone(), computer.machine_uuid), name)
        }))
        .map(|(scope, name)| matrix.row(&scope, name))
        .collect();
    let saved = query.saved.as_deref().map(|saved| match saved {
        "0" => "No levels were changed.".to_owned(),
        "later" => "Saved and effective. The change is recorded as soon as the statistics service is available again."
            .to_owned(),
        _ => "Saved and effective from now on.".to_owned(),
    });
    Ok(page(
        StatusCode::OK,
        &ConsentPage {
            frame: PageLayout::new(&site, Some(&owner.visitor)),
            tab: "consent",
            lanes: Lane::ALL.iter().map(|lane| lane.as_str()).collect(),
            rows,
            saved,
            default_level: words(consent.default_level()),
        },
    ))
}

/// `POST /account/consent`: `scope` and a level for `all` and for each lane.
pub async fn save(
    State(site): State<Site>,
    State(consent): State<Consent>,
    owner: AccountOwner,
    PageForm(form): PageForm<BTreeMap<String, String>>,
) -> PageResult {
    let mut matrix = Matrix::load(&site, &owner).await?;
    let scope = form.get("scope").and_then(|scope| matrix.scope(scope)).ok_or_else(|| {
        PageError::shown(
            &site,
            Some(&owner.visitor),
            StatusCode::NOT_FOUND,
            PageErrorTexts {
                title: "This computer is not attached to your account",
                text: "It was detached, or it never belonged to your account. Nothing was changed.",
                next: "The consent page lists your computers.",
                link: "/account/consent".into(),
                label: "To consent",
            },
        )
    })?;
    let (mut written, mut forwarded) = (0, true);
    let (identities, machine) = (matrix.identities_of(&scope), scope.machine());
    for (lane, level) in matrix.changes(&scope, &form) {
        let rule = ConsentRule { machine, lane, level, set_by: Author::Person };
        let done = consent.write(identities.clone(), rule, None).await.map_err(PageError::of(&site))?;
        written += done.records;
        forwarded &= done.is_forwarded;
    }
    let saved = if forwarded { written.to_string() } else { "later".into() };
    let root = site.urls.root_path();
    Ok(Redirect::to(&format!("{root}/account/consent?saved={saved}")).into_response())
}

/// All lanes first, then each.
fn columns() -> impl Iterator<Item = Option<Lane>> {
    std::iter::once(None).chain(Lane::ALL.iter().copied().map(Some))
}

enum Scope {
    Everywhere,
    Machine(UserCuid, MachineUuid),
}

impl Scope {
    fn machine(&self) -> Option<MachineUuid> {
        match self {
            Self::Everywhere => None,
            Self::Machine(_, machine) => Some(*machine),
        }
    }
}

/// The rows that the page shows.
struct Matrix {
    identities: Vec<UserCuid>,
    computers: Vec<Computer>,
    records: Vec<ConsentRecord>,
}

impl Matrix {
    async fn load(site: &Site, owner: &AccountOwner) -> Result<Self, PageError> {
        let (store, page_error) = (&site.ports.store, PageError::store(site));
        let (identities, computers, records) = tokio::join!(
            store.identities_of_account(&owner.account),
            store.computers_of_account(&owner.account, COMPUTERS_MAX),
            store.consent_of_account(&owner.account),
        );
        Ok(Self {
            identities: identities.map_err(&page_error)?,
            computers: computers.map_err(&page_error)?,
            records: records.map_err(&page_error)?,
        })
    }

    fn scope(&self, text: &str) -> Option<Scope> {
        if text == ALL_LANES {
            return Some(Scope::Everywhere);
        }
        let computer = self.computers.iter().find(|computer| computer.machine_uuid.to_string() == text)?;
        Some(Scope::Machine(computer.user_cuid.clone(), computer.machine_uuid))
    }

    fn identities_of(&self, scope: &Scope) -> Vec<UserCuid> {
        match scope {
            Scope::Everywhere => self.identities.clone(),
            Scope::Machine(identity, _) => vec![identity.clone()],
        }
    }

    /// The changes of a form, all lanes first. Applies each change to the matrix, so that later lanes are compared with the new levels.
    fn changes(&mut self, scope: &Scope, form: &BTreeMap<String, String>) -> Vec<(Option<Lane>, ConsentLevel)> {
        let submitted = |lane: Option<Lane>| -> Option<ConsentLevel> {
            form.get(lane.map_or(ALL_LANES, Lane::as_str)).and_then(|level| level.parse().ok())
        };
        let shown: Vec<_> = columns().map(|lane| (lane, self.holds(scope, lane).map(|(level, _)| level))).collect();
        let all_lanes = shown.first().and_then(|(_, level)| *level);
        let all_lanes_change = submitted(None).is_some_and(|level| all_lanes != Some(level));
        let mut changes = Vec::new();
        for (lane, shown) in shown {
            let Some(level) = submitted(lane) else { continue };
            // Left alone, and like all lanes: it follows them.
            let follows = lane.is_some() && all_lanes_change && shown == Some(level) && shown == all_lanes;
            if follows || self.holds_everywhere(scope, lane, level) {
                continue;
            }
            self.keep(scope, lane, level);
            changes.push((lane, level));
        }
        changes
    }

    /// Applies a change to the matrix.
    fn keep(&mut self, scope: &Scope, lane: Option<Lane>, level: ConsentLevel) {
        let (identities, machine) = (self.identities_of(scope), scope.machine());
        self.records.retain(|ConsentRecord { user_cuid, rule }| {
            let is_same = rule.machine == machine && rule.lane == lane && rule.set_by.is_for_person();
            !is_same || !identities.contains(user_cuid)
        });
        let rule = ConsentRule { machine, lane, level, set_by: Author::Person };
        self.records.extend(identities.into_iter().map(|user_cuid| ConsentRecord { user_cuid, rule: rule.clone() }));
    }

    /// Whether this level holds for every identity of the scope.
    fn holds_everywhere(&self, scope: &Scope, lane: Option<Lane>, level: ConsentLevel) -> bool {
        let machine = scope.machine();
        self.identities_of(scope)
            .iter()
            .all(|identity| self.holds_for(identity, machine, lane).is_some_and(|(holds, _)| holds == level))
    }

    /// The level that the person chose for a cell, and whether in this very cell. Baselines of several identities are written together; where they
    /// differ, the strictest is shown, and saving it applies it to all.
    fn holds(&self, scope: &Scope, lane: Option<Lane>) -> Option<(ConsentLevel, bool)> {
        let machine = scope.machine();
        let identities = self.identities_of(scope);
        let each = identities.iter().filter_map(|identity| self.holds_for(identity, machine, lane));
        each.min_by_key(|(level, _)| *level)
    }

    fn holds_for(
        &self,
        identity: &UserCuid,
        machine: Option<MachineUuid>,
        lane: Option<Lane>,
    ) -> Option<(ConsentLevel, bool)> {
        let found = person_rule(self.rules_of(identity), machine, lane);
        found.map(|rule| (rule.level, rule.machine == machine && rule.lane == lane))
    }

    /// The level that a computer set for itself, where it differs from the person's choice.
    fn by_computer(&self, scope: &Scope, lane: Option<Lane>) -> Option<ConsentLevel> {
        let Scope::Machine(identity, machine) = scope else { return None };
        let own = computer_rule(self.rules_of(identity), Some(*machine), lane)?.level;
        let chosen = person_rule(self.rules_of(identity), Some(*machine), lane).map(|rule| rule.level);
        chosen.is_none_or(|chosen| own < chosen).then_some(own)
    }

    fn rules_of<'m>(&'m self, identity: &'m UserCuid) -> impl Iterator<Item = &'m ConsentRule> {
        self.records.iter().filter(move |record| record.user_cuid == *identity).map(|record| &record.rule)
    }

    fn row(&self, scope: &Scope, name: String) -> Row {
        let cells = columns()
            .map(|lane| {
                let holds = self.holds(scope, lane);
                let nothing = holds.is_none().then_some(Choice { level: "", words: "Not chosen", chosen: true });
                let levels = [ConsentLevel::Off, ConsentLevel::MetadataOnly, ConsentLevel::Full];
                let levels = levels.map(|level| Choice {
                    level: level.as_str(),
                    words: words(level),
                    chosen: holds.is_some_and(|(holds, _)| level == holds),
                });
                Cell {
                    lane: lane.map_or(ALL_LANES, Lane::as_str),
                    label: format!("{name}, {}", lane.map_or("all lanes", Lane::as_str)),
                    choices: nothing.into_iter().chain(levels).collect(),
                    own: holds.is_some_and(|(_, own)| own),
                    by_computer: self.by_computer(scope, lane).map(words),
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

/// A name from the end of the id. The beginning of an id is a time, and similar for computers of one day.
fn nameless(machine: MachineUuid) -> String {
    let uuid = machine.to_string();
    format!("Computer …{}", &uuid[uuid.len() - 8..])
}

/// A level in words.
pub(super) fn words(level: ConsentLevel) -> &'static str {
    match level {
        ConsentLevel::Off => "Nothing",
        ConsentLevel::MetadataOnly => "No content",
        ConsentLevel::Full => "Everything",
    }
}
