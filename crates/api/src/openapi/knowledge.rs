//! The knowledge API (`docs/protocol/knowledge.md`).

use serde_json::{Value, json};
use wire::Done;
use wire::account::Key;
use wire::knowledge::{
    BatchMessage, BatchRequest, ImportMessage, Memory, MemoryChange, MemoryList, SearchRequest, SearchResults,
    Settings, SettingsChanged, SpaceChange, SpaceChanged, SpaceCreated, SpaceDeleted, SpaceRequest, Spaces,
};
use wire::mcp::McpTool;
use wire::schema::FilterUpdate;

use super::operation::Operation;
use super::rpc::{RpcAnswer, RpcRequest};
use crate::error::Code;

const ID: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";
const MOMENT: &str = "2026-01-01T00:00:00.000Z";

pub(super) fn operations() -> Vec<Operation> {
    Operation::tagged(
        "Knowledge",
        [finding(), spaces(), batches(), settings(), tools()].into_iter().flatten().collect(),
    )
}

fn finding() -> Vec<Operation> {
    let text = "Prune roses in March, when the forsythia is in bloom.";
    let url = format!("https://attache.example.com/v1/memories/{ID}");
    let result = json!({
        "id": ID,
        "title": "Roses",
        "url": url,
        "content": text,
        "similarity": 0.8123,
        "createdAt": MOMENT,
        "type": "note",
        "chunks": [{ "content": text, "similarity": 0.8123 }],
    });
    let memory = json!({
        "id": ID,
        "title": "Roses",
        "url": url,
        "content": text,
        "createdAt": MOMENT,
        "updatedAt": MOMENT,
        "type": "note",
        "spaces": [ID],
        "tags": ["garden"],
    });
    let mut entry = memory.clone();
    if let Some(entry) = entry.as_object_mut() {
        entry.remove("content");
        entry.insert("excerpt".to_owned(), text.into());
    }
    let string = |format: &str| json!({ "type": "string", "format": format });
    let key = json!({
        "id": ID,
        "name": "Ada's laptop",
        "scopes": ["search", "write"],
        "spaces": null,
        "created_at": MOMENT,
        "expires_at": null,
        "last_used_at": MOMENT,
        "revoked_at": null,
    });
    vec![
        Operation::get("/v1/key", "showKey", "The key of the request")
            .says("Any scope.")
            .answers::<Key>(200, "The key, without its secret.", key),
        Operation::post("/v1/search", "search", "Search")
            .says(
                "Returns documents, most similar first, each with its best chunks. Without `spaces`: all memories of the API key's \
                 account. Scope `search`.",
            )
            .takes::<SearchRequest>(
                json!({ "query": "when do I cut back my rose bush?", "limit": 3, "threshold": 0.2 }),
            )
            .answers::<SearchResults>(200, "The matching documents.", json!({ "results": [result] }))
            .refuses(&[Code::SpaceForbidden]),
        Operation::get("/v1/memories/{id}", "readMemory", "Read a memory")
            .says("Includes the whole text and the spaces. Scope `search`.")
            .answers::<Memory>(200, "The memory with its text.", memory.clone()),
        Operation::get("/v1/memories", "listMemories", "List memories")
            .says("The newest first, within everything that a search without `spaces` covers, or within `space`. Scope `search`.")
            .query("space", "Memories of this space.", &string("uuid"))
            .query("type", "Memories of this type.", &json!({ "type": "string", "enum": ["note", "page", "document", "tweet", "notion"] }))
            .query("tag", "Memories with this tag.", &json!({ "type": "string", "minLength": 1, "maxLength": 50 }))
            .query("day", "Memories that were added on this day (UTC).", &string("date"))
            .query("cursor", "`nextCursor` of the page before.", &json!({ "type": "string" }))
            .query("limit", "Memories of a page.", &json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 50 }))
            .answers::<MemoryList>(200, "A page.", json!({ "memories": [entry], "nextCursor": null }))
            .refuses(&[Code::InvalidRequest, Code::SpaceForbidden]),
        Operation::patch("/v1/memories/{id}", "changeMemory", "Change a memory")
            .says(
                "Absent members are not changed. `content` only for a memory without a page: it is divided and embedded as an added note. An API \
                 key that is limited to spaces changes `spaces` within them, and the rest only of a memory that is in no other space. Scope \
                 `write`.",
            )
            .takes::<MemoryChange>(json!({ "title": "Roses", "tags": ["garden"] }))
            .answers::<Memory>(200, "The changed memory.", memory.clone())
            .refuses(&[Code::SpaceForbidden, Code::RateLimited]),
        Operation::delete("/v1/memories/{id}", "deleteMemory", "Delete a memory")
            .says("Deletes it from all spaces; with an API key that is limited to spaces only from those. Scope `write`.")
            .answers::<Done>(200, "The memory is deleted.", json!({ "ok": true })),
        Operation::get("/v1/export", "export", "Export all memories")
            .says(
                "All memories that a search without `spaces` covers, oldest first, one object per line. Scope `search`.",
            )
            .answers_as::<Memory>("application/x-ndjson", 200, "One of these objects per line.", Value::Null),
        Operation::post("/v1/import", "import", "Import memories")
            .says(
                "Takes the lines of an export, as `application/x-ndjson`. Ids, times and tags are kept; a memory that the account has already is not \
                 changed, so an import can be repeated. A line goes to those of its spaces that the API key may write to, otherwise to the default \
                 space. A response without `complete` is incomplete. Scope `write`.",
            )
            .takes_as::<Memory>("application/x-ndjson", memory)
            .answers_as::<ImportMessage>("application/x-ndjson", 200, "One of these objects per line.", Value::Null)
            .refuses(&[Code::SpaceForbidden, Code::RateLimited]),
    ]
}

