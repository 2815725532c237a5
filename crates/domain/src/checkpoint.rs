//! Signed checkpoints: size and root of a log in a form that others can verify (C2SP `tlog-checkpoint` inside a C2SP
//! `signed-note`, Ed25519 of RFC 8032).
//!
//! ```text
//! attache.example/log                             origin, the name of the log
//! 13                                              leaves
//! z5tMKkSnyqci1dVI7mT/kKEZsMMaysNETcWDAAo508o=    root
//!
//! — attache.example/log lfJlQcI8vUHID1xcr6r…      em dash, name of the key, base64 of key id and signature
//! ```

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::{Digest, Rng, Timestamp};

/// Signature type of Ed25519 in keys and key ids.
const ED25519: u8 = 1;
const NOTE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of signatures in a note.
const SIGNATURES_MAX: usize = 100;

/// Separates the name of a log from the start of the epoch in an origin.
const EPOCH: &str = "/epoch-";

/// Form of the time in the origin of an epoch, in UTC.
pub const EPOCH_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// The origin of the epoch that the log `base` starts at this time, such as `attache/log/epoch-20260101T000000Z`.
pub fn epoch_origin(base: &str, begins: Timestamp) -> String {
    format!("{base}{EPOCH}{}", begins.format(EPOCH_FORMAT))
}

/// The name of the log in an origin, without the epoch.
pub fn base_of(origin: &str) -> &str {
    origin.split_once(EPOCH).map_or(origin, |(base, _)| base)
}

/// The time in the origin of an epoch, in a form that sorts by time; empty for the first epoch, which sorts first.
pub fn epoch_of(origin: &str) -> &str {
    origin.split_once(EPOCH).map_or("", |(_, epoch)| epoch)
}

/// Signed statement of a log: its size and root at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Origin of the log.
    pub origin: String,
    /// Number of leaves.
    pub size: u64,
    /// Root hash of the tree of these leaves.
    pub root: Digest,
}

impl fmt::Display for Checkpoint {
    /// The text to sign, with a line feed at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}\n", self.origin, self.size, BASE64_STANDARD.encode(self.root.as_bytes()))
    }
}

/// Why a note was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteFault {
    /// Too large, with control characters, or without text, empty line or signature lines.
    #[error("not a signed note: {0}")]
    Form(&'static str),
    /// No signature has the name and id of the key.
    #[error("no signature by the key")]
    Unsigned,
    /// A signature with the name and id of the key does not verify.
    #[error("the signature does not fit the text")]
    Signature,
    /// The signed text is not a checkpoint.
    #[error("not a checkpoint: {0}")]
    Text(&'static str),
    /// The origin of the checkpoint is not the name of the key.
    #[error("the checkpoint is of another log")]
    Origin,
}

impl FromStr for Checkpoint {
    type Err = NoteFault;

    fn from_str(text: &str) -> Result<Self, NoteFault> {
        let body = text.strip_suffix('\n').ok_or(NoteFault::Text("the last line does not end"))?;
        let mut lines = body.split('\n');
        let mut line = |missing| lines.next().filter(|line| !line.is_empty()).ok_or(NoteFault::Text(missing));
        let (origin, size, root) = (line("no origin")?, line("no size")?, line("no root")?);
        let plain = size.bytes().all(|byte| byte.is_ascii_digit()) && (size == "0" || !size.starts_with('0'));
        let size = size.parse().ok().filter(|_| plain).ok_or(NoteFault::Text("the size is no decimal number"))?;
        let root = BASE64_STANDARD.decode(root).ok().and_then(|bytes| Digest::try_from(&bytes[..]).ok());
        let root = root.ok_or(NoteFault::Text("the root is no hash"))?;
        if lines.any(str::is_empty) {
            return Err(NoteFault::Text("an extension line is empty"));
        }
        Ok(Self { origin: origin.to_owned(), size, root })
    }
}

/// A text that is not a verifier key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected name+key id+key of Ed25519: {0}")]
pub struct NotAKey(&'static str);

/// The public key of a log. Its text, `name+key id+base64`, is the `vkey` that clients pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

impl VerifierKey {
    /// Name of the key, equal to the origin of the checkpoints that it signs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Verifies a note and parses its checkpoint. At least one signature must be by this key, every such signature must
    /// verify, and the origin must be the name of the key. Signatures by other keys are ignored, as the format
    /// requires.
    pub fn open(&self, note: &str) -> Result<Checkpoint, NoteFault> {
        let (text, signatures) = parse_note(note)?;
        let mut is_signed = false;
        for line in signatures {
            let (name, id, signature) = line?;
            if name != self.name || id != self.id {
                continue;
            }
            let signature = Signature::from_slice(&signature).map_err(|_| NoteFault::Signature)?;
            self.key.verify_strict(text.as_bytes(), &signature).map_err(|_| NoteFault::Signature)?;
            is_signed = true;
        }
        if !is_signed {
            return Err(NoteFault::Unsigned);
        }
        let checkpoint: Checkpoint = text.parse()?;
        if checkpoint.origin == self.name { Ok(checkpoint) } else { Err(NoteFault::Origin) }
    }

    fn new(name: &str, key: VerifyingKey) -> Self {
        Self { name: name.to_owned(), id: key_id(name, ED25519, &key), key }
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, &self.name, self.id, ED25519, &self.key)
    }
}

impl FromStr for VerifierKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let (name, key) = parse_key(text, ED25519)?;
        Ok(Self::new(&name, key))
    }
}

