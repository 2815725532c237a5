//! The steps of an audit proof as a part of a page: the values for browsers without scripts, and elements for the results of the script.

use proofs::proof::{AuditProof, ProofStatus};

/// The part of a page.
pub struct ProofView {
    /// Path from which the script loads the proof; empty if a person chooses a file.
    pub address: String,
    /// Keys that are trusted, separated by spaces.
    pub keys: String,
    /// The values of the proof, if the page has one.
    pub values: Option<ProofValues>,
    /// Whether the page shows the content of the event.
    pub has_content: bool,
}

/// The members of a proof, as text.
pub struct ProofValues {
    pub self_hash: String,
    pub leaf_hash: String,
    pub leaf_index: String,
    pub tree_size: String,
    pub path: Vec<String>,
    pub root_hash: String,
    pub checkpoint: String,
    pub vkey: String,
    pub is_pending: bool,
}

impl ProofValues {
    /// The members of a proof; members about the tree are dashes while the proof is pending.
    pub fn of(proof: &AuditProof) -> Self {
        let number = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
        Self {
            self_hash: proof.self_hash.to_string(),
            leaf_hash: proof.leaf_hash.to_string(),
            leaf_index: number(proof.leaf_index),
            tree_size: number(proof.tree_size),
            path: proof.inclusion_path.iter().flatten().map(ToString::to_string).collect(),
            root_hash: proof.root_hash.map_or_else(|| "–".to_owned(), |root| root.to_string()),
            checkpoint: proof.checkpoint.clone().unwrap_or_else(|| "–".to_owned()),
            vkey: proof.vkey.clone(),
            is_pending: proof.status == ProofStatus::Pending,
        }
    }
}

/// The command that checks the proof in `file` without this service.
pub fn command(file: &str, vkey: &str) -> String {
    format!("attache verify {file} --vkey {}", shell_quoted(vkey))
}

/// A word of a command line, for the shells of POSIX.
fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_word_of_the_command() {
        assert_eq!(command("a.json", "attache/log+1+A="), "attache verify a.json --vkey 'attache/log+1+A='");
        assert_eq!(command("a.json", "it's"), r"attache verify a.json --vkey 'it'\''s'");
    }
}
