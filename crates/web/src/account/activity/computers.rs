//! The names of the computers with events that an account may see.

use std::collections::BTreeMap;

use api::account::COMPUTERS_MAX;
use app::services::activity::browse::ComputerNames;
use domain::ids::{MachineUuid, RegistrationId, UserAccountId};
use domain::registry::SummaryNames;
use statistics::contract::RecordScope;

use crate::account::agent::agent_name;
use crate::account::computer::computer_name;
use crate::account::consent::words as level_words;
use crate::{PageError, Site};

/// The name of the service among the computers.
pub const SERVICE: &str = "attache";

/// Names of all computers that are or were attached, and of the chains on which the service reports.
pub struct Computers {
    names: BTreeMap<MachineUuid, String>,
    /// The chains of the service, which all have one name.
    service: Vec<MachineUuid>,
    /// Names of the account's agents.
    agents: BTreeMap<RegistrationId, String>,
}

/// Maximum number of agents with names.
const AGENTS_MAX: usize = 1_000;

/// An option of the filter of computers.
pub struct ComputerChoice {
    pub uuid: String,
    pub name: String,
    pub is_chosen: bool,
}

impl Computers {
    /// Reads the names of the computers in `scope`.
    pub async fn of(site: &Site, account: &UserAccountId, scope: &RecordScope) -> Result<Self, PageError> {
        let page_error = PageError::of(site);
        let mut rows = site.machines.ended(account, COMPUTERS_MAX).await.map_err(&page_error)?;
        rows.extend(site.machines.attached(account).await.map_err(&page_error)?);
        let mut names: BTreeMap<MachineUuid, String> =
            scope.shown.computers.iter().map(|computer| (computer.machine, nameless(computer.machine))).collect();
        names.extend(rows.iter().map(|computer| (computer.machine_uuid, computer_name(computer))));
        let service: Vec<MachineUuid> = scope.shown.service.iter().map(|chain| chain.machine).collect();
        names.extend(service.iter().map(|machine| (*machine, SERVICE.to_owned())));
        let agents = site.agents.list(account, AGENTS_MAX).await.map_err(&page_error)?;
        let agents = agents.iter().map(|agent| (agent.id, agent_name(agent))).collect();
        Ok(Self { names, service, agents })
    }

    /// The name of a computer.
    pub fn name(&self, machine: MachineUuid) -> &str {
        self.names.get(&machine).map_or("another computer", String::as_str)
    }

    /// The name of an agent.
    pub fn agent(&self, agent: RegistrationId) -> String {
        self.agents.get(&agent).cloned().unwrap_or_else(|| "an agent".to_owned())
    }

    /// Whether the service itself recorded under this id.
    pub fn is_service(&self, machine: MachineUuid) -> bool {
        self.service.contains(&machine)
    }

    /// All computers by name, without the chains of the service. If several computers have the same name, a part of their ids is appended.
    pub fn choices(&self, chosen: Option<MachineUuid>) -> Vec<ComputerChoice> {
        let mut choices: Vec<ComputerChoice> = self
            .names
            .iter()
            .filter(|(machine, _)| !self.is_service(**machine))
            .map(|(machine, name)| {
                let is_alone = self.names.values().filter(|other| *other == name).count() == 1;
                let name = if is_alone { name.clone() } else { format!("{name} ({})", end_of(*machine)) };
                ComputerChoice { uuid: machine.to_string(), name, is_chosen: chosen == Some(*machine) }
            })
            .collect();
        choices.sort_by_cached_key(|choice| choice.name.to_lowercase());
        choices
    }
}

impl ComputerNames for Computers {
    fn name_of(&self, machine: MachineUuid) -> &str {
        self.name(machine)
    }

    fn named_like(&self, text: &str) -> Vec<MachineUuid> {
        let is_like = |name: &String| name.to_lowercase().contains(text);
        self.names.iter().filter(|(_, name)| is_like(name)).map(|(machine, _)| *machine).collect()
    }
}

impl SummaryNames for Computers {
    fn name_of(&self, member: &str, value: &str) -> Option<String> {
        match member {
            "machine_uuid" => value.parse().ok().map(|machine| self.name(machine).to_owned()),
            "agent_id" => value.parse().ok().map(|agent| self.agent(agent)),
            "set_by" => (value == "person").then(|| "you".to_owned()),
            "level" | "previous_level" => value.parse().ok().map(|level| level_words(level).to_owned()),
            _ => None,
        }
    }
}

fn nameless(machine: MachineUuid) -> String {
    format!("Computer {}", end_of(machine))
}

fn end_of(machine: MachineUuid) -> String {
    let uuid = machine.to_string();
    format!("…{}", uuid.get(uuid.len().saturating_sub(8)..).unwrap_or_default())
}
