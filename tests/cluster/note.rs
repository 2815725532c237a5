//! Signed checkpoints (C2SP signed-note and tlog-checkpoint), read and verified independently of the server.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};

use crate::merkle::{Hash, sha256};

/// The key of a log, as it is published: `name+id+base64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub text: String,
    name: String,
    id: [u8; 4],
    verifying: VerifyingKey,
}

impl Key {
    pub fn parse(text: &str) -> Self {
        let mut parts = text.splitn(3, '+');
        let (name, id, key) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let bytes = BASE64_STANDARD.decode(key).unwrap();
        assert_eq!((bytes.len(), bytes[0]), (33, 1), "not a key of Ed25519: {text}");
        let digest = sha256(&[name.as_bytes(), b"\n", &bytes[..]].concat());
        let [a, b, c, d, ..] = digest;
        assert_eq!(id, format!("{a:02x}{b:02x}{c:02x}{d:02x}"), "the id is not that of the key");
        let verifying = VerifyingKey::from_bytes(&bytes[1..].try_into().unwrap()).unwrap();
        Self { text: text.to_owned(), name: name.to_owned(), id: [a, b, c, d], verifying }
    }

    /// Verifies the signature of a checkpoint; returns its size and root.
    pub fn open(&self, note: &str) -> (u64, Hash) {
        let (text, signatures) = note.rsplit_once("\n\n").unwrap_or_else(|| panic!("not a signed note: {note}"));
        let text = format!("{text}\n");
        let mine = |line: &str| {
            let (name, signature) = line.strip_prefix("— ")?.split_once(' ')?;
            let bytes = BASE64_STANDARD.decode(signature).unwrap();
            (name == self.name && bytes[..4] == self.id).then_some(bytes)
        };
        let signature =
            signatures.lines().find_map(mine).unwrap_or_else(|| panic!("not signed by {}: {note}", self.text));
        let signature = Signature::from_slice(&signature[4..]).unwrap();
        self.verifying.verify_strict(text.as_bytes(), &signature).unwrap_or_else(|error| panic!("{error}: {note}"));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(self.name.as_str()), "the origin is not the name of the key");
        let size = lines.next().unwrap().parse().unwrap();
        let root = BASE64_STANDARD.decode(lines.next().unwrap()).unwrap();
        (size, root.try_into().unwrap())
    }
}
