//! The client of a witness (C2SP `tlog-witness`): it requests a cosignature of a checkpoint, with a proof that the tree continues the tree
//! that the witness cosigned before.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::Digest;
use domain::checkpoint::{Checkpoint, NotAKey, NoteFault};
use domain::cosignature::WitnessKey;
use reqwest::redirect::Policy;
use reqwest::{StatusCode, Url};

/// Maximum time of one request.
const DEADLINE: Duration = Duration::from_secs(5);
/// Maximum size of a response in bytes: a few signature lines, or a number.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Address and key of a witness; its text is `URL KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessAddress {
    url: Url,
    key: WitnessKey,
}

impl WitnessAddress {
    /// The verifier key, as text.
    pub fn key(&self) -> String {
        self.key.to_string()
    }

    /// Whether only the witness can answer: over TLS, or on this machine.
    fn is_authentic(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        self.url.scheme() == "https" || is_loopback
    }
}

/// The text is not the address of a witness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWitness {
    /// There is no space between URL and key.
    #[error("expected the URL and the key of a witness, with a space between them")]
    Form,
    /// The scheme of the URL is neither http nor https.
    #[error("the URL must begin with http:// or https://")]
    Url,
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] NotAKey),
}

impl FromStr for WitnessAddress {
    type Err = InvalidWitness;

    fn from_str(text: &str) -> Result<Self, InvalidWitness> {
        let (url, key) = text.trim().split_once(' ').ok_or(InvalidWitness::Form)?;
        let url = format!("{}/add-checkpoint", url.trim_end_matches('/'));
        let url = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        Ok(Self { url: url.ok_or(InvalidWitness::Url)?, key: key.trim().parse()? })
    }
}

/// A client of one witness. Clones share connections.
#[derive(Debug, Clone)]
pub struct WitnessClient {
    http: reqwest::Client,
    address: WitnessAddress,
}

/// The response to a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WitnessAnswer {
    /// Verified lines to append to the note.
    Cosigned(String),
    /// The witness has cosigned a tree of this size, or, without a size, another root of the same size.
    Conflict(Option<u64>),
    /// The proof does not hold for the tree that the witness cosigned.
    Inconsistent,
}

/// Why a witness did not return a valid response.
#[derive(Debug, thiserror::Error)]
pub enum WitnessFault {
    /// The request failed, or no response arrived.
    #[error("it cannot be asked")]
    Http(#[from] reqwest::Error),
    /// Another status: the witness does not know the log (404) or its key (403), or failed.
    #[error("it answers {0}")]
    Status(StatusCode),
    /// The response is too large or not text.
    #[error("its answer is too long, or no text")]
    Answer,
    /// The cosignature is invalid.
    #[error("its cosignature does not hold")]
    Cosignature(#[from] NoteFault),
}

impl WitnessClient {
    /// Creates a client; does not connect.
    pub fn new(address: WitnessAddress) -> Result<Self, WitnessFault> {
        let http = http_client::builder().timeout(DEADLINE).redirect(Policy::none()).no_proxy().build()?;
        Ok(Self { http, address })
    }

    /// The key of the witness, as text.
    pub fn key(&self) -> String {
        self.address.key.to_string()
    }

    /// The name of the witness.
    pub fn name(&self) -> &str {
        self.address.key.name()
    }

    /// Whether only the witness can answer: over TLS, or on this machine.
    pub fn is_authentic(&self) -> bool {
        self.address.is_authentic()
    }

    /// Whether `lines` contain a valid cosignature of the witness for `checkpoint`.
    pub fn has_cosigned(&self, checkpoint: &Checkpoint, lines: &str) -> bool {
        self.address.key.lines_over(&checkpoint.to_string(), lines).is_ok()
    }

    /// Requests a cosignature of `checkpoint`; `proof` leads from `old` leaves to its size.
    #[boxed]
    pub async fn add_checkpoint(
        &self,
        old: u64,
        proof: &[Digest],
        checkpoint: &str,
    ) -> Result<WitnessAnswer, WitnessFault> {
        let mut body = format!("old {old}\n");
        for hash in proof {
            // Writing to a string cannot fail.
            let _ = writeln!(body, "{}", BASE64_STANDARD.encode(hash.as_bytes()));
        }
        body.push('\n');
        body.push_str(checkpoint);
        let response = self.http.post(self.address.url.clone()).body(body).send().await?;
        let status = response.status();
        match status {
            StatusCode::OK => {
                let lines = text(response).await?;
                Ok(WitnessAnswer::Cosigned(self.address.key.cosignatures(checkpoint, &lines)?))
            }
            StatusCode::CONFLICT => Ok(WitnessAnswer::Conflict(text(response).await?.trim_end().parse().ok())),
            StatusCode::UNPROCESSABLE_ENTITY => Ok(WitnessAnswer::Inconsistent),
            _ => Err(WitnessFault::Status(status)),
        }
    }
}

async fn text(mut response: reqwest::Response) -> Result<String, WitnessFault> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await? {
        body.extend_from_slice(&part);
        if body.len() > ANSWER_BYTES_MAX {
            return Err(WitnessFault::Answer);
        }
    }
    String::from_utf8(body).map_err(|_| WitnessFault::Answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_and_a_key() {
        let key = "witness.example/w1+";
        assert_eq!("https://witness.example".parse::<WitnessAddress>(), Err(InvalidWitness::Form));
        assert!(matches!(format!("https://w.example {key}").parse::<WitnessAddress>(), Err(InvalidWitness::Key(_))));
        assert_eq!("ftp://w.example key".parse::<WitnessAddress>(), Err(InvalidWitness::Url));
    }

    #[test]
    fn only_tls_and_this_machine_are_authentic() {
        let key = "witness.example/w1+aa4a09d1+BOpKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs";
        for (url, is_authentic) in [
            ("https://w.example", true),
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://w.example", false),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
        ] {
            let address: WitnessAddress = format!("{url} {key}").parse().unwrap();
            assert_eq!(address.is_authentic(), is_authentic, "{url}");
        }
    }
}
