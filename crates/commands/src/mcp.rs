//! `attache mcp`: the tools of this profile for a program that speaks MCP on standard input and output.
//!
//! Standard output carries protocol messages only. Each call reads the profile again, so that it uses credentials stored since the start.

mod events;
mod memory;

use clap::Args;
use domain::ids::MemoryId;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::io::stdio_pipes;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::{self, LocalSet};
use wire::mcp::McpTool;

use crate::connection::{ProfileConnection, Remote, failed};
use crate::failure::{Done, Failure};

/// The description of this server, which a model reads when it connects.
const INSTRUCTIONS: &str = "attache holds a person's shared memory and a tamper-evident record of what agents do. Search the memory before you \
    answer from general knowledge, add what will matter later, and record events only as far as check_consent allows.";

/// The resource with the list of spaces.
const SPACES_URI: &str = "attache://spaces";

/// The URI prefix of a memory as a resource.
const MEMORY_URI: &str = "attache://memories/";

/// Options of `attache mcp`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    remote: Remote,
}

/// Serves until standard input ends.
pub async fn run(arguments: Arguments) -> Done {
    // A wrong profile is refused at the start, and not at the first call.
    arguments.remote.open()?;
    let server = ToolServer { remote: arguments.remote };
    // Requests to the server borrow the connection in closures; their futures cannot move between threads.
    let serving = async {
        let running = server.serve(stdio_pipes()).await.map_err(Failure::caused)?;
        running.waiting().await.map_err(Failure::caused)?;
        Ok(())
    };
    LocalSet::new().run_until(serving).await
}

/// Result of a tool: text for the model, and the same as JSON.
#[derive(Debug)]
pub struct ToolAnswer {
    /// Text for the model.
    pub text: String,
    /// The result as JSON, always an object.
    pub value: Value,
}

/// Answers requests with the credentials of a profile.
#[derive(Debug, Clone)]
struct ToolServer {
    remote: Remote,
}

impl ToolServer {
    fn open(&self) -> Result<ProfileConnection, Failure> {
        self.remote.open()
    }

    async fn call(&self, tool: McpTool, arguments: JsonObject) -> Result<ToolAnswer, Failure> {
        let mut connection = self.open()?;
        match tool {
            McpTool::SearchMemory => memory::search(&connection.with_key()?, parsed(arguments)?).await,
            McpTool::AddMemory => memory::add(&connection.with_key()?, parsed(arguments)?).await,
            McpTool::ListSpaces => memory::spaces(&connection.with_key()?, parsed(arguments)?).await,
            McpTool::ForgetMemory => memory::forget(&connection.with_key()?, parsed(arguments)?).await,
            McpTool::RecordEvent => events::record(&connection, parsed(arguments)?).await,
            McpTool::CheckConsent => events::consent(&mut connection, parsed(arguments)?).await,
            McpTool::MyActivity => events::activity(&mut connection, parsed(arguments)?).await,
        }
    }

    async fn read(&self, uri: &str) -> Result<ResourceContents, ErrorData> {
        let failed = |failure: Failure| ErrorData::internal_error(failure.reason().to_owned(), None);
        let client = self.open().and_then(|connection| connection.with_key()).map_err(failed)?;
        if uri == SPACES_URI {
            let spaces = client.spaces().await.map_err(|error| failed(super::connection::failed(error)))?;
            let text = json!({ "spaces": spaces }).to_string();
            return Ok(ResourceContents::text(text, uri).with_mime_type("application/json"));
        }
        let unknown = || ErrorData::resource_not_found("no such resource", Some(json!({ "uri": uri })));
        let id: MemoryId = uri.strip_prefix(MEMORY_URI).and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
        match client.memory(id).await {
            Ok(memory) => Ok(ResourceContents::text(memory.content, uri).with_mime_type("text/markdown")),
            Err(error) if error.code() == Some("not_found") => Err(unknown()),
            Err(error) => Err(failed(super::connection::failed(error))),
        }
    }
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let server = Implementation::new("attache", env!("CARGO_PKG_VERSION")).with_title("attache");
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(McpTool::ALL.map(described).into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = McpTool::named(&request.name) else {
            return Err(ErrorData::invalid_params("unknown tool: tools/list returns the available ones", None));
        };
        let (server, arguments) = (self.clone(), request.arguments.unwrap_or_default());
        // A separate task: a cancelled request does not interrupt an event that is being sent.
        let work = task::spawn_local(async move { server.call(tool, arguments).await });
        // A model can correct a failed call, so the reason is its result and no error of the protocol.
        let result = match work.await.map_err(|error| ErrorData::internal_error(domain::reasons(&error), None))? {
            Ok(ToolAnswer { text, value }) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
                result.structured_content = Some(value);
                result
            }
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.reason().to_owned())]),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let spaces = Resource::new(SPACES_URI, "spaces")
            .with_title("Spaces")
            .with_description("The named sets of memories that this profile can read.")
            .with_mime_type("application/json");
        Ok(ListResourcesResult::with_all_items(vec![spaces]))
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let memory = ResourceTemplate::new(format!("{MEMORY_URI}{{id}}"), "memory")
            .with_title("Memory")
            .with_description("The whole text of a memory; ids are those of search results.")
            .with_mime_type("text/markdown");
        Ok(ListResourceTemplatesResult::with_all_items(vec![memory]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let server = self.clone();
        let work = task::spawn_local(async move { server.read(&request.uri).await });
        let contents = work.await.map_err(|error| ErrorData::internal_error(domain::reasons(&error), None))??;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

fn described(tool: McpTool) -> Tool {
    let annotations = ToolAnnotations::with_title(tool.title())
        .read_only(tool.is_read_only())
        .destructive(tool.is_destructive())
        .idempotent(tool.is_idempotent())
        .open_world(tool.is_open_world());
    Tool::new(tool.name(), tool.description(), tool.schema()).with_title(tool.title()).with_annotations(annotations)
}

/// Parses the arguments of a tool; the error names the member.
fn parsed<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_path_to_error::deserialize(Value::Object(arguments))
        .map_err(|error| Failure::refused(format!("invalid arguments: {error}")))
}
