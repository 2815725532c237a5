//! The knowledge API (`docs/protocol/knowledge.md`).

use serde_json::{Value, json};
use wire::Done;
use wire::knowledge::{
    BatchMessage, BatchRequest, Memory, SearchRequest, SearchResults, Settings, SettingsChanged, SpaceChange,
    SpaceChanged, SpaceCreated, SpaceRequest, Spaces,
};
use wire::schema::FilterUpdate;

use super::operation::Operation;
use crate::http::error::Code;

const ID: &str = "019b76da-a800-7a67-8a14-94a3f41b0634";
const MOMENT: &str = "2026-01-01T00:00:00.000Z";

pub(super) fn operations() -> Vec<Operation> {
    Operation::tagged("Knowledge", [finding(), spaces(), batches(), settings()].into_iter().flatten().collect())
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
    });
    vec![
        Operation::post("/v1/search", "search", "Search")
            .says(
                "Documents, most similar first, each with its best passages. Without `spaces`: everything of the key's \
                account. Scope `search`.",
            )
            .takes::<SearchRequest>(
                json!({ "query": "when do I cut back my rose bush?", "limit": 3, "threshold": 0.2 }),
            )
            .answers::<SearchResults>(200, "What was found.", json!({ "results": [result] }))
            .refuses(&[Code::SpaceForbidden]),
        Operation::get("/v1/memories/{id}", "readMemory", "One memory")
            .says("With its whole text and its spaces. Scope `search`.")
            .answers::<Memory>(200, "The memory.", memory.clone()),
        Operation::delete("/v1/memories/{id}", "deleteMemory", "Delete a memory")
            .says("From every space; with a key for certain spaces only from those. Scope `write`.")
            .answers::<Done>(200, "It is gone.", json!({ "ok": true })),
        Operation::get("/v1/export", "export", "All memories")
            .says(
                "Everything that a search without spaces would find, oldest first, one object a line. Scope `search`.",
            )
            .answers_as::<Memory>("application/x-ndjson", 200, "One of these objects a line.", Value::Null),
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
        Operation::post("/v1/spaces/create", "createSpace", "Make a space")
            .says("Scope `write`; not for keys of certain spaces.")
            .takes::<SpaceRequest>(json!({ "spaceName": "Garden", "isPublic": false }))
            .answers::<SpaceCreated>(200, "Made.", json!({ "message": "Space created successfully", "space": space }))
            .refuses(&[Code::SpaceForbidden]),
        Operation::get("/v1/spaces", "listSpaces", "The account's spaces").says("Scope `search`.").answers::<Spaces>(
            200,
            "The default first, then the newest.",
            json!({ "spaces": [space] }),
        ),
        Operation::patch("/v1/spaces/{id}", "changeSpace", "Change a space")
            .says("What is absent stays. Name and publicity are its owner's to change. Scope `write`; a key for certain spaces \
                makes one public only with `settings` too.")
            .takes::<SpaceChange>(json!({ "isFavorite": true }))
            .answers::<SpaceChanged>(200, "The space as it is now.", json!({ "space": space })),
    ]
}

fn batches() -> Vec<Operation> {
    let stream = "Events, each with a message behind `data:` on one line, and an `id:` to join again after. The first is `progress`; each item then has its outcome, followed by `progress`; the last is `complete`, or an \
        `error` with `fatal`; `unauthorized` says that the key was revoked or expired, and has no `id`. Comments in between keep the connection alive.";
    let note = json!({ "title": "Roses", "content": "Prune roses in March, when the forsythia is in bloom." });
    vec![
        Operation::post("/v1/batch-add", "addBatch", "Add addresses and notes")
            .says("Addresses first, then notes. The batch is kept before the first byte of the answer, and goes on without \
                a client. `success` means that the item can be found now. Scope `write`.")
            .takes::<BatchRequest>(json!({ "urls": ["https://example.com/"], "contents": [note], "spaces": [ID] }))
            .answers_stream::<BatchMessage>(200, stream)
            .with_header("X-Batch-Id", "The batch, for joining its stream again.")
            .refuses(&[Code::SpaceForbidden, Code::RateLimited]),
        Operation::get("/v1/batch-add/{id}", "joinBatch", "Join the stream of a batch")
            .says("From the beginning, or after the message that was heard last. Scope `write`.")
            .header("Last-Event-ID", "The `id:` of the message that was heard last.", &json!({ "type": "string" }))
            .answers_stream::<BatchMessage>(200, stream)
            .with_header("X-Batch-Id", "The batch.")
            .refuses(&[Code::InvalidRequest, Code::RateLimited]),
        Operation::delete("/v1/batch-add/{id}", "cancelBatch", "Cancel a batch")
            .says("Items without an outcome get the error `cancelled`. Scope `write`.")
            .answers::<Done>(200, "It has ended.", json!({ "ok": true })),
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
            .says("All of them: what is absent is cleared. They hold for what is added from now on. Scope `settings`.")
            .takes::<FilterUpdate>(settings.clone())
            .answers::<SettingsChanged>(200, "The settings as they are now.", changed.clone()),
        Operation::patch("/v1/settings", "changeSettings", "Change filter settings")
            .says("What is absent stays, `null` clears. Scope `settings`.")
            .takes::<FilterUpdate>(change)
            .answers::<SettingsChanged>(200, "The settings as they are now.", changed),
        Operation::get("/v1/settings", "readSettings", "The filter settings")
            .says("Scope `settings`.")
            .answers::<Settings>(200, "The settings.", json!({ "settings": settings, "warnings": [] })),
    ]
}
