//! Checkpoints and audit proofs: only signed data verifies; every modification is rejected.

use domain::checkpoint::VerifierKey;
use proofs::proof::{AuditProof, verify};

const KEY: &str = include_str!("../corpus/checkpoint/key.txt");

/// The trees that the key of the vectors has signed: size and root.
const SIGNED: [(u64, &str); 2] = [
    (13, "cf9b4c2a44a7caa722d5d548ee64ff90a119b0c31acac3444dc583000a39d3ca"),
    (12, "4c5eb736c8d3e00eb4eca8913c67e79675ef9468588e917b145a83cb37522de1"),
];

const WORDS: &[&str] = &[
    "\n",
    "\n\n",
    "\u{2014} ",
    "attache.example/log",
    "+",
    "=",
    "/",
    "0",
    "13",
    "-1",
    "18446744073709551616",
    "null",
    "\"\"",
    "\"pending\"",
    "\"included\"",
    "\"tree_size\":",
    "\"leaf_index\":",
    "\"inclusion_path\":[]",
    ",",
    "\"prev_event_id\":null",
];

fn key() -> VerifierKey {
    KEY.trim_end().parse().unwrap()
}

#[test]
fn checkpoint_soak() {
    let key = key();
    fuzz::run("checkpoint", WORDS, |text| {
        let Ok(text) = std::str::from_utf8(text) else { return };
        if let Ok(other) = text.parse::<VerifierKey>() {
            assert_eq!(other.to_string().parse::<VerifierKey>().unwrap().to_string(), other.to_string());
        }
        let Ok(opened) = key.open(text) else { return };
        assert!(SIGNED.contains(&(opened.size, &*opened.root.to_string())), "never signed: {opened:?}");
        assert_eq!(opened.origin, key.name());
    });
}

#[test]
fn proof_soak() {
    let key = key();
    let genuine =
        [&include_bytes!("../corpus/proof/genesis.json")[..], include_bytes!("../corpus/proof/included.json")];
    let genuine = genuine.map(|text| verify(&AuditProof::parse(text).unwrap(), &key).unwrap());
    fuzz::run("proof", WORDS, |text| {
        let Ok(proof) = AuditProof::parse(text) else { return };
        let Ok(verified) = verify(&proof, &key) else { return };
        assert!(genuine.contains(&verified), "never recorded: {verified:?}");
    });
}