fn tools() -> Vec<Operation> {
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [McpTool::SearchMemory.described()] } });
    let parse = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "Parse error" } });
    vec![
        Operation::post("/v1/mcp", "memoryTools", "Use the memory over MCP")
            .says(
                "MCP over HTTP, without sessions: `initialize`, `ping`, `tools/list`, `tools/call`, `resources/list`, \
                 `resources/templates/list`, `resources/read`. The scopes of the API key decide which tools are listed: `search` for \
                 `search_memory` and `list_spaces`, `write` for `add_memory` and `forget_memory`.",
            )
            .takes::<RpcRequest>(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }))
            .answers::<RpcAnswer>(200, "A JSON-RPC 2.0 result or error.", mcp)
            .answers_nothing(202, "A notification was accepted.")
            .answers::<RpcAnswer>(400, "Not JSON, not a message, or an unsupported version of MCP.", parse)
            .refuses(&[Code::CrossSiteRequest]),
    ]
}

fn spaces() -> Vec<Operation> {
    let space = json!({
        "id": ID,
        "name": "Garden",
        "isPublic": false,
        "isFavorite": false,
        "owner": { "firstName": "Emmy", "lastName": "Noether" },
        "accessType": "owner",
        "createdAt": MOMENT,
    });
    vec![
        Operation::post("/v1/spaces/create", "createSpace", "Create a space")
            .says("Scope `write`; not with an API key that is limited to spaces.")
            .takes::<SpaceRequest>(json!({ "spaceName": "Garden", "isPublic": false }))
            .answers::<SpaceCreated>(200, "The space is created.", json!({ "message": "Space created successfully", "space": space }))
            .refuses(&[Code::SpaceForbidden]),
        Operation::get("/v1/spaces", "listSpaces", "List the spaces").says("Scope `search`.").answers::<Spaces>(
            200,
            "The default space first, then the newest.",
            json!({ "spaces": [space] }),
        ),
        Operation::patch("/v1/spaces/{id}", "changeSpace", "Change a space")
            .says("Absent members are not changed. Only the owner can change name and visibility. Scope `write`; an API key that is limited to \
             spaces also needs `settings` to make one public.")
            .takes::<SpaceChange>(json!({ "isFavorite": true }))
            .answers::<SpaceChanged>(200, "The changed space.", json!({ "space": space })),
        Operation::delete("/v1/spaces/{id}", "deleteSpace", "Delete a space")
            .says("Memories that are in no other space move to the default space, or are deleted with `memories=delete`; memories of other accounts \
             always move. The default space cannot be deleted. Scope `write`; not with an API key that is limited to spaces.")
            .query("memories", "What becomes of memories that are in no other space.", &json!({ "type": "string", "enum": ["move", "delete"], "default": "move" }))
            .answers::<SpaceDeleted>(200, "The space is deleted.", json!({ "ok": true, "moved": 3, "deleted": 0 }))
            .refuses(&[Code::InvalidRequest, Code::SpaceForbidden]),
    ]
}

