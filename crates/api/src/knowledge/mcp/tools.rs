//! The tools and resources of one request, with the rights of its key.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use app::config::Urls;
use app::services::knowledge::search::SearchParams;
use app::services::knowledge::{Batches, KnowledgeAccess, KnowledgeSearch, Memories, Refusal, Spaces};
use domain::api_key::ApiKeyScope;
use domain::batch::Item;
use domain::excerpt::excerpt;
use domain::fit;
use domain::ids::MemoryId;
use domain::memory::MemoryType;
use domain::words;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::knowledge::BatchMessage;
use wire::mcp::{AddMemory, ForgetMemory, ListSpaces, McpTool, SEARCH_CHUNKS, SearchMemory};

use crate::body;
use crate::error::ApiError;
use crate::knowledge::error::KnowledgeError;
use crate::knowledge::search::url_of;
use crate::knowledge::spaces::described;
use crate::knowledge::stream::EventStreams;

/// Maximum time that a call waits for its additions to become searchable. The batch then continues without it.
const ADDED_WITHIN: Duration = Duration::from_secs(30);

/// Maximum number of words of a query that decide which part of a chunk is shown.
const WORDS_MAX: usize = 64;

/// The resource with the list of spaces.
const SPACES_URI: &str = "attache://spaces";

/// The URI prefix of a memory as a resource.
const MEMORY_URI: &str = "attache://memories/";

/// Text and JSON of a result, or the reason of a refusal.
type ToolOutcome = Result<(String, Value), String>;

/// The use cases that the tools call, and the rights of the key.
#[derive(Debug)]
pub struct MemoryTools {
    pub search: KnowledgeSearch,
    pub memories: Memories,
    pub spaces: Spaces,
    pub batches: Batches,
    pub streams: EventStreams,
    pub urls: Arc<Urls>,
    pub access: KnowledgeAccess,
    pub scopes: Vec<ApiKeyScope>,
}

impl MemoryTools {
    /// The tools that the scopes of the key allow.
    pub fn listed(&self) -> impl Iterator<Item = McpTool> {
        McpTool::OF_MEMORY.into_iter().filter(|tool| self.allows(*tool))
    }

    fn allows(&self, tool: McpTool) -> bool {
        let scope = if tool.is_read_only() { ApiKeyScope::Search } else { ApiKeyScope::Write };
        self.scopes.contains(&scope)
    }

    /// The page of a note, which a person can open; the URL of a note in the API requires a key.
    fn page_of(&self, id: MemoryId) -> String {
        format!("{}/knowledge/memories/{id}", self.urls.base)
    }

    /// Calls a tool with these arguments, a JSON object.
    pub async fn call(&self, tool: McpTool, arguments: &str) -> ToolOutcome {
        match tool {
            McpTool::SearchMemory => self.found(parsed(arguments)?).await,
            McpTool::AddMemory => self.added(parsed(arguments)?).await,
            McpTool::ListSpaces => {
                let ListSpaces {} = parsed(arguments)?;
                self.listed_spaces().await
            }
            McpTool::ForgetMemory => self.forgotten(parsed(arguments)?).await,
            McpTool::RecordEvent | McpTool::CheckConsent | McpTool::MyActivity => {
                Err("this tool needs the credentials of a computer: run `attache mcp` there".to_owned())
            }
        }
    }

