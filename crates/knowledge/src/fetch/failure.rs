//! A failed attempt, and whether it can be retried.

use std::error::Error;
use std::io;
use std::time::Duration;

use domain::fair::FairRefusal;

use super::FetchError;
use super::resolver::ResolveError;

/// Why an attempt failed, and whether to retry it.
#[derive(Debug)]
pub(super) struct FailedAttempt {
    pub(super) error: FetchError,
    pub(super) again: Retry,
}

/// When to send the same request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Not at all: the failure is permanent.
    Never,
    /// After a delay of the backoff.
    Soon,
    /// After the delay that the host requested, which applies to all its requests.
    AfterPause(Duration),
}

impl From<FetchError> for FailedAttempt {
    fn from(error: FetchError) -> Self {
        Self { error, again: Retry::Never }
    }
}

impl From<FairRefusal> for FailedAttempt {
    fn from(refusal: FairRefusal) -> Self {
        FetchError::from(refusal).into()
    }
}

impl From<&reqwest::Error> for FailedAttempt {
    fn from(error: &reqwest::Error) -> Self {
        let found = causes(error).find_map(|cause| {
            if let Some(refusal) = cause.downcast_ref::<ResolveError>() {
                return Some(match refusal {
                    ResolveError::Unknown => FetchError::NameNotFound,
                    ResolveError::Blocked => FetchError::BlockedAddress,
                });
            }
            if cause.is::<rustls::Error>() {
                return Some(FetchError::Untrusted);
            }
            let fault = cause.downcast_ref::<hyper::Error>()?;
            if fault.is_parse_too_large() {
                Some(FetchError::HeadTooLarge)
            } else {
                fault.is_parse().then_some(FetchError::NotHttp)
            }
        });
        if let Some(error) = found {
            error.into()
        } else if error.is_timeout() {
            FetchError::TooSlow.into()
        } else if error.is_builder() {
            FetchError::Unsendable.into()
        } else {
            Self { error: FetchError::NoConnection, again: Retry::Soon }
        }
    }
}

impl From<&reqwest::Error> for FetchError {
    fn from(error: &reqwest::Error) -> Self {
        FailedAttempt::from(error).error
    }
}

/// An error and its causes. The inner error of an `io::Error` is not its source, so it is unwrapped.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| {
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source())
    })
}