fn batches() -> Vec<Operation> {
    let stream = "Server-sent events, each with one message in `data` and an `id` for joining again. The first is `progress`; each item then has an outcome, followed by `progress`; the last is `complete`, or an \
     `error` with `fatal`. `unauthorized` means that the API key was revoked or has expired, and has no `id`. Comments keep the connection alive.";
    let note = json!({ "title": "Roses", "content": "Prune roses in March, when the forsythia is in bloom." });
    vec![
        Operation::post("/v1/batch-add", "addBatch", "Add URLs and notes")
            .says("URLs come first, then notes. The batch is stored before the first byte of the response, and continues without \
             a client. `success` means that search can find the item now. Scope `write`.")
            .header(
                "Idempotency-Key",
                "A repeated request with the same key and body returns the stream of the same batch.",
                &json!({ "type": "string", "minLength": 1, "maxLength": 255 }),
            )
            .takes::<BatchRequest>(json!({ "urls": ["https://example.com/"], "contents": [note], "spaces": [ID] }))
            .answers_stream::<BatchMessage>(200, stream)
            .with_header("X-Batch-Id", "Id of the batch, for joining its stream again.")
            .refuses(&[Code::SpaceForbidden, Code::RateLimited, Code::IdempotencyKeyReused]),
        Operation::get("/v1/batch-add/{id}", "joinBatch", "Join the stream of a batch")
            .says("From the beginning, or after the last received message. Scope `write`.")
            .header("Last-Event-ID", "The `id` of the last received message.", &json!({ "type": "string" }))
            .answers_stream::<BatchMessage>(200, stream)
            .with_header("X-Batch-Id", "Id of the batch.")
            .answers_nothing(204, "The batch has ended, and the client received its last message.")
            .refuses(&[Code::InvalidRequest, Code::RateLimited]),
        Operation::delete("/v1/batch-add/{id}", "cancelBatch", "Cancel a batch")
            .says("Items without an outcome get the error `cancelled`. Scope `write`.")
            .answers::<Done>(200, "The batch has ended.", json!({ "ok": true })),
    ]
}

fn settings() -> Vec<Operation> {
    let settings = json!({
        "categories": ["garden"],
        "filterPrompt": "notes about plants",
        "includeItems": [],
        "excludeItems": ["sponsored"],
        "shouldLLMFilter": true,
    });
    let changed = json!({ "message": "Settings updated successfully", "settings": settings, "warnings": [] });
    let change = json!({ "excludeItems": ["sponsored"], "shouldLLMFilter": true });
    vec![
        Operation::put("/v1/settings", "replaceSettings", "Replace the filter settings")
            .says("Absent members are cleared. The settings apply to content that is added from now on. Scope `settings`.")
            .takes::<FilterUpdate>(settings.clone())
            .answers::<SettingsChanged>(200, "The changed settings.", changed.clone())
            .refuses(&[Code::SpaceForbidden]),
        Operation::patch("/v1/settings", "changeSettings", "Change filter settings")
            .says("Absent members are not changed; `null` clears. Scope `settings`.")
            .takes::<FilterUpdate>(change)
            .answers::<SettingsChanged>(200, "The changed settings.", changed)
            .refuses(&[Code::SpaceForbidden]),
        Operation::get("/v1/settings", "readSettings", "Read the filter settings")
            .says("Scope `settings`.")
            .answers::<Settings>(200, "The filter settings.", json!({ "settings": settings, "warnings": [] })),
    ]
}
