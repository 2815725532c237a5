//! The body of a response. Limits apply to the decompressed size.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use http::header;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

use super::FetchError;
use super::budget::Budget;
use super::failure::FailedAttempt;

/// Size of one read: how much a decompression bomb can produce beyond a limit.
const PIECE_BYTES: usize = 16 * 1024;

pub(super) struct Body {
    reader: Pin<Box<dyn AsyncRead + Send>>,
    taken: BytesMut,
    has_ended: bool,
    stall_timeout: Duration,
}

impl Body {
    /// Opens the body of `response` without reading it. Rejects a `Content-Length` above `bytes_max`.
    pub(super) fn open(
        response: reqwest::Response,
        bytes_max: usize,
        stall_timeout: Duration,
    ) -> Result<Self, FetchError> {
        let encodings = response.headers().get_all(header::CONTENT_ENCODING).iter();
        let encodings: Vec<String> =
            encodings.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase()).collect();
        let announced = response.content_length();
        let plain = StreamReader::new(response.bytes_stream().map_err(io::Error::other));
        let reader: Pin<Box<dyn AsyncRead + Send>> = match encodings.iter().map(String::as_str).collect::<Vec<_>>()[..]
        {
            [] | ["" | "identity"] if announced.is_some_and(|length| length > bytes_max as u64) => {
                return Err(FetchError::BodyTooLarge(bytes_max));
            }
            [] | ["" | "identity"] => Box::pin(plain),
            ["gzip" | "x-gzip"] => {
                let mut decoder = GzipDecoder::new(plain);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
            _ => return Err(FetchError::UnsupportedEncoding),
        };
        Ok(Self { reader, taken: BytesMut::new(), has_ended: false, stall_timeout })
    }

    /// Reads until `wanted` bytes are available or the body ends.
    pub(super) async fn read(&mut self, wanted: usize, budget: &mut Budget) -> Result<&[u8], FailedAttempt> {
        while !self.has_ended && self.taken.len() < wanted {
            self.taken.reserve(PIECE_BYTES.min(wanted - self.taken.len()));
            let read = budget.spend(self.stall_timeout, self.reader.read_buf(&mut self.taken)).await?;
            self.has_ended = read.map_err(broken)? == 0;
            // Decompression can be ready for a long time without yielding.
            tokio::task::consume_budget().await;
        }
        Ok(&self.taken)
    }

    /// The whole body; an error if it is larger than `bytes_max`.
    pub(super) async fn whole(mut self, bytes_max: usize, budget: &mut Budget) -> Result<Bytes, FailedAttempt> {
        if self.read(bytes_max.saturating_add(1), budget).await?.len() > bytes_max {
            return Err(FetchError::BodyTooLarge(bytes_max).into());
        }
        Ok(self.taken.freeze())
    }

    pub(super) async fn beginning(mut self, bytes_max: usize, budget: &mut Budget) -> Result<Bytes, FailedAttempt> {
        self.read(bytes_max, budget).await?;
        self.taken.truncate(bytes_max);
        Ok(self.taken.freeze())
    }
}

/// The decoder passes connection errors through; any other error is its own.
fn broken(error: io::Error) -> FailedAttempt {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => FailedAttempt::from(&error),
        Err(_) => FetchError::Undecodable.into(),
    }
}