    async fn found(&self, arguments: SearchMemory) -> ToolOutcome {
        let params = SearchParams {
            query: arguments.query.clone(),
            limit: arguments.limit.map(f64::from),
            threshold: None,
            spaces: self.named(&arguments.spaces).await?,
        };
        let mut hits = self.search.find(&self.access, params).await.map_err(reason)?;
        hits.truncate(fit::given(hits.iter().map(|hit| hit.similarity)));
        let terms = words::asked(&arguments.query, WORDS_MAX);
        let (mut text, mut results) = (String::new(), Vec::new());
        for hit in hits {
            let url = hit.memory.url.unwrap_or_else(|| self.page_of(hit.memory.id));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "## {}\n{url} · id {} · similarity {:.2}",
                hit.memory.title, hit.memory.id, hit.similarity
            );
            let chunks: Vec<&str> = hit.chunks.iter().take(SEARCH_CHUNKS).map(|chunk| chunk.content.as_str()).collect();
            for chunk in &chunks {
                let parts = excerpt(&terms, chunk);
                let _ = writeln!(text, "{}", parts.into_iter().map(|part| part.text).collect::<String>());
            }
            text.push('\n');
            results.push(json!({
                "id": hit.memory.id, "title": hit.memory.title, "url": url, "similarity": hit.similarity, "chunks": chunks
            }));
        }
        if results.is_empty() {
            text.push_str("No memory matches.");
        }
        Ok((text, json!({ "results": results })))
    }

    async fn added(&self, arguments: AddMemory) -> ToolOutcome {
        let AddMemory { content, url, title, spaces } = arguments;
        let spaces = self.named(&spaces).await?;
        let item = match (content, url) {
            (Some(content), None) => {
                let title = title.map(|title| title.trim().to_owned()).filter(|title| !title.is_empty());
                Item::Note { content, title, kind: MemoryType::Note }
            }
            (None, Some(url)) => Item::Url(url),
            _ => return Err("invalid arguments: give either `content` or `url`".to_owned()),
        };
        // The account's limit of streams includes this call.
        let _place = self.streams.place(&self.access.account).map_err(reason)?;
        let mut reader = self.batches.add(&self.access, vec![item], &spaces, None).await.map_err(reason)?;
        let batch = reader.batch();
        let outcome = async {
            while let Some((_, data)) = reader.next().await.map_err(|error| {
                tracing::warn!(batch.id = %batch, error = domain::reasons(&error), "a call of add_memory was cut off");
                format!("the outcome of batch {batch} is unknown: search for it later")
            })? {
                match serde_json::from_str(&data) {
                    Ok(BatchMessage::Success { id, url, .. }) => {
                        let url = if url == url_of(id, None, &self.urls) { self.page_of(id) } else { url };
                        let text = format!("Added as memory {id} ({url}).");
                        return Ok((text, json!({ "id": id, "url": url, "state": "added" })));
                    }
                    Ok(BatchMessage::Skipped { reason, .. }) => {
                        return Ok((format!("Not added: {reason}."), json!({ "state": "skipped", "reason": reason })));
                    }
                    Ok(BatchMessage::Error { error, message, .. }) => {
                        return Err(format!("not added: {message} ({error})"));
                    }
                    _ => {}
                }
            }
            Err(format!("the outcome of batch {batch} is unknown: search for it later"))
        };
        tokio::time::timeout(ADDED_WITHIN, outcome).await.unwrap_or_else(|_| {
            let text = format!("It is still being added, in batch {batch}.");
            Ok((text, json!({ "batch": batch, "state": "running" })))
        })
    }

    async fn listed_spaces(&self) -> ToolOutcome {
        let spaces = self.spaces_of_key().await?;
        let text = match spaces.as_slice() {
            [] => "There is no space.".to_owned(),
            spaces => {
                spaces.iter().map(|space| format!("- {} (id {})", space.name, space.id)).collect::<Vec<_>>().join("\n")
            }
        };
        Ok((text, json!({ "spaces": spaces })))
    }

    async fn forgotten(&self, arguments: ForgetMemory) -> ToolOutcome {
        self.memories.delete(&self.access, arguments.id).await.map_err(reason)?;
        Ok((format!("Memory {} is deleted.", arguments.id), json!({ "deleted": arguments.id })))
    }

    async fn spaces_of_key(&self) -> Result<Vec<wire::knowledge::Space>, String> {
        let spaces = self.spaces.list(&self.access.account).await.map_err(|error| reason(Refusal::from(error)))?;
        Ok(spaces.iter().filter(|space| self.access.covers(space.id)).map(described).collect())
    }

    /// The ids of spaces that are given by id or name.
    async fn named(&self, names: &[String]) -> Result<Vec<Uuid>, String> {
        let mut listed = None;
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            if let Ok(id) = name.parse() {
                ids.push(id);
                continue;
            }
            let spaces = match &mut listed {
                Some(spaces) => spaces,
                none => none.insert(self.spaces_of_key().await?),
            };
            let mut same = spaces.iter().filter(|space| space.name == name.trim());
            match (same.next(), same.next()) {
                (Some(space), None) => ids.push(space.id.as_uuid()),
                (None, _) => return Err(format!("no space {name:?}: list_spaces returns the existing ones")),
                (Some(_), Some(_)) => return Err(format!("several spaces have the name {name:?}: use an id")),
            }
        }
        Ok(ids)
    }

    /// The resources, for `resources/list`.
    pub fn resources(&self) -> Value {
        if !self.allows(McpTool::ListSpaces) {
            return json!([]);
        }
        json!([{
            "uri": SPACES_URI,
            "name": "spaces",
            "title": "Spaces",
            "description": "The named sets of memories that this API key can read.",
            "mimeType": "application/json",
        }])
    }

    /// The templates of resources, for `resources/templates/list`.
    pub fn templates(&self) -> Value {
        if !self.allows(McpTool::SearchMemory) {
            return json!([]);
        }
        json!([{
            "uriTemplate": format!("{MEMORY_URI}{{id}}"),
            "name": "memory",
            "title": "Memory",
            "description": "The whole text of a memory; ids are those of search results.",
            "mimeType": "text/markdown",
        }])
    }

    /// A resource; `None` if there is none with this URI, or the key may not read it. The error is the reason of a failure.
    pub async fn read(&self, uri: &str) -> Result<Option<Value>, String> {
        if !self.scopes.contains(&ApiKeyScope::Search) {
            return Ok(None);
        }
        let (text, media_type) = if uri == SPACES_URI {
            let spaces = self.spaces_of_key().await?;
            (json!({ "spaces": spaces }).to_string(), "application/json")
        } else {
            let id = uri.strip_prefix(MEMORY_URI).and_then(|id| id.parse::<MemoryId>().ok());
            let Some(id) = id else { return Ok(None) };
            match self.memories.find(&self.access, id).await {
                Ok(memory) => (memory.content, "text/markdown"),
                Err(Refusal::NotFound) => return Ok(None),
                Err(refusal) => return Err(reason(refusal)),
            }
        };
        Ok(Some(json!({ "uri": uri, "mimeType": media_type, "text": text })))
    }
}

/// Parses the arguments of a tool; the error names the member.
fn parsed<T: DeserializeOwned>(arguments: &str) -> Result<T, String> {
    body::json(arguments.as_bytes())
        .map_err(|error| format!("invalid arguments: {}", error.first_issue().unwrap_or_default()))
}

/// The reason of a refusal in words.
fn reason(refusal: impl Into<ApiError>) -> String {
    let error = KnowledgeError::from(refusal);
    error.count();
    error.reason()
}
