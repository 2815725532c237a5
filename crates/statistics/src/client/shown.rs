//! Filters the responses of an external service by caller.
//!
//! The contract names identities to the service, and any client can register a computer under any identity. Therefore entries of
//! foreign computers are removed from a page, and the proof of such an event is 404. Only responses in the form of the embedded service
//! can be filtered: an entry without `machine_uuid`, or a proof without `chain.machine_id`, is passed on unchanged.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::ids::MachineUuid;
use domain::recorder::Recorders;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::contract::Passed;

/// The page without the entries of foreign computers; the exact bytes if there are none.
pub(super) fn page(answer: Passed, shown: &Recorders) -> Passed {
    #[derive(Deserialize)]
    struct Entry {
        machine_uuid: Option<MachineUuid>,
    }
    if !answer.status.is_success() {
        return answer;
    }
    let is_foreign = |entry: &&RawValue| {
        let entry = serde_json::from_str::<Entry>(entry.get()).ok();
        entry.and_then(|entry| entry.machine_uuid).is_some_and(|machine| !is_known(shown, machine))
    };
    let Ok(mut members) = serde_json::from_slice::<BTreeMap<&str, &RawValue>>(&answer.body) else { return answer };
    let Some(entries) = members.get("events") else { return answer };
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(entries.get()) else { return answer };
    if !entries.iter().any(is_foreign) {
        return answer;
    }
    let own: Vec<&RawValue> = entries.into_iter().filter(|entry| !is_foreign(entry)).collect();
    let Ok(own) = serde_json::value::to_raw_value(&own) else { return answer };
    members.insert("events", &own);
    let Ok(body) = serde_json::to_vec(&members) else { return answer };
    Passed { body: Bytes::from(body), ..answer }
}

/// The proof, or 404 if the event is from a foreign computer.
pub(super) fn proof(answer: Passed, shown: &Recorders) -> Passed {
    #[derive(Deserialize)]
    struct Proof {
        chain: Chain,
    }
    #[derive(Deserialize)]
    struct Chain {
        machine_id: MachineUuid,
    }
    let proof = serde_json::from_slice::<Proof>(&answer.body).ok().filter(|_| answer.status.is_success());
    if proof.is_none_or(|proof| is_known(shown, proof.chain.machine_id)) {
        return answer;
    }
    let content_type = Some(HeaderValue::from_static("application/json"));
    let body = Bytes::from(json!({ "error": "event_not_found" }).to_string());
    Passed { status: StatusCode::NOT_FOUND, content_type, retry_after: None, body }
}

fn is_known(shown: &Recorders, machine: MachineUuid) -> bool {
    shown.all().any(|known| known.machine == machine)
}

#[cfg(test)]
mod tests {
    use domain::recorder::Recorder;

    use super::*;

    const OWN: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";
    const SERVICE: &str = "019b76da-a800-7a67-8a14-94a3f41b0635";
    const FOREIGN: &str = "019b76da-a800-7a67-8a14-94a3f41b0636";

    fn shown() -> Recorders {
        let recorder = |machine: &str| Recorder { machine: machine.parse().unwrap(), identity: "ada".parse().unwrap() };
        Recorders { computers: vec![recorder(OWN)], service: vec![recorder(SERVICE)], ..Recorders::default() }
    }

    fn answered(body: &str) -> Passed {
        Passed::written(StatusCode::OK, body.as_bytes().to_vec())
    }

    #[test]
    fn entries_of_foreign_computers_are_taken_out_and_nothing_else() {
        let body = format!(
            r#"{{"events":[{{"machine_uuid":"{OWN}","n":1e400}}, {{"machine_uuid":"{FOREIGN}"}},{{"machine_uuid":"{SERVICE}"}},{{"other":1}}],"a":1.0}}"#
        );
        let left = format!(
            r#"{{"a":1.0,"events":[{{"machine_uuid":"{OWN}","n":1e400}},{{"machine_uuid":"{SERVICE}"}},{{"other":1}}]}}"#
        );
        assert_eq!(page(answered(&body), &shown()).body, left);
        for untouched in [
            format!("{{ \"events\" : [{{\"machine_uuid\":\"{OWN}\"}}] }}"),
            r#"{"events":7}"#.to_owned(),
            "[1]".to_owned(),
            "<p>".to_owned(),
        ] {
            assert_eq!(page(answered(&untouched), &shown()), answered(&untouched));
        }
        let failed = Passed { status: StatusCode::BAD_GATEWAY, ..answered(&body) };
        assert_eq!(page(failed.clone(), &shown()), failed);
    }

    #[test]
    fn a_proof_of_a_foreign_computer_is_not_found() {
        let of = |machine: &str| answered(&format!(r#"{{"chain":{{"machine_id":"{machine}"}}}}"#));
        assert_eq!(proof(of(OWN), &shown()), of(OWN));
        assert_eq!(proof(answered("a proof"), &shown()), answered("a proof"));
        assert_eq!(proof(of(FOREIGN), &shown()).status, StatusCode::NOT_FOUND);
    }
}
