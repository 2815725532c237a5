//! Whether the body of a held event may be stored. Content without consent is never stored, for any hold reason.

use crate::consent::{ConsentLevel, ConsentRule, explicit_level};
use crate::envelope::{Lane, Sealed, Unreadable};
use crate::ids::MachineUuid;
use crate::registry::Registry;

/// Whether the body may be stored. `rules` are the consent records of the identity of `machine`, or of all identities
/// of the account if the sender acts for none of its computers. `is_paused` says whether recording is paused.
pub fn may_keep(
    opened: &Result<Sealed, Unreadable>,
    rules: &[ConsentRule],
    machine: Option<MachineUuid>,
    is_paused: bool,
    registry: &Registry,
) -> bool {
    let lowest = |lanes: &[Lane]| {
        let lowest = lanes.iter().filter_map(|lane| level(rules, machine, *lane)).min();
        if is_paused { Some(ConsentLevel::Off) } else { lowest }
    };
    let Ok(Sealed { envelope, .. }) = opened else {
        // An unreadable event may belong to any lane and have content anywhere.
        return lowest(Lane::ALL).is_none_or(|level| level == ConsentLevel::Full);
    };
    if registry.forbidden_content(envelope).is_some() {
        return false;
    }
    // An unregistered type has only the lane that the event declares.
    let of_type = registry.lane_of(&envelope.event_type).unwrap_or(envelope.lane);
    let has_no_content = || envelope.payload.is_empty() || registry.judge(envelope).is_ok();
    lowest(&[envelope.lane, of_type]).is_none_or(|level| {
        // A payload that the registry rejects can have content in any member.
        level == ConsentLevel::Full || (level >= envelope.consent_level && has_no_content())
    })
}

fn level(rules: &[ConsentRule], machine: Option<MachineUuid>, lane: Lane) -> Option<ConsentLevel> {
    match machine {
        Some(machine) => explicit_level(rules, machine, lane),
        None => rules.iter().filter(|rule| rule.lane.is_none_or(|only| only == lane)).map(|rule| rule.level).min(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::consent::Author;
    use crate::envelope::AgentKinds;

    fn kept(level: Option<ConsentLevel>, machine: Option<MachineUuid>, change: impl FnOnce(&mut Value)) -> bool {
        let vectors: Value = serde_json::from_slice(include_bytes!("../../../../tests/vectors/chain.json")).unwrap();
        let mut event = vectors["chain"][0]["event"].clone();
        event["consent_level"] = json!("full");
        event["payload"] = json!({ "memory_id": "m1", "content": "a learned fact" });
        change(&mut event);
        let opened = Sealed::open(event.to_string().as_bytes(), 262_144, &AgentKinds::new([]));
        let rule = |level| ConsentRule { machine: None, lane: None, level, set_by: Author::Person };
        let rules: Vec<ConsentRule> = level.into_iter().map(rule).collect();
        may_keep(&opened, &rules, machine, false, &Registry::built_in().unwrap())
    }

    fn both(level: Option<ConsentLevel>, change: impl Fn(&mut Value)) -> bool {
        let machine = crate::Rng::seeded(1).uuid_v7(crate::Timestamp::UNIX_EPOCH).into();
        let (one, other) = (kept(level, None, &change), kept(level, Some(machine), &change));
        assert_eq!(one, other);
        one
    }

    #[test]
    fn a_level_that_a_person_set_holds_for_every_held_event() {
        let lower = [ConsentLevel::Off, ConsentLevel::MetadataOnly];
        let faults: [fn(&mut Value); 5] = [
            |_| {},
            |event| event["event_type"] = json!("memory.dreamt"),
            |event| event["lane"] = json!("llm"),
            |event| event["payload"]["content"] = json!(1),
            |event| event["seq"] = json!("first"),
        ];
        for fault in faults {
            for level in lower {
                assert!(!both(Some(level), fault));
            }
            assert!(both(Some(ConsentLevel::Full), fault) && both(None, fault));
        }
    }

    #[test]
    fn what_declares_no_more_than_is_allowed_and_has_no_content_is_kept() {
        let metadata = |event: &mut Value| {
            event["consent_level"] = json!("metadata-only");
            event["payload"] = json!({ "memory_id": "m1" });
        };
        assert!(both(Some(ConsentLevel::MetadataOnly), metadata) && both(None, metadata));
        assert!(!both(Some(ConsentLevel::Off), metadata));
        // The content fields of an unregistered type are unknown.
        let unknown = |event: &mut Value| {
            metadata(event);
            event["event_type"] = json!("memory.dreamt");
        };
        assert!(!both(Some(ConsentLevel::MetadataOnly), unknown) && both(None, unknown));
    }

    #[test]
    fn content_that_the_declared_level_forbids_is_never_kept() {
        for lane in ["memory", "llm"] {
            let forbidden = |event: &mut Value| {
                event["consent_level"] = json!("metadata-only");
                event["lane"] = json!(lane);
            };
            assert!(!both(None, forbidden) && !both(Some(ConsentLevel::Full), forbidden));
        }
    }
}