/// The id of a key of a signature type.
pub(crate) fn key_id(name: &str, kind: u8, key: &VerifyingKey) -> [u8; 4] {
    let digest = Digest::of_parts(&[name.as_bytes(), b"\n", &[kind], key.as_bytes()]);
    let [a, b, c, d, ..] = *digest.as_bytes();
    [a, b, c, d]
}

/// Writes `name+key id+base64` of a signature type, as [`parse_key`] reads it.
pub(crate) fn write_key(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    id: [u8; 4],
    kind: u8,
    key: &VerifyingKey,
) -> fmt::Result {
    let key = [&[kind], &key.as_bytes()[..]].concat();
    write!(f, "{name}+{:08x}+{}", u32::from_be_bytes(id), BASE64_STANDARD.encode(key))
}

/// Parses `name+key id+base64` of a signature type into name and key.
pub(crate) fn parse_key(text: &str, kind: u8) -> Result<(String, VerifyingKey), NotAKey> {
    let mut parts = text.splitn(3, '+');
    let mut part = || parts.next().ok_or(NotAKey("a part is missing"));
    let (name, id, key) = (part()?, part()?, part()?);
    if !is_valid_name(name) {
        return Err(NotAKey("the name is empty, or holds a space or a plus"));
    }
    let bytes = BASE64_STANDARD.decode(key).map_err(|_| NotAKey("the key is not base64"))?;
    let Some((actual_kind, key)) = bytes.split_first() else { return Err(NotAKey("the key is empty")) };
    if *actual_kind != kind {
        return Err(NotAKey("the key is of another type: logs have Ed25519 (1), witnesses its cosignatures (4)"));
    }
    let key = <[u8; 32]>::try_from(key).map_err(|_| NotAKey("the key has not 32 bytes"))?;
    let key = VerifyingKey::from_bytes(&key).map_err(|_| NotAKey("the key is not on the curve"))?;
    if format!("{:08x}", u32::from_be_bytes(key_id(name, kind, &key))) == id {
        Ok((name.to_owned(), key))
    } else {
        Err(NotAKey("the key id does not fit name and key"))
    }
}

/// The private key of a log.
#[derive(Clone)]
pub struct SignerKey {
    key: SigningKey,
    public: VerifierKey,
}

/// A text that cannot name a log: empty, or with white space, a control character or a plus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a log must not be empty and must not contain white space, control characters or a plus")]
pub struct InvalidLogName;

impl SignerKey {
    /// A new key for the log `name`.
    pub fn draw(name: &str, rng: &Rng) -> Result<Self, InvalidLogName> {
        Self::from_seed(name, &rng.bytes())
    }

