//! The tools that work on the memory, with the API key of the profile.

use std::fmt::Write as _;
use std::time::Duration;

use client::Client;
use domain::excerpt::excerpt;
use domain::fit;
use domain::words;
use serde_json::json;
use wire::knowledge::{BatchMessage, BatchRequest, Note, SearchRequest};
use wire::mcp::{AddMemory, ForgetMemory, ListSpaces, SEARCH_CHUNKS, SearchMemory};

use super::{ToolAnswer, failed};
use crate::connection::page_of;
use crate::failure::Failure;
use crate::space;

/// Maximum time that a call waits for its additions to become searchable. The batch then continues without it.
const ADDED_WITHIN: Duration = Duration::from_secs(30);

/// Maximum number of words of a query that decide which part of a chunk is shown.
const WORDS_MAX: usize = 64;

/// `search_memory`
pub async fn search(client: &Client, arguments: SearchMemory) -> Result<ToolAnswer, Failure> {
    let request = SearchRequest {
        query: Some(arguments.query.clone()),
        limit: arguments.limit.map(f64::from),
        spaces: space::named(client, &arguments.spaces).await?,
        ..SearchRequest::default()
    };
    let mut response = client.search(&request).await.map_err(failed)?;
    response.results.truncate(fit::given(response.results.iter().map(|result| result.similarity)));
    let terms = words::asked(&arguments.query, WORDS_MAX);
    let mut text = String::new();
    for result in &mut response.results {
        result.url = page_of(client, &result.url);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "## {}\n{} · id {} · similarity {:.2}",
            result.title, result.url, result.id, result.similarity
        );
        for chunk in result.chunks.iter().take(SEARCH_CHUNKS) {
            let parts = excerpt(&terms, &chunk.content);
            let _ = writeln!(text, "{}", parts.into_iter().map(|part| part.text).collect::<String>());
        }
        text.push('\n');
    }
    if response.results.is_empty() {
        text.push_str("No memory matches.");
    }
    let results: Vec<_> = response
        .results
        .iter()
        .map(|result| {
            let chunks: Vec<&str> =
                result.chunks.iter().take(SEARCH_CHUNKS).map(|chunk| chunk.content.as_str()).collect();
            json!({
                "id": result.id, "title": result.title, "url": result.url, "similarity": result.similarity, "chunks": chunks
            })
        })
        .collect();
    Ok(ToolAnswer { text, value: json!({ "results": results }) })
}

/// `add_memory`
pub async fn add(client: &Client, arguments: AddMemory) -> Result<ToolAnswer, Failure> {
    let AddMemory { content, url, title, spaces } = arguments;
    let spaces = space::named(client, &spaces).await?;
    let request = match (content, url) {
        (Some(content), None) => {
            let note = Note { content, title, kind: None };
            BatchRequest { urls: None, contents: Some(vec![note]), spaces }
        }
        (None, Some(url)) => BatchRequest { urls: Some(vec![url]), contents: None, spaces },
        _ => return Err(Failure::refused("invalid arguments: give either `content` or `url`")),
    };
    let mut stream = client.batch_add(&request).await.map_err(failed)?;
    let batch = stream.batch();
    let added = async {
        while let Some(message) = stream.next().await {
            match message.map_err(failed)? {
                BatchMessage::Success { id, url, .. } => {
                    let url = page_of(client, &url);
                    let text = format!("Added as memory {id} ({url}).");
                    return Ok(ToolAnswer { text, value: json!({ "id": id, "url": url, "state": "added" }) });
                }
                BatchMessage::Skipped { reason, .. } => {
                    let text = format!("Not added: {reason}.");
                    return Ok(ToolAnswer { text, value: json!({ "state": "skipped", "reason": reason }) });
                }
                BatchMessage::Error { error, message, .. } => {
                    return Err(Failure::refused(format!("not added: {message} ({error})")));
                }
                BatchMessage::Progress { .. } | BatchMessage::Complete | BatchMessage::Unknown => {}
            }
        }
        Err(Failure::refused(format!("the outcome of batch {batch} is unknown")))
    };
    tokio::time::timeout(ADDED_WITHIN, added).await.unwrap_or_else(|_| {
        let text = format!("It is still being added, in batch {batch}.");
        Ok(ToolAnswer { text, value: json!({ "batch": batch, "state": "running" }) })
    })
}

/// `list_spaces`
pub async fn spaces(client: &Client, _arguments: ListSpaces) -> Result<ToolAnswer, Failure> {
    let spaces = client.spaces().await.map_err(failed)?;
    let line = |space: &wire::knowledge::Space| format!("- {} (id {})", space.name, space.id);
    let text = if spaces.is_empty() {
        "There is no space.".to_owned()
    } else {
        spaces.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    Ok(ToolAnswer { text, value: json!({ "spaces": spaces }) })
}

/// `forget_memory`
pub async fn forget(client: &Client, arguments: ForgetMemory) -> Result<ToolAnswer, Failure> {
    client.memory_delete(arguments.id).await.map_err(failed)?;
    Ok(ToolAnswer { text: format!("Memory {} is deleted.", arguments.id), value: json!({ "deleted": arguments.id }) })
}
