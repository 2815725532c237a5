//! Consent levels, and the effective level among several records (`docs/decisions/0014-consent.md`).

pub mod change;
pub mod pause;

use serde::{Deserialize, Serialize};

use crate::UnknownName;
use crate::ids::{MachineUuid, UserCuid};
use crate::lane::Lane;

/// How much of an activity may be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::Display)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum ConsentLevel {
    /// Events are not recorded.
    Off,
    /// Events are recorded without content fields.
    MetadataOnly,
    /// Events are recorded with content fields.
    Full,
}

impl ConsentLevel {
    /// The name in requests, events and rows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The party that set a level, from the credential of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumString, strum::IntoStaticStr, strum::VariantNames, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = UnknownName::of::<Self>)]
pub enum Author {
    /// A person, in a browser session.
    Person,
    /// An agent that acts for a person's account.
    Agent,
    /// The computer itself, with its machine secret.
    Computer,
}

impl Author {
    /// All authors, in the order of the protocol.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name in rows, events and responses.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the level counts as the person's: set by the person or by an agent of the account.
    pub fn is_for_person(self) -> bool {
        matches!(self, Self::Person | Self::Agent)
    }
}

/// A recorded level of an identity, for one machine or all and for one lane or all. The person and the computer each
/// have their own record for the same scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentRule {
    /// The machine; `None` for all machines of the identity.
    pub machine: Option<MachineUuid>,
    /// The lane; `None` for all lanes.
    pub lane: Option<Lane>,
    /// The level for this scope.
    pub level: ConsentLevel,
    /// The party that set it.
    pub set_by: Author,
}

impl ConsentRule {
    fn applies(&self, machine: Option<MachineUuid>, lane: Option<Lane>) -> bool {
        (self.machine.is_none() || self.machine == machine) && (self.lane.is_none() || self.lane == lane)
    }
}

/// A change of the person's own record of one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentEdit {
    /// Identity that the record applies to.
    pub identity: UserCuid,
    /// The computer; `None` for all computers of the identity.
    pub machine: Option<MachineUuid>,
    /// The lane; `None` for all lanes.
    pub lane: Option<Lane>,
    /// The level that the record must have now; `None` if there must be no record.
    pub before: Option<ConsentLevel>,
    /// The new level; `None` removes the record, and the scope follows the more general records.
    pub after: Option<ConsentLevel>,
}

/// The effective level of `machine` and `lane`. If person and computer both set a level, the lower one: a computer can lower its person's
/// level but not raise it. `None` if no rule applies; the configured default is then reported but not enforced.
pub fn explicit_level(rules: &[ConsentRule], machine: MachineUuid, lane: Lane) -> Option<ConsentLevel> {
    effective_level(rules, Some(machine), Some(lane))
}

/// The effective level of a scope: without `machine` the baseline of all machines, without `lane` the level of all
/// lanes.
pub fn effective_level(
    rules: &[ConsentRule],
    machine: Option<MachineUuid>,
    lane: Option<Lane>,
) -> Option<ConsentLevel> {
    let person = person_rule(rules, machine, lane).map(|rule| rule.level);
    let computer = computer_rule(rules, machine, lane).map(|rule| rule.level);
    match (person, computer) {
        (Some(person), Some(computer)) => Some(person.min(computer)),
        (one, other) => one.or(other),
    }
}

/// The person's most specific rule for a scope.
pub fn person_rule<'r>(
    rules: impl IntoIterator<Item = &'r ConsentRule>,
    machine: Option<MachineUuid>,
    lane: Option<Lane>,
) -> Option<&'r ConsentRule> {
    most_specific(rules.into_iter().filter(|rule| rule.set_by.is_for_person()), machine, lane)
}

/// The computer's most specific rule for itself.
pub fn computer_rule<'r>(
    rules: impl IntoIterator<Item = &'r ConsentRule>,
    machine: Option<MachineUuid>,
    lane: Option<Lane>,
) -> Option<&'r ConsentRule> {
    most_specific(rules.into_iter().filter(|rule| !rule.set_by.is_for_person()), machine, lane)
}

/// The person's records to add to `rules` when a level is chosen for `machine`. If the person has no level for all computers, the choice
/// becomes that level. Otherwise it becomes an exception for the computer, unless the computer has this level already; stricter levels for
/// single lanes stay in force.
pub fn chosen_rules(
    rules: &[ConsentRule],
    machine: MachineUuid,
    level: ConsentLevel,
    set_by: Author,
) -> Vec<ConsentRule> {
    let chosen = |machine, lane, level| ConsentRule { machine, lane, level, set_by };
    match person_rule(rules, Some(machine), None) {
        None => vec![chosen(None, None, level)],
        Some(present) if present.level == level => Vec::new(),
        Some(_) => {
            let stricter = Lane::ALL.iter().copied().filter_map(|lane| {
                let rule = person_rule(rules, Some(machine), Some(lane))?;
                (rule.machine.is_none() && rule.lane.is_some() && rule.level < level)
                    .then(|| chosen(Some(machine), Some(lane), rule.level))
            });
            std::iter::once(chosen(Some(machine), None, level)).chain(stricter).collect()
        }
    }
}

