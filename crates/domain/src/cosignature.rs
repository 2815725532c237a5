//! Cosignatures of checkpoints by witnesses (C2SP `tlog-cosignature` v1, Ed25519).
//!
//! A witness signs `cosignature/v1`, the time in seconds since 1970, and the text of the checkpoint. Its line in the note contains the key
//! id, the time as 8 bytes, and the signature.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signature, VerifyingKey};

use crate::checkpoint::{NotAKey, NoteFault, key_id, parse_key, parse_note, parse_signature, write_key};

/// Signature type of timestamped Ed25519 cosignatures in keys and key ids.
const COSIGNATURE: u8 = 4;

/// The public key of a witness. Its text is `name+key id+base64`, like a log's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessKey {
    name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

impl WitnessKey {
    /// Name of the witness.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lines by this key among `lines`, each with its line feed, verified over the text of `note`. Lines of other keys are ignored, as
    /// the format requires; at least one line must be by this key.
    pub fn cosignatures(&self, note: &str, lines: &str) -> Result<String, NoteFault> {
        let (text, _) = parse_note(note)?;
        self.lines_over(text, lines)
    }

    /// Like [`cosignatures`](Self::cosignatures), for the text of a checkpoint.
    pub fn lines_over(&self, text: &str, lines: &str) -> Result<String, NoteFault> {
        let mut cosignatures = String::new();
        for line in lines.lines() {
            let (name, id, signature) = parse_signature(line)?;
            if name != self.name || id != self.id {
                continue;
            }
            let (time, signature) = signature.split_first_chunk().ok_or(NoteFault::Signature)?;
            let signature = Signature::from_slice(signature).map_err(|_| NoteFault::Signature)?;
            let message = message(u64::from_be_bytes(*time), text);
            self.key.verify_strict(message.as_bytes(), &signature).map_err(|_| NoteFault::Signature)?;
            cosignatures.push_str(line);
            cosignatures.push('\n');
        }
        if cosignatures.is_empty() { Err(NoteFault::Unsigned) } else { Ok(cosignatures) }
    }
}

/// The text that a witness signs at a time, in seconds since 1970.
fn message(time: u64, checkpoint: &str) -> String {
    format!("cosignature/v1\ntime {time}\n{checkpoint}")
}

impl fmt::Display for WitnessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_key(f, &self.name, self.id, COSIGNATURE, &self.key)
    }
}

impl FromStr for WitnessKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let (name, key) = parse_key(text, COSIGNATURE)?;
        Ok(Self { id: key_id(&name, COSIGNATURE, &key), name, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    /// The example of the specification, with its key ids.
    const NOTE: &str = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        — example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";

    fn witness() -> (ed25519_dalek::SigningKey, WitnessKey) {
        let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
        let public = key.verifying_key();
        let name = "witness.example/w1".to_owned();
        let witness_key = WitnessKey { id: key_id(&name, COSIGNATURE, &public), name, key: public };
        assert_eq!(witness_key.to_string().parse::<WitnessKey>().unwrap(), witness_key);
        (key, witness_key)
    }

    fn line(key: &ed25519_dalek::SigningKey, witness: &WitnessKey, time: u64, signed: &str) -> String {
        use ed25519_dalek::Signer as _;
        let signature = key.sign(signed.as_bytes()).to_bytes();
        let bytes = [&witness.id[..], &time.to_be_bytes(), &signature].concat();
        format!("— {} {}\n", witness.name, BASE64_STANDARD.encode(bytes))
    }

    #[test]
    fn a_cosignature_holds_for_its_text_time_and_key_alone() {
        let (key, witness) = witness();
        let text = &NOTE[..=NOTE.find("\n\n").unwrap()];
        let good = line(&key, &witness, 1_679_315_147, &format!("cosignature/v1\ntime 1679315147\n{text}"));
        assert_eq!(witness.cosignatures(NOTE, &good).as_ref(), Ok(&good));
        let foreign = "— other.example AAAAAAAA\n";
        assert_eq!(witness.cosignatures(NOTE, &format!("{foreign}{good}")), Ok(good.clone()));
        assert_eq!(witness.cosignatures(NOTE, foreign), Err(NoteFault::Unsigned));
        assert_eq!(witness.cosignatures(NOTE, ""), Err(NoteFault::Unsigned));
        for signed in [
            text.to_owned(),
            format!("cosignature/v1\ntime 1679315148\n{text}"),
            format!("cosignature/v1\ntime 1679315147\n{}", text.replace("20852163", "20852164")),
        ] {
            let wrong = line(&key, &witness, 1_679_315_147, &signed);
            assert_eq!(witness.cosignatures(NOTE, &wrong), Err(NoteFault::Signature), "{signed}");
        }
        let short = format!("— {} {}\n", witness.name, BASE64_STANDARD.encode([&witness.id[..], &[1, 2]].concat()));
        assert_eq!(witness.cosignatures(NOTE, &short), Err(NoteFault::Signature));
        assert!(witness.cosignatures(NOTE, "no line\n").is_err());
    }

    #[test]
    fn the_key_of_a_log_is_not_that_of_a_witness() {
        let log = crate::checkpoint::SignerKey::from_seed("attache.test/log", &[7; 32]).unwrap();
        assert!(log.verifier().to_string().parse::<WitnessKey>().is_err());
        let (_, witness) = witness();
        assert!(witness.to_string().parse::<crate::checkpoint::VerifierKey>().is_err());
    }
}
