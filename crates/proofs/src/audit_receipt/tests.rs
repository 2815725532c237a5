use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::chain::Prev;
use domain::{Rng, Timestamp, canonical};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::merkle::tile::{TileId, Tiles};
use crate::merkle::{inclusion, leaf_hash};
use crate::proof::{AuditProof, ProofChain, ProofSchema, ProofStatus};
use domain::checkpoint::{SignerKey, VerifierKey};

fn vectors() -> Value {
    serde_json::from_slice(include_bytes!("../../../../tests/vectors/receipt.json")).unwrap()
}

/// Parses and verifies; the member of the first fault.
fn judged(receipt: &Value, key: &VerifierKey) -> Result<VerifiedReceipt, (String, String)> {
    let named = |fault: ReceiptFault| (fault.member(), format!("{fault} {}", fault.advice()));
    let receipt = AuditReceipt::parse(receipt.to_string().as_bytes()).map_err(named)?;
    verify(&receipt, key).map_err(named)
}

fn change(receipt: &mut Value, pointer: &str, value: Option<&Value>) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = receipt.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(members), Some(value)) => drop(members.insert(name.to_owned(), value.clone())),
        (Value::Object(members), None) => drop(members.remove(name)),
        (Value::Array(values), Some(value)) => values[name.parse::<usize>().unwrap()] = value.clone(),
        (parent, value) => panic!("{pointer}: {parent} {value:?}"),
    }
}

#[test]
fn every_vector_holds_or_is_refused_at_the_changed_member() {
    let vectors = vectors();
    let key: VerifierKey = vectors["vkey"].as_str().unwrap().parse().unwrap();
    let accepted = vectors["accepted"].as_array().unwrap();
    for case in accepted {
        let verified = judged(&case["receipt"], &key).unwrap_or_else(|fault| panic!("{}: {fault:?}", case["name"]));
        let receipt = AuditReceipt::parse(case["receipt"].to_string().as_bytes()).unwrap();
        assert_eq!(verified.events.len(), receipt.events.len());
        assert_eq!(receipt.markdown(), case["markdown"].as_str().unwrap(), "{}", case["name"]);
        assert_eq!(AuditReceipt::parse(&receipt.bytes().unwrap()), Ok(receipt));
    }
    let refused = vectors["refused"].as_array().unwrap();
    assert!(refused.len() > 50, "{}", refused.len());
    for case in refused {
        let mut receipt = accepted[0]["receipt"].clone();
        for step in case["changes"].as_array().unwrap() {
            change(&mut receipt, step["pointer"].as_str().unwrap(), step.get("value"));
        }
        let (member, said) = judged(&receipt, &key).expect_err(case["name"].as_str().unwrap());
        assert_eq!(member, case["member"].as_str().unwrap(), "{}: {said}", case["name"]);
    }
}

/// A log of `count` events of one chain, signed, with a proof of each event; the event of each number is changed by `change`.
struct Log {
    key: SignerKey,
    note: String,
    tiles: Tiles,
    proofs: Vec<AuditProof>,
}

