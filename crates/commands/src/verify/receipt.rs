//! `attache verify receipt`: verifies an audit receipt offline, against a given key or the one pinned in the profile.

use domain::checkpoint::VerifierKey;
use proofs::audit_receipt::{AuditReceipt, ReceiptFault, VerifiedReceipt, verify as verify_receipt};
use serde_json::json;

use super::arguments::ReceiptArguments;
use super::fetch::named;
use super::read;
use crate::failure::{Done, Failure};
use crate::output;
use crate::profile_folder::ProfileFolder;
use crate::witness::compare_offline;

/// Verifies the receipt and prints its head, or the first difference.
pub fn verify(arguments: &ReceiptArguments) -> Done {
    let text = read(&arguments.file)?;
    let folder = ProfileFolder::of(&arguments.profile)?;
    let key = match &arguments.key {
        Some(key) => key.clone(),
        None => folder.profile()?.pinned(named(&text).as_deref()).cloned().ok_or_else(no_key)?,
    };
    let trusted: VerifierKey = key.parse().map_err(|error| Failure::refused(format!("invalid --key: {error}")))?;
    let receipt = AuditReceipt::parse(&text).map_err(|fault| refused(arguments.json, &fault))?;
    let verified = verify_receipt(&receipt, &trusted).map_err(|fault| refused(arguments.json, &fault))?;
    if arguments.key.is_none() {
        compare_offline(&folder, &trusted, &verified.checkpoint)?;
    }
    if let Some(path) = &arguments.markdown {
        let text = read(path)?;
        if !receipt.is_in(&String::from_utf8_lossy(&text)) {
            return Err(Failure::refused(format!(
                "the receipt holds, but {} does not contain its Markdown\n  \
                 replace the block in the text with the one that `attache receipt` printed with this file",
                path.display()
            )));
        }
    }
    print(arguments, &receipt, &verified);
    Ok(())
}

fn no_key() -> Failure {
    Failure::refused("no trusted log key in this profile: pass one with --key; the page /verify of the server shows it")
}

fn refused(json: bool, fault: &ReceiptFault) -> Failure {
    if json {
        output::print_json(&json!({ "valid": false, "member": fault.member(), "fault": fault.to_string() }));
    }
    Failure::refused(format!("the receipt does not hold: {fault}\n  {}", fault.advice()))
}

fn print(arguments: &ReceiptArguments, receipt: &AuditReceipt, verified: &VerifiedReceipt) {
    let is_given = arguments.key.is_some();
    let (head, tree) = (&receipt.head, &verified.checkpoint);
    let good = json!({
        "valid": true,
        "head": head,
        "markdown_digest": receipt.markdown_digest,
        "origin": tree.origin,
        "tree_size": tree.size,
        "root_hash": tree.root,
        "event_ids": verified.events,
        "key": if is_given { "given" } else { "pinned" },
    });
    output::show(arguments.json, &good, || {
        let stated = match head.events - head.proven {
            0 => "all proven".to_owned(),
            count => format!("{} proven, {count} only stated: the receipt leaves out their content", head.proven),
        };
        let content = match head.content {
            0 => "none".to_owned(),
            count => format!("of {count} events"),
        };
        let gaps = match head.gaps {
            0 => "none: no event is left out between the first and the last of each chain".to_owned(),
            count => format!("{count}: events of the same chains are not in this receipt"),
        };
        format!(
            "the receipt holds\n  events   {}, {} failed\n  types    {stated}\n  gaps     {gaps}\n  content  {content}\n  digest   {}\n  \
             tree     {} of {} leaves, root {}\n  key      {}",
            head.events,
            head.failures,
            head.events_digest,
            tree.origin,
            tree.size,
            tree.root,
            if is_given { "given" } else { "pinned in the profile" },
        )
    });
}