    /// The key with this Ed25519 seed.
    pub fn from_seed(name: &str, seed: &[u8; 32]) -> Result<Self, InvalidLogName> {
        if !is_valid_name(name) {
            return Err(InvalidLogName);
        }
        let key = SigningKey::from_bytes(seed);
        let public = VerifierKey::new(name, key.verifying_key());
        Ok(Self { key, public })
    }

    /// The Ed25519 seed, for storage in the log's database.
    pub fn seed(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// The corresponding public key.
    pub fn verifier(&self) -> &VerifierKey {
        &self.public
    }

    /// Signs the checkpoint of a tree of `size` leaves with this `root`, and returns the note.
    pub fn sign(&self, size: u64, root: Digest) -> String {
        let text = Checkpoint { origin: self.public.name.clone(), size, root }.to_string();
        let signature = self.key.sign(text.as_bytes()).to_bytes();
        let signed = BASE64_STANDARD.encode([&self.public.id[..], &signature].concat());
        format!("{text}\n— {} {signed}\n", self.public.name)
    }
}

impl fmt::Debug for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignerKey({})", self.public)
    }
}

/// Whether a text can name a log. White space and plus are delimiters in keys and signature lines.
pub fn is_valid_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '+')
}

pub(crate) type SignatureLine<'n> = (&'n str, [u8; 4], Vec<u8>);

/// Splits a note into the signed text and its signatures.
pub(crate) fn parse_note(
    note: &str,
) -> Result<(&str, impl Iterator<Item = Result<SignatureLine<'_>, NoteFault>>), NoteFault> {
    if note.len() > NOTE_BYTES_MAX {
        return Err(NoteFault::Form("too long"));
    }
    if note.contains(|c: char| c < ' ' && c != '\n') {
        return Err(NoteFault::Form("a control character"));
    }
    let end = note.rfind("\n\n").ok_or(NoteFault::Form("no empty line"))?;
    let (text, signatures) = (&note[..=end], &note[end + 2..]);
    let signatures = signatures.strip_suffix('\n').ok_or(NoteFault::Form("the last line does not end"))?;
    if signatures.split('\n').count() > SIGNATURES_MAX {
        return Err(NoteFault::Form("too many signatures"));
    }
    Ok((text, signatures.split('\n').map(parse_signature)))
}

