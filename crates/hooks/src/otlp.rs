//! Exports of OpenTelemetry spans as draft events (`docs/otlp.md`).
//!
//! [`read`] finds the spans of an export that report the work of a model, a tool or an agent, and returns their events; other spans are
//! counted. The events are the same as for hooks: [`HookEvent::at`] returns the part that a consent level permits.

mod gen_ai;
mod message;
mod parts;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use domain::tool::Tool;
use prost::Message;
use serde_json::json;

use self::message::{ExportResponse, PartialSuccess, RefusalStatus, ResourceMessage, SpanMessage, named};
use self::parts::ExportPart;
use crate::event::HookEvent;
use crate::identity::Salt;

/// Spans of one export that are read; further ones are rejected. The largest batch of an SDK has 512 unless it is configured.
pub const SPANS_MAX: u64 = 10_000;

/// Longest span as it was sent, in bytes; a longer one is rejected. The resource has the same limit.
pub const SPAN_BYTES_MAX: usize = 1024 * 1024;

/// Encoding of an export and of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanEncoding {
    /// Protocol Buffers, the default of most SDKs.
    Protobuf,
    /// JSON, as OTLP defines it.
    Json,
}

/// Why a span was not recorded although it reports something that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SpanRejection {
    /// The span has no agent kind.
    #[error(
        "no agent kind: set service.name to claude-code, codex, cursor, gemini-cli, github-copilot or opencode, or start attache otlp with --agent"
    )]
    NoAgent,
    /// An id is missing or has another length.
    #[error("no trace id of 16 bytes and span id of 8 bytes")]
    NoIds,
    /// It is longer than [`SPAN_BYTES_MAX`].
    #[error("longer than 1 MiB: let the SDK record less content")]
    TooLong,
    /// It follows the first [`SPANS_MAX`].
    #[error("more than 10000 spans in one export: lower OTEL_BSP_MAX_EXPORT_BATCH_SIZE")]
    TooMany,
    /// The spool has no space.
    #[error("the spool of the agent is full: attache hook --status shows why its events are not sent")]
    SpoolFull,
}

/// Rejected spans by their reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanRejections(BTreeMap<SpanRejection, u64>);

impl SpanRejections {
    /// Adds spans to the count of a reason.
    pub fn add(&mut self, reason: SpanRejection, count: u64) {
        if count > 0 {
            *self.0.entry(reason).or_default() += count;
        }
    }

    /// Number of spans.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl fmt::Display for SpanRejections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (reason, count)) in self.0.iter().enumerate() {
            let separator = if nth > 0 { "; " } else { "" };
            write!(formatter, "{separator}{count} rejected: {reason}")?;
        }
        Ok(())
    }
}

/// The spans of one export.
#[derive(Debug, Default)]
pub struct SpanExport {
    /// The events, each with the agent of its chain.
    pub events: Vec<(Tool, HookEvent)>,
    /// All spans, recorded or not.
    pub spans: u64,
    /// Spans that report no recorded activity.
    pub ignored: u64,
    /// Spans that should have been recorded.
    pub rejections: SpanRejections,
}

/// A body that is no export in its encoding.
#[derive(Debug, thiserror::Error)]
pub enum MalformedExport {
    /// Not the Protocol Buffers of an export.
    #[error("the body is no ExportTraceServiceRequest in Protocol Buffers")]
    Protobuf(#[from] prost::DecodeError),
    /// Not the JSON of an export.
    #[error("the body is no ExportTraceServiceRequest in JSON")]
    Json(#[from] serde_json::Error),
}

/// Reads an export. `agent` is used for spans with a resource that does not name one of the tools.
pub fn read(
    body: &Bytes,
    encoding: SpanEncoding,
    agent: Option<Tool>,
    salt: &Salt,
) -> Result<SpanExport, MalformedExport> {
    let mut export = SpanExport::default();
    let enter = |resource: Option<ExportPart<'_>>| Ok(service(resource)?.or(agent));
    parts::visit(body, encoding, enter, |agent, part| {
        export.spans += 1;
        if export.spans > SPANS_MAX {
            export.rejections.add(SpanRejection::TooMany, 1);
        } else if part.len() > SPAN_BYTES_MAX {
            export.rejections.add(SpanRejection::TooLong, 1);
        } else {
            match gen_ai::event(*agent, part.read::<SpanMessage>()?, salt) {
                Some(Ok(event)) => export.events.push(event),
                Some(Err(rejection)) => export.rejections.add(rejection, 1),
                None => export.ignored += 1,
            }
        }
        Ok(())
    })?;
    Ok(export)
}

/// The tool that a resource names.
fn service(resource: Option<ExportPart<'_>>) -> Result<Option<Tool>, MalformedExport> {
    let Some(resource) = resource.filter(|resource| resource.len() <= SPAN_BYTES_MAX) else { return Ok(None) };
    let attributes = resource.read::<ResourceMessage>()?.attributes;
    let name = attributes.into_iter().filter(|attribute| attribute.key == "service.name").find_map(named);
    Ok(name.and_then(|(_, name)| name.as_str()?.parse().ok()))
}

impl SpanEncoding {
    /// The response to an export, with the rejected spans.
    pub fn response(self, rejections: &SpanRejections) -> Vec<u8> {
        let (total, reasons) = (rejections.total(), rejections.to_string());
        match self {
            Self::Json if total == 0 => b"{}".to_vec(),
            // Large numbers are texts in the JSON of Protocol Buffers.
            Self::Json => {
                let partial_success = json!({ "rejectedSpans": total.to_string(), "errorMessage": reasons });
                json!({ "partialSuccess": partial_success }).to_string().into_bytes()
            }
            Self::Protobuf => {
                let rejected_spans = i64::try_from(total).unwrap_or(i64::MAX);
                let partial_success = (total > 0).then_some(PartialSuccess { rejected_spans, error_message: reasons });
                ExportResponse { partial_success }.encode_to_vec()
            }
        }
    }

    /// The body of a refusal with a code of gRPC.
    pub fn refusal(self, code: i32, message: &str) -> Vec<u8> {
        match self {
            Self::Json => json!({ "code": code, "message": message }).to_string().into_bytes(),
            Self::Protobuf => RefusalStatus { code, message: message.to_owned() }.encode_to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn responses_are_the_same_in_both_encodings() {
        let none = SpanRejections::default();
        assert_eq!(
            (SpanEncoding::Json.response(&none), SpanEncoding::Protobuf.response(&none)),
            (b"{}".to_vec(), vec![])
        );
        let mut rejections = SpanRejections::default();
        rejections.add(SpanRejection::NoIds, 2);
        rejections.add(SpanRejection::SpoolFull, 1);
        let json: Value = serde_json::from_slice(&SpanEncoding::Json.response(&rejections)).unwrap();
        let decoded = ExportResponse::decode(&*SpanEncoding::Protobuf.response(&rejections)).unwrap();
        let partial = decoded.partial_success.unwrap();
        assert_eq!((partial.rejected_spans, &json["partialSuccess"]["rejectedSpans"]), (3, &json!("3")));
        assert_eq!(json["partialSuccess"]["errorMessage"], partial.error_message);
        assert!(partial.error_message.contains("; 1 rejected: the spool"), "{}", partial.error_message);
        let json: Value = serde_json::from_slice(&SpanEncoding::Json.refusal(3, "why")).unwrap();
        let decoded = RefusalStatus::decode(&*SpanEncoding::Protobuf.refusal(3, "why")).unwrap();
        assert_eq!(json, json!({ "code": decoded.code, "message": decoded.message }));
    }
}