/// Prefers a rule for the machine over a baseline, then a rule for the lane over one for all lanes.
fn most_specific<'r>(
    rules: impl Iterator<Item = &'r ConsentRule>,
    machine: Option<MachineUuid>,
    lane: Option<Lane>,
) -> Option<&'r ConsentRule> {
    let applying = rules.filter(|rule| rule.applies(machine, lane));
    applying.max_by_key(|rule| (rule.machine.is_some(), rule.lane.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Timestamp};

    #[test]
    fn the_most_specific_rule_holds() {
        let machine = MachineUuid::from(Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH));
        let other = MachineUuid::from(Rng::seeded(2).uuid_v7(Timestamp::UNIX_EPOCH));
        let rule = |machine, lane, level| ConsentRule { machine, lane, level, set_by: Author::Person };
        let mut rules = vec![];
        assert_eq!(explicit_level(&rules, machine, Lane::Memory), None);
        for (machine_rule, lane_rule, level) in [
            (None, None, ConsentLevel::Full),
            (None, Some(Lane::Memory), ConsentLevel::Off),
            (Some(machine), None, ConsentLevel::MetadataOnly),
            (Some(machine), Some(Lane::Memory), ConsentLevel::Full),
        ] {
            rules.insert(0, rule(machine_rule, lane_rule, level));
            assert_eq!(explicit_level(&rules, machine, Lane::Memory), Some(level));
        }
        assert_eq!(explicit_level(&rules, machine, Lane::Llm), Some(ConsentLevel::MetadataOnly));
        assert_eq!(explicit_level(&rules, other, Lane::Memory), Some(ConsentLevel::Off));
        assert_eq!(explicit_level(&rules, other, Lane::Llm), Some(ConsentLevel::Full));
    }

    #[test]
    fn a_computer_lowers_the_level_of_its_person_and_never_raises_it() {
        let machine = MachineUuid::from(Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH));
        let levels = [ConsentLevel::Off, ConsentLevel::MetadataOnly, ConsentLevel::Full];
        for author in [Author::Person, Author::Agent] {
            // Holds for every pair of a general and a specific rule.
            for (machine_rule, lane_rule) in [(None, None), (None, Some(Lane::Llm)), (Some(machine), Some(Lane::Llm))] {
                for (person, computer) in levels.into_iter().flat_map(|one| levels.map(|other| (one, other))) {
                    let rules = [
                        ConsentRule { machine: machine_rule, lane: lane_rule, level: person, set_by: author },
                        ConsentRule {
                            machine: Some(machine),
                            lane: Some(Lane::Llm),
                            level: computer,
                            set_by: Author::Computer,
                        },
                    ];
                    assert_eq!(explicit_level(&rules, machine, Lane::Llm), Some(person.min(computer)));
                    assert_eq!(explicit_level(&rules[1..], machine, Lane::Llm), Some(computer));
                }
            }
        }
        let own =
            ConsentRule { machine: Some(machine), lane: None, level: ConsentLevel::Off, set_by: Author::Computer };
        assert_eq!(effective_level(std::slice::from_ref(&own), None, None), None);
        assert_eq!(effective_level(&[own], Some(machine), None), Some(ConsentLevel::Off));
        assert!(Author::ALL.iter().all(|author| author.as_str().parse() == Ok(*author)));
    }

    #[test]
    fn a_choice_is_for_all_computers_unless_they_have_a_level() {
        use ConsentLevel::{Full, MetadataOnly, Off};
        let machine = MachineUuid::from(Rng::seeded(1).uuid_v7(Timestamp::UNIX_EPOCH));
        let rule = |machine, lane, level| ConsentRule { machine, lane, level, set_by: Author::Person };
        let chosen = |rules: &[ConsentRule], level| chosen_rules(rules, machine, level, Author::Person);
        assert_eq!(chosen(&[], MetadataOnly), [rule(None, None, MetadataOnly)]);
        // A level for one lane, or set by the computer, is not a level for all computers.
        let own = ConsentRule { set_by: Author::Computer, ..rule(Some(machine), None, Off) };
        let others = [rule(None, Some(Lane::Llm), Off), own];
        assert_eq!(chosen(&others, Full), [rule(None, None, Full)]);

        let rules = [rule(None, None, Off), rule(None, Some(Lane::Llm), MetadataOnly)];
        assert_eq!(chosen(&rules, Off), []);
        assert_eq!(chosen(&rules, MetadataOnly), [rule(Some(machine), None, MetadataOnly)]);
        let exception = rule(Some(machine), Some(Lane::Llm), MetadataOnly);
        assert_eq!(chosen(&rules, Full), [rule(Some(machine), None, Full), exception]);
        let excepted = [rule(None, None, Off), rule(Some(machine), None, Full)];
        assert_eq!(chosen(&excepted, Full), []);
        assert_eq!(chosen(&excepted, Off), [rule(Some(machine), None, Off)]);
    }

    #[test]
    fn levels_are_ordered_from_nothing_to_everything() {
        assert!(ConsentLevel::Off < ConsentLevel::MetadataOnly && ConsentLevel::MetadataOnly < ConsentLevel::Full);
    }
}
