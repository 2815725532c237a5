//! The messages of OTLP that are read, in both encodings: Protocol Buffers and JSON.
//!
//! The field numbers are from opentelemetry-proto 1.x, `trace.proto`, `common.proto` and `resource.proto`. Fields that no event uses are
//! left out: both encodings skip unknown fields. In JSON the ids are hex and large numbers are texts, unlike in other JSON of Protocol
//! Buffers.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};

/// The members of a span that an event is made of.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpanMessage {
    /// 16 bytes that all spans of a trace share.
    #[prost(bytes = "vec", tag = "1")]
    #[serde(deserialize_with = "hex")]
    pub trace_id: Vec<u8>,
    /// 8 bytes of this span.
    #[prost(bytes = "vec", tag = "2")]
    #[serde(deserialize_with = "hex")]
    pub span_id: Vec<u8>,
    /// Start of the work, in nanoseconds of the epoch.
    #[prost(fixed64, tag = "7")]
    #[serde(deserialize_with = "number")]
    pub start_time_unix_nano: u64,
    /// End of the work, in nanoseconds of the epoch.
    #[prost(fixed64, tag = "8")]
    #[serde(deserialize_with = "number")]
    pub end_time_unix_nano: u64,
    /// Attributes of the work.
    #[prost(message, repeated, tag = "9")]
    #[serde(deserialize_with = "or_empty")]
    pub attributes: Vec<KeyValue>,
    /// Events within the work.
    #[prost(message, repeated, tag = "11")]
    #[serde(deserialize_with = "or_empty")]
    pub events: Vec<SpanEvent>,
    /// How the work ended.
    #[prost(message, optional, tag = "15")]
    pub status: Option<SpanStatus>,
}

/// An event within a span.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpanEvent {
    /// Name of the event.
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_empty")]
    pub name: String,
    /// Attributes of the event.
    #[prost(message, repeated, tag = "3")]
    #[serde(deserialize_with = "or_empty")]
    pub attributes: Vec<KeyValue>,
}

/// The outcome of a span.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpanStatus {
    /// A description for developers.
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_empty")]
    pub message: String,
    /// 0 unset, 1 ok, 2 error.
    #[prost(int32, tag = "3")]
    #[serde(deserialize_with = "status_code")]
    pub code: i32,
}

/// The program that made the spans.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceMessage {
    /// Attributes of the program.
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_empty")]
    pub attributes: Vec<KeyValue>,
}

/// An attribute of a span, an event or a resource.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KeyValue {
    /// Name of the attribute.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_empty")]
    pub key: String,
    /// Its value; a missing one is `null`.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value, with exactly one field present. Fields of a `oneof` are encoded like other fields.
#[expect(clippy::struct_field_names, reason = "the names in JSON")]
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AnyValue {
    #[prost(string, optional, tag = "1")]
    string_value: Option<String>,
    #[prost(bool, optional, tag = "2")]
    bool_value: Option<bool>,
    #[prost(int64, optional, tag = "3")]
    #[serde(deserialize_with = "written")]
    int_value: Option<i64>,
    #[prost(double, optional, tag = "4")]
    #[serde(deserialize_with = "written")]
    double_value: Option<f64>,
    #[prost(message, optional, tag = "5")]
    array_value: Option<ArrayValue>,
    #[prost(message, optional, tag = "6")]
    kvlist_value: Option<KeyValueList>,
    #[prost(bytes = "vec", optional, tag = "7")]
    #[serde(deserialize_with = "base64")]
    bytes_value: Option<Vec<u8>>,
}

/// Values in order.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_empty")]
    values: Vec<AnyValue>,
}

/// Values by their names.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_empty")]
    values: Vec<KeyValue>,
}

/// The response to an export.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportResponse {
    /// Present if spans were rejected.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// Spans that were rejected, although the others were accepted.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartialSuccess {
    /// Number of spans that the program should not export again.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// Why, and the remedy.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The body of a refusal: `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RefusalStatus {
    /// A code of gRPC.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// What happened, why, and the remedy.
    #[prost(string, tag = "2")]
    pub message: String,
}

