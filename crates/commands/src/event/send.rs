//! `attache event send`: sends each event exactly once and in order, across interruptions.

use std::io;
use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use domain::canonical;
use domain::consent::ConsentLevel;
use domain::envelope::AgentKinds;
use domain::ids::{EventId, SessionUuid};
use domain::lane::Lane;

use super::agent_kind::agent_id;
use super::draft::{self, Defaults, EventDraft, LINE_BYTES_MAX};
use super::report::ReportFormat;
use super::sender::EventSender;
use crate::connection::Remote;
use crate::failure::{Done, Failure};

/// Options of `attache event send`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// File with one JSON object per line, or `-` for standard input
    #[arg(required_unless_present = "event_type", conflicts_with = "event_type")]
    file: Option<PathBuf>,
    /// Send one event of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Payload of that event, a JSON object
    #[arg(long, requires = "event_type", value_name = "JSON", default_value = "{}")]
    payload: String,
    /// Id of that event [default: a new one]
    #[arg(long, requires = "event_type", value_name = "UUID")]
    event_id: Option<EventId>,
    /// Lane of events that do not name one [default: that of the event type]
    #[arg(long)]
    lane: Option<Lane>,
    /// Consent level of events that do not declare one [default: the effective level of this computer]
    #[arg(long, value_name = "LEVEL")]
    consent_level: Option<ConsentLevel>,
    /// Mark events that do not declare it as redacted
    #[arg(long)]
    redacted: bool,
    /// Project of events that do not name one
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    project_id: Option<String>,
    /// Working session of events that do not name one
    #[arg(long, value_name = "UUID")]
    session_uuid: Option<SessionUuid>,
    /// Agent kind, which selects the chain
    #[arg(long, value_name = "KIND", default_value = AgentKinds::CLI, value_parser = agent_id)]
    agent_id: String,
    /// Exit with 1 if an event is held
    #[arg(long)]
    fail_held: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Sends the events of the arguments, a file or standard input.
pub async fn run(arguments: &Arguments) -> Done {
    let defaults = arguments.defaults();
    let connection = arguments.remote.open()?;
    let format = if connection.json { ReportFormat::Json } else { ReportFormat::Human };
    let mut sending = EventSender::new(&connection, &arguments.agent_id, format)?;
    match &arguments.file {
        Some(path) if path.as_os_str() == "-" => sending.stream(io::stdin().lock(), &defaults).await?,
        Some(path) => {
            let text = std::fs::read(path);
            let text = text.map_err(|error| Failure::refused(format!("{}: {error}", path.display())))?;
            sending.all(&draft::lines(&path.display().to_string(), &text, &defaults)?).await?;
        }
        None => sending.one(&arguments.draft(&defaults)?).await?,
    }
    sending.counts.print(format);
    sending.counts.done(!arguments.fail_held)
}

impl Arguments {
    fn defaults(&self) -> Defaults {
        Defaults {
            lane: self.lane,
            consent_level: self.consent_level,
            redacted: self.redacted.then_some(true),
            project_id: self.project_id.clone(),
            session_uuid: self.session_uuid,
        }
    }

    /// The event of `--type` and `--payload`.
    fn draft(&self, defaults: &Defaults) -> Result<EventDraft, Failure> {
        let payload = canonical::parse_object(self.payload.as_bytes(), LINE_BYTES_MAX);
        let payload = payload.map_err(|fault| Failure::refused(format!("nothing was sent: --payload: {fault}")))?;
        let event_type = self.event_type.clone().unwrap_or_default();
        Ok(EventDraft { event_id: self.event_id, ..EventDraft::new(event_type, payload) }.or(defaults))
    }
}
