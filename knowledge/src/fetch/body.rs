//! The body of an answer, decompressed while it is read; what is counted is what comes out.

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
use super::failure::Failure;

/// How much room is made for the next read: what a bomb can put out beyond a limit before it is noticed.
const PIECE_BYTES: usize = 16 * 1024;

/// A body, read so far as somebody wanted it.
pub(super) struct Body {
    reader: Pin<Box<dyn AsyncRead + Send>>,
    taken: BytesMut,
    has_ended: bool,
    stall_timeout: Duration,
}

impl Body {
    /// The body of `response`, nothing read yet. Refuses at once what announces more than `bytes_max`.
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

    /// Reads on until at least `wanted` bytes are there, or the body ends; never a whole piece more.
    pub(super) async fn read(&mut self, wanted: usize, budget: &mut Budget) -> Result<&[u8], Failure> {
        while !self.has_ended && self.taken.len() < wanted {
            self.taken.reserve(PIECE_BYTES.min(wanted - self.taken.len()));
            let read = budget.spend(self.stall_timeout, self.reader.read_buf(&mut self.taken)).await?;
            self.has_ended = read.map_err(broken)? == 0;
            // Decompressing waits for nothing for long stretches.
            tokio::task::consume_budget().await;
        }
        Ok(&self.taken)
    }

    /// All of it, unless it is larger than `bytes_max`.
    pub(super) async fn whole(mut self, bytes_max: usize, budget: &mut Budget) -> Result<Bytes, Failure> {
        if self.read(bytes_max.saturating_add(1), budget).await?.len() > bytes_max {
            return Err(FetchError::BodyTooLarge(bytes_max).into());
        }
        Ok(self.taken.freeze())
    }

    /// Its first `bytes_max` bytes, or all of it.
    pub(super) async fn beginning(mut self, bytes_max: usize, budget: &mut Budget) -> Result<Bytes, Failure> {
        self.read(bytes_max, budget).await?;
        self.taken.truncate(bytes_max);
        Ok(self.taken.freeze())
    }
}

/// An error of the connection goes through the decoder as it is; any other is the decoder's own.
fn broken(error: io::Error) -> Failure {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => Failure::from(&error),
        Err(_) => FetchError::Undecodable.into(),
    }
}
