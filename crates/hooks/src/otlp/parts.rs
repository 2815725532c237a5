//! An export in parts, which are decoded one at a time.
//!
//! Two bytes of a body can become an empty message of hundreds of bytes. A part stays encoded until it is its turn, so that a hostile body
//! takes a small multiple of its size.

use bytes::Bytes;
use prost::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{MalformedExport, SpanEncoding};

/// An encoded message.
#[derive(Debug, Clone)]
pub enum ExportPart<'b> {
    /// In Protocol Buffers.
    Protobuf(Bytes),
    /// As the text of its JSON.
    Json(&'b RawValue),
}

impl ExportPart<'_> {
    /// Its encoded size in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Protobuf(bytes) => bytes.len(),
            Self::Json(text) => text.get().len(),
        }
    }

    /// Decodes the message.
    pub fn read<M: Message + Default + DeserializeOwned>(&self) -> Result<M, MalformedExport> {
        match self {
            Self::Protobuf(bytes) => Ok(M::decode(bytes.clone())?),
            Self::Json(text) => Ok(serde_json::from_str(text.get())?),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct ProtobufExport {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    resource_spans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtobufResourceSpans {
    #[prost(bytes = "bytes", optional, tag = "1")]
    resource: Option<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    scope_spans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtobufScopeSpans {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    spans: Vec<Bytes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonExport<'b> {
    #[serde(borrow)]
    resource_spans: Option<Vec<&'b RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonResourceSpans<'b> {
    #[serde(borrow)]
    resource: Option<&'b RawValue>,
    #[serde(borrow)]
    scope_spans: Option<Vec<&'b RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonScopeSpans<'b> {
    #[serde(borrow)]
    spans: Option<Vec<&'b RawValue>>,
}

/// Passes each span of an export to `see`, after the resource that it belongs to was passed to `enter`.
pub fn visit<R>(
    body: &Bytes,
    encoding: SpanEncoding,
    mut enter: impl FnMut(Option<ExportPart<'_>>) -> Result<R, MalformedExport>,
    mut see: impl FnMut(&R, ExportPart<'_>) -> Result<(), MalformedExport>,
) -> Result<(), MalformedExport> {
    match encoding {
        SpanEncoding::Protobuf => {
            for part in ProtobufExport::decode(body.clone())?.resource_spans {
                let ProtobufResourceSpans { resource, scope_spans } = Message::decode(part)?;
                let resource = enter(resource.map(ExportPart::Protobuf))?;
                for part in scope_spans {
                    for span in ProtobufScopeSpans::decode(part)?.spans {
                        see(&resource, ExportPart::Protobuf(span))?;
                    }
                }
            }
        }
        SpanEncoding::Json => {
            let export: JsonExport<'_> = serde_json::from_slice(body)?;
            for part in export.resource_spans.unwrap_or_default() {
                let JsonResourceSpans { resource, scope_spans } = serde_json::from_str(part.get())?;
                let resource = enter(resource.map(ExportPart::Json))?;
                for part in scope_spans.unwrap_or_default() {
                    let scope: JsonScopeSpans<'_> = serde_json::from_str(part.get())?;
                    for span in scope.spans.unwrap_or_default() {
                        see(&resource, ExportPart::Json(span))?;
                    }
                }
            }
        }
    }
    Ok(())
}