impl Log {
    fn new(count: u64, change: impl Fn(u64, &mut Value)) -> Self {
        let rng = Rng::seeded(7);
        let key = SignerKey::draw("attache/log", &rng).unwrap();
        let machine = rng.uuid_v7(Timestamp::UNIX_EPOCH);
        let mut prev = Prev::Genesis;
        let mut proofs = Vec::new();
        for seq in 0..count {
            let id = rng.uuid_v7(Timestamp::UNIX_EPOCH);
            let mut event = json!({
                "event_id": id, "event_type": "skill.invoked", "consent_level": "metadata-only", "chain_epoch": 0, "seq": seq,
                "scope": { "machine_id": machine, "agent_id": "codex" }, "hash_chain": { "prev": prev }, "payload": { "skill": "Bash" },
            });
            change(seq, &mut event);
            let members = canonical::parse_object(event.to_string().as_bytes(), usize::MAX).unwrap();
            let bytes = canonical::canonical_bytes(&members);
            let self_hash = Digest::of(&bytes);
            let chain = ProofChain {
                machine_id: machine.into(),
                agent_id: "codex".into(),
                chain_epoch: 0,
                seq,
                prev,
                prev_event_id: proofs.last().map(|before: &AuditProof| before.event_id),
            };
            let leaf = Leaf {
                agent_id: "codex".into(),
                chain_epoch: 0,
                event_id: id.into(),
                machine_id: machine.into(),
                prev,
                receipt_id: rng.uuid_v7(Timestamp::UNIX_EPOCH).into(),
                received_at_ms: 1_769_860_800_000 + i64::try_from(seq).unwrap(),
                self_hash,
                seq,
                v: 1,
            };
            proofs.push(AuditProof {
                schema: ProofSchema::V1,
                status: ProofStatus::Included,
                event_id: id.into(),
                receipt_id: leaf.receipt_id,
                hash_alg: HashAlg::Sha256JcsV1,
                canonical_b64: BASE64_STANDARD.encode(&bytes),
                self_hash,
                chain,
                leaf_b64: BASE64_STANDARD.encode(leaf.bytes()),
                leaf_hash: leaf_hash(&leaf.bytes()),
                leaf_index: Some(seq),
                // Proofs of an earlier checkpoint: a receipt has another one.
                tree_size: Some(seq + 1),
                root_hash: None,
                inclusion_path: None,
                checkpoint: None,
                vkey: key.verifier().to_string(),
            });
            prev = Prev::Event(self_hash);
        }
        let mut tiles = Tiles::default();
        let hashes: Vec<Digest> = proofs.iter().map(|proof| proof.leaf_hash).collect();
        tiles.append(0, &hashes).unwrap();
        let root = crate::merkle::root(&mut tiles, count).unwrap();
        let note = key.sign(count, root);
        Self { key, note, tiles, proofs }
    }

    fn receipt(&mut self, places: &[usize], with_content: bool) -> Result<AuditReceipt, BuildFault> {
        let proofs: Vec<AuditProof> = places.iter().map(|place| self.proofs[*place].clone()).collect();
        let selection = Selection { with_content, ..Selection::default() };
        build(
            "https://attache.example.com",
            self.key.verifier(),
            &self.note,
            &proofs,
            |_, index, size| inclusion(&mut self.tiles, index, size),
            &selection,
        )
    }
}

#[test]
fn a_receipt_has_the_content_of_an_event_only_on_request() {
    let secrets = ["Fix the parser", "/home/ada/shop", "a@example.com", "[redacted:github-token]", &"x".repeat(65)];
    let mut log = Log::new(40, |seq, event| match seq {
        0..5 => event["payload"]["note"] = secrets[usize::try_from(seq).unwrap()].into(),
        5 => event["payload"]["a b"] = 1.into(),
        6 => event["scope"]["project_id"] = "the shop".into(),
        7 => event["payload"]["list"] = json!(["ok", { "deep": "not ok" }]),
        8 => event["consent_level"] = "full".into(),
        _ => {}
    });
    let all: Vec<usize> = (0..40).rev().collect();
    let receipt = log.receipt(&all, false).unwrap();
    assert_eq!((receipt.head.events, receipt.head.proven, receipt.head.content, receipt.head.gaps), (40, 31, 0, 0));
    let decoded: Vec<u8> = receipt
        .events
        .iter()
        .filter_map(|event| event.canonical_b64.as_ref())
        .flat_map(|canonical| BASE64_STANDARD.decode(canonical).unwrap())
        .collect();
    let public = [receipt.bytes().unwrap(), receipt.markdown().into_bytes(), decoded].concat();
    let public = String::from_utf8(public).unwrap();
    for secret in secrets.iter().chain(&["the shop", "a b", "not ok"]) {
        assert!(!public.contains(secret), "{secret}");
    }
    assert!(receipt.markdown().contains("no content") && receipt.markdown().contains("| Kinds proven | 31 of 40 |"));
    let with_content = log.receipt(&all, true).unwrap();
    assert_eq!((with_content.head.proven, with_content.head.content), (40, 9));
    assert!(with_content.markdown().contains("The receipt has the content of 9 events."));
}