impl From<AnyValue> for Value {
    fn from(value: AnyValue) -> Self {
        let AnyValue { string_value, bool_value, int_value, double_value, array_value, kvlist_value, bytes_value } =
            value;
        let array = array_value.map(|array| array.values.into_iter().map(Self::from).collect::<Vec<_>>());
        let list = kvlist_value.map(|list| list.values.into_iter().filter_map(named).collect::<Map<_, _>>());
        (string_value.map(Self::from))
            .or_else(|| bool_value.map(Self::from))
            .or_else(|| int_value.map(Self::from))
            .or_else(|| double_value.map(Self::from))
            .or_else(|| array.map(Self::from))
            .or_else(|| list.map(Self::from))
            .or_else(|| bytes_value.map(|bytes| Self::from(BASE64_STANDARD.encode(bytes))))
            .unwrap_or_default()
    }
}

/// An attribute as a member of an object.
pub fn named(KeyValue { key, value }: KeyValue) -> Option<(String, Value)> {
    Some((key, value?.into()))
}

/// A value that also accepts `null`, as its default.
fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(reader: D) -> Result<T, D::Error> {
    Option::deserialize(reader).map(Option::unwrap_or_default)
}

fn hex<'de, D: Deserializer<'de>>(reader: D) -> Result<Vec<u8>, D::Error> {
    let text: String = or_empty(reader)?;
    let pair = |pair: &[u8]| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(*pair.first()?)?, digit(*pair.get(1)?)?);
        u8::try_from(high << 4 | low).ok()
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(pair).collect();
    bytes.ok_or_else(|| D::Error::custom("expected pairs of hex digits"))
}

fn base64<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text = Option::<String>::deserialize(reader)?;
    text.map(|text| BASE64_STANDARD.decode(text)).transpose().map_err(D::Error::custom)
}

/// A number, or its text.
fn written<'de, D: Deserializer<'de>, T: std::str::FromStr>(reader: D) -> Result<Option<T>, D::Error> {
    let text = match Value::deserialize(reader)? {
        Value::Null => return Ok(None),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text,
        _ => return Err(D::Error::custom("expected a number or its text")),
    };
    text.parse().map(Some).map_err(|_| D::Error::custom("expected a number or its text"))
}

fn number<'de, D: Deserializer<'de>>(reader: D) -> Result<u64, D::Error> {
    written(reader).map(Option::unwrap_or_default)
}

/// A status code. Some programs write its name, which other JSON of Protocol Buffers permits.
fn status_code<'de, D: Deserializer<'de>>(reader: D) -> Result<i32, D::Error> {
    Ok(match Value::deserialize(reader)? {
        Value::String(name) if name == "STATUS_CODE_ERROR" => 2,
        Value::String(name) if name == "STATUS_CODE_OK" => 1,
        Value::Number(code) => code.as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or_default(),
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_json_are_read_in_every_form_that_programs_write() {
        let read = |value: Value| serde_json::from_value::<AnyValue>(value).map(Value::from).ok();
        for (written, value) in [
            (json!({ "stringValue": "a" }), json!("a")),
            (json!({ "intValue": "9007199254740993" }), json!(9_007_199_254_740_993_i64)),
            (json!({ "intValue": 7 }), json!(7)),
            (json!({ "doubleValue": 1 }), json!(1.0)),
            (json!({ "doubleValue": "NaN" }), json!(null)),
            (json!({ "bytesValue": "AQI=" }), json!("AQI=")),
            (json!({ "arrayValue": { "values": [{ "boolValue": true }, {}] } }), json!([true, null])),
            (
                json!({ "kvlistValue": { "values": [{ "key": "k", "value": { "stringValue": "v" } }] } }),
                json!({ "k": "v" }),
            ),
            (json!({ "unknownValue": [1], "stringValue": null }), json!(null)),
        ] {
            assert_eq!(read(written.clone()), Some(value), "{written}");
        }
        for wrong in [json!({ "intValue": "seven" }), json!({ "bytesValue": "?" }), json!(7)] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn ids_are_hex_in_json() {
        let read =
            |id: &str| serde_json::from_value::<SpanMessage>(json!({ "spanId": id })).map(|span| span.span_id).ok();
        assert_eq!(read("00fF"), Some(vec![0, 255]));
        for wrong in ["0", "zz", "+1", "ü"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
