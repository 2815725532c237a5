//! Canonical JSON, the envelope of an event, and the query of an address.

use axum::http::{Request, Uri};
use domain::canonical::{canonical_bytes, parse_object};
use domain::envelope::{AgentKinds, Sealed};
use serde_json::Value;

const BYTES_MAX: usize = 262_144;

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    "\\udc00",
    "null",
    "true",
    "-0",
    "1e999",
    "1E-7",
    "0.1",
    "9007199254740991",
    "9007199254740992",
    "\u{feff}",
    "\u{1f600}",
    "\"seq\":",
    "\"hash_chain\":",
    "\"self\":",
    "\"GENESIS\"",
    "\"payload\":{}",
    "\"project_id\":\"a\"",
    "\"session_uuid\":null",
];

#[test]
fn canonical_json_soak() {
    fuzz::run("canonical", WORDS, |text| {
        let Ok(members) = parse_object(text, BYTES_MAX) else { return };
        let bytes = canonical_bytes(&members);
        let judge: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(bytes, serde_json_canonicalizer::to_vec(&judge).unwrap(), "the other author writes it otherwise");
        assert_eq!(
            canonical_bytes(&parse_object(&bytes, BYTES_MAX).unwrap()),
            bytes,
            "canonical bytes change when read again"
        );
    });
}

#[test]
fn envelope_soak() {
    let agents = AgentKinds::new([]);
    fuzz::run("envelope", WORDS, |text| {
        let Ok(sealed) = Sealed::open(text, BYTES_MAX, &agents) else { return };
        let mut judge: Value = serde_json::from_slice(text).unwrap();
        let claimed = judge["hash_chain"].as_object_mut().unwrap().remove("self").unwrap();
        assert_eq!(sealed.canonical, serde_json_canonicalizer::to_vec(&judge).unwrap());
        assert_eq!(sealed.seal_is_right(), claimed == sealed.seal.to_string());
        judge["hash_chain"]["self"] = claimed;
        // However it is spelled, it is the same event.
        let spelled = serde_json_canonicalizer::to_vec(&judge).unwrap();
        assert_eq!(Sealed::open(&spelled, BYTES_MAX, &agents).unwrap(), sealed);
    });
}

#[test]
fn query_soak() {
    let words = &["%", "%00", "%ff", "+", "&", "=", ";", "#", "next=", "limit=", "%2F"];
    fuzz::run("query", words, |text| {
        let Ok(text) = std::str::from_utf8(text) else { return };
        let Ok(uri) = format!("/?{text}").parse::<Uri>() else { return };
        let read = |uri: Uri| {
            let (parts, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
            let _ = api::query::read::<web::signin::NextQuery>(&parts);
            api::query::read::<Vec<(String, String)>>(&parts)
        };
        let Ok(pairs) = read(uri) else { return };
        let written = serde_urlencoded::to_string(&pairs).unwrap();
        assert_eq!(read(format!("/?{written}").parse().unwrap()).unwrap(), pairs);
    });
}
