//! Refusals of feeds as errors (`docs/protocol/feeds.md`).

use app::services::feeds::FeedRefusal;

use super::error::{ApiError, Code};

impl From<FeedRefusal> for ApiError {
    fn from(refusal: FeedRefusal) -> Self {
        match refusal {
            FeedRefusal::Off | FeedRefusal::NotFound => Code::NotFound.into(),
            FeedRefusal::NoKinds => Self::invalid("kinds", "must name at least one kind"),
            FeedRefusal::AlreadyThere => Self::invalid("feed", "the account has one already"),
            FeedRefusal::Infra(error) => error.into(),
        }
    }
}
