//! A tap of a server: samples of the events that senders submit, as the operator's API streams them.

use std::pin::Pin;
use std::time::Duration;

use domain::foreign::visible;
use futures_util::{Stream, StreamExt as _};
use humantime_serde::re::humantime::format_duration;
use sse_stream::{Error, Sse, SseStream};
use wire::ops::TapEntry;

use super::operator_client::OperatorClient;
use commands::failure::Failure;

/// The samples of an open tap, which closes when this is dropped.
pub struct TapSamples(Pin<Box<dyn Stream<Item = Result<Sse, Error>> + Send>>);

impl TapSamples {
    /// Opens a tap for a time. `parameters` are those of `GET /ops/v1/tap`.
    pub async fn open(
        client: &OperatorClient,
        lasts: Duration,
        mut parameters: Vec<(&str, String)>,
    ) -> Result<Self, Failure> {
        parameters.push(("for", format_duration(lasts).to_string().replace(' ', "")));
        let response = client.stream("/ops/v1/tap", &parameters, lasts).await?;
        Ok(Self(Box::pin(SseStream::from_bytes_stream(response.bytes_stream()))))
    }

    /// The next sample; `None` at the end of the tap.
    pub async fn next(&mut self) -> Result<Option<TapEntry>, Failure> {
        loop {
            let event = self.0.next().await.transpose().map_err(Failure::caused)?;
            let event = event.ok_or_else(|| Failure::refused("the server ended the tap"))?;
            match (event.event.as_deref(), event.data) {
                (Some("sample"), Some(data)) => return serde_json::from_str(&data).map(Some).map_err(Failure::caused),
                (Some("end"), _) => return Ok(None),
                _ => {}
            }
        }
    }
}

/// A sample on one line.
pub fn line(sample: &TapEntry) -> String {
    let TapEntry { at, payer, outcome, reason, bytes, took_ms, event_type, skipped, .. } = sample;
    let time = at.split_once('T').map_or(at.as_str(), |(_, time)| time);
    let why = reason.as_ref().map(|reason| format!(" {reason}")).unwrap_or_default();
    let kind = event_type.as_deref().unwrap_or("(invalid)");
    let more = if *skipped > 0 { format!("  {skipped} more before it") } else { String::new() };
    visible(&format!("{time}  {outcome}{why}  {kind}  {bytes} B  {took_ms:.1} ms  {payer}{more}"))
}