#[test]
fn a_receipt_is_of_one_checkpoint_and_within_its_limits() {
    let mut log = Log::new(2_100, |seq, event| {
        event["payload"]["succeeded"] = (seq % 3 != 0).into();
        event["payload"]["words"] = json!(vec!["x".repeat(64); 30]);
    });
    let receipt = log.receipt(&[1, 3, 300, 2_099], false).unwrap();
    assert_eq!((receipt.head.failures, receipt.head.gaps), (2, 2_095));
    assert_eq!(verify(&receipt, log.key.verifier()).unwrap().checkpoint.size, 2_100);
    assert!(matches!(log.receipt(&[], false), Err(BuildFault::Empty)));
    let many: Vec<usize> = (0..2_001).collect();
    let said = log.receipt(&many, false).unwrap_err().to_string();
    assert_eq!(said, "the receipt would have 2001 events, at most 2000 are allowed");
    let said = log.receipt(&many[..2_000], false).unwrap_err().to_string();
    assert!(
        said.starts_with("the receipt would have ") && said.ends_with("bytes, at most 8388608 are allowed"),
        "{said}"
    );
    let spaces = vec![b' '; BYTES_MAX + 1];
    assert!(matches!(AuditReceipt::parse(&spaces), Err(ReceiptFault::TooLarge { what: "bytes", .. })));
}

#[test]
fn proofs_and_tiles_that_do_not_fit_make_no_receipt() {
    let mut log = Log::new(9, |_, _| {});
    log.proofs[2].canonical_b64 = log.proofs[3].canonical_b64.clone();
    assert!(matches!(log.receipt(&[1, 2], false), Err(BuildFault::Proof { .. })));
    log.proofs[1].leaf_index = None;
    assert!(matches!(log.receipt(&[1], false), Err(BuildFault::Proof { .. })));
    log.proofs[4].leaf_index = Some(5);
    assert!(matches!(log.receipt(&[4], false), Err(BuildFault::Invalid(ReceiptFault::Event { number: 1, .. }))));
    log.tiles.insert(TileId { level: 0, index: 0 }, &[0; 9 * 32]);
    assert!(matches!(log.receipt(&[3], false), Err(BuildFault::Invalid(_))));
    log.tiles = Tiles::default();
    assert!(matches!(log.receipt(&[3], false), Err(BuildFault::Tree(_))));
}

#[test]
fn a_text_contains_the_markdown_with_any_line_ends() {
    let receipt = Log::new(3, |_, _| {}).receipt(&[0, 1, 2], false).unwrap();
    let markdown = receipt.markdown();
    assert!(receipt.is_in(&markdown) && receipt.is_in(&format!("Hello\r\n\r\n{}more", markdown.replace('\n', "\r\n"))));
    assert!(!receipt.is_in(&markdown.replace("3 events", "4 events")) && !receipt.is_in(""));
}

/// A receipt and its key, for many small changes.
static SMALL: LazyLock<(AuditReceipt, VerifierKey)> = LazyLock::new(|| {
    let mut log = Log::new(11, |seq, event| event["payload"]["succeeded"] = (seq % 2 == 0).into());
    (log.receipt(&[2, 3, 5, 10], false).unwrap(), log.key.verifier().clone())
});

proptest! {
    #[test]
    fn any_changed_byte_of_a_receipt_is_refused_or_changes_nothing(place: proptest::sample::Index, byte in b' '..=b'~') {
        let (receipt, key) = &*SMALL;
        let mut bytes = receipt.bytes().unwrap();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(changed) = AuditReceipt::parse(&bytes) && changed != *receipt {
            prop_assert!(verify(&changed, key).is_err(), "{place} {}", char::from(byte));
        }
    }
}