pub(crate) fn parse_signature(line: &str) -> Result<SignatureLine<'_>, NoteFault> {
    let fault = NoteFault::Form("a signature line is an em dash, a name and base64");
    let (name, signed) = line.strip_prefix("— ").and_then(|rest| rest.split_once(' ')).ok_or(fault)?;
    let bytes = BASE64_STANDARD.decode(signed).map_err(|_| fault)?;
    let (id, signature) = bytes.split_first_chunk().ok_or(fault)?;
    if is_valid_name(name) && !signature.is_empty() { Ok((name, *id, signature.to_vec())) } else { Err(fault) }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn vectors() -> Value {
        serde_json::from_slice(include_bytes!("../../../tests/vectors/checkpoint.json")).unwrap()
    }

    fn signer(vectors: &Value) -> SignerKey {
        let hex: Digest = vectors["seed_hex"].as_str().unwrap().parse().unwrap();
        SignerKey::from_seed(vectors["name"].as_str().unwrap(), hex.as_bytes()).unwrap()
    }

    #[test]
    fn every_vector_opens_or_is_refused_and_our_signature_is_theirs() {
        let vectors = vectors();
        let vkey: VerifierKey = vectors["vkey"].as_str().unwrap().parse().unwrap();
        assert_eq!(vkey.to_string(), vectors["vkey"].as_str().unwrap());
        let signer = signer(&vectors);
        assert_eq!(signer.verifier(), &vkey);
        let expected = Checkpoint {
            origin: vectors["name"].as_str().unwrap().to_owned(),
            size: vectors["tree"]["size"].as_u64().unwrap(),
            root: vectors["tree"]["root_hex"].as_str().unwrap().parse().unwrap(),
        };
        assert_eq!(expected.to_string(), vectors["text"].as_str().unwrap());
        assert_eq!(signer.sign(expected.size, expected.root), vectors["accepted"][0]["note"].as_str().unwrap());
        for case in vectors["accepted"].as_array().unwrap() {
            assert_eq!(vkey.open(case["note"].as_str().unwrap()).as_ref(), Ok(&expected), "{}", case["name"]);
        }
        let refused = vectors["refused"].as_array().unwrap();
        assert_eq!(refused.len(), 7);
        for case in refused {
            assert!(vkey.open(case["note"].as_str().unwrap()).is_err(), "{}", case["name"]);
        }
    }

    #[test]
    fn any_changed_character_closes_a_note() {
        let signer = signer(&vectors());
        let note = signer.sign(7, Digest::of(b"root"));
        let characters: Vec<char> = note.chars().collect();
        for place in 0..characters.len() {
            let mut changed = characters.clone();
            changed[place] = if changed[place] == 'A' { 'B' } else { 'A' };
            let changed: String = changed.into_iter().collect();
            assert!(signer.verifier().open(&changed).is_err(), "{place}: {changed}");
        }
    }

    #[test]
    fn a_text_that_is_signed_but_no_checkpoint_of_this_log_is_refused() {
        let signer = signer(&vectors());
        let name = &signer.public.name;
        let root = BASE64_STANDARD.encode([0; 32]);
        let open = |text: &str| {
            let signature = signer.key.sign(text.as_bytes()).to_bytes();
            let line = BASE64_STANDARD.encode([&signer.public.id[..], &signature].concat());
            signer.verifier().open(&format!("{text}\n— {name} {line}\n"))
        };
        assert!(open(&format!("{name}\n0\n{root}\n")).is_ok());
        assert!(open(&format!("{name}\n18446744073709551615\n{root}\nan extension\n")).is_ok());
        assert_eq!(open(&format!("other\n0\n{root}\n")), Err(NoteFault::Origin));
        for text in [
            "\n".to_owned(),
            format!("{name}\n"),
            format!("{name}\n0\n"),
            format!("{name}\n00\n{root}\n"),
            format!("{name}\n+1\n{root}\n"),
            format!("{name}\n-1\n{root}\n"),
            format!("{name}\n18446744073709551616\n{root}\n"),
            format!("{name}\n0\n{}\n", &root[1..]),
            format!("{name}\n0\n{root}\n\nx\n"),
        ] {
            assert!(matches!(open(&text), Err(NoteFault::Text(_))), "{text:?}: {:?}", open(&text));
        }
    }

    #[test]
    fn an_epoch_has_an_origin_of_its_own_that_names_the_log() {
        let origin = epoch_origin("attache/log", Timestamp::UNIX_EPOCH);
        assert_eq!(origin, "attache/log/epoch-19700101T000000Z");
        assert!(is_valid_name(&origin));
        assert_eq!((base_of(&origin), base_of("attache/log")), ("attache/log", "attache/log"));
        assert_ne!(base_of("attache/log2"), "attache/log");
        assert_eq!((epoch_of(&origin), epoch_of("attache/log")), ("19700101T000000Z", ""));
    }

    #[test]
    fn keys_that_do_not_fit_are_refused() {
        let vkey = vectors()["vkey"].as_str().unwrap().to_owned();
        for wrong in [
            String::new(),
            vkey.replacen("log", "lag", 1),
            vkey.replacen("95f26541", "95F26541", 1),
            vkey.replacen("95f26541", "95f26542", 1),
            vkey.replacen("+Ad", "+Bd", 1),
            vkey[..vkey.len() - 4].to_owned(),
            format!("+{vkey}"),
        ] {
            assert!(wrong.parse::<VerifierKey>().is_err(), "{wrong}");
        }
        for name in ["", "a b", "a+b", "a\nb", "a\u{a0}b"] {
            assert_eq!(SignerKey::draw(name, &Rng::seeded(1)).unwrap_err(), InvalidLogName, "{name:?}");
        }
    }
}
