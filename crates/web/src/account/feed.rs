//! The feed of an account: its link and the kinds of notification that it lists.

use std::collections::BTreeMap;

use api::HttpState;
use app::services::confirmation::RecentSignIn;
use app::services::feeds::{FeedRefusal, Feeds};
use askama::Template;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::secret::Secret;

use super::AccountOwner;
use super::kinds::{KindTick, is_on_at_first, is_sent, sent, ticks};
use super::undo::{ConfirmForm, UndoPage, gone, lines};
use crate::feed::feed_url;
use crate::visitor::{sign_in_again, sign_in_path};
use crate::{Moment, PageError, PageForm, PageLayout, PageResult, Site, page};

const PATH: &str = "/account/feed";

/// The state of these pages.
#[derive(Debug, Clone)]
pub struct FeedPages {
    site: Site,
    feeds: Feeds,
    recent: RecentSignIn,
}

impl FromRef<HttpState> for FeedPages {
    fn from_ref(state: &HttpState) -> Self {
        Self { site: Site::from_ref(state), feeds: FromRef::from_ref(state), recent: FromRef::from_ref(state) }
    }
}

#[derive(Template)]
#[template(path = "account/feed.html")]
struct FeedPage {
    frame: PageLayout,
    tab: &'static str,
    /// When it was created; `None` without a feed.
    created: Option<Moment>,
    days_kept: u64,
    form: KindForm,
    fresh: bool,
    /// URL for signing in again and returning here.
    sign_in: String,
}

/// The ticked kinds, with the fault of the sent ones.
struct KindForm {
    kinds: Vec<KindTick>,
    fault: Option<&'static str>,
}

/// The page that shows a secret link once.
#[derive(Template)]
#[template(path = "account/link.html")]
pub(super) struct LinkPage {
    pub(super) frame: PageLayout,
    pub(super) tab: &'static str,
    pub(super) title: &'static str,
    /// What to do with the link.
    pub(super) copy: &'static str,
    pub(super) hint: &'static str,
    pub(super) notice: Option<&'static str>,
    pub(super) warning: &'static str,
    /// Path of the page that follows.
    pub(super) back: &'static str,
    pub(super) link: String,
}

/// A field for each ticked kind.
type FeedForm = BTreeMap<String, String>;

/// The fault of a form with a field of an unknown kind.
const UNKNOWN_KIND: &str = "Choose the kinds again.";

impl FeedPages {
    fn refused(&self, owner: &AccountOwner, refusal: FeedRefusal) -> PageError {
        match refusal {
            FeedRefusal::NotFound => gone(&self.site, &owner.visitor),
            refusal => PageError::of(&self.site)(refusal),
        }
    }

    async fn draw(&self, owner: &AccountOwner, again: Option<(&FeedForm, &'static str)>) -> PageResult {
        let feed = self.feeds.find(&owner.account).await.map_err(|refusal| self.refused(owner, refusal))?;
        let (status, form) = match (again, &feed) {
            (Some((form, fault)), _) => {
                let kinds = ticks(|kind| is_sent(form, kind));
                (StatusCode::BAD_REQUEST, KindForm { kinds, fault: Some(fault) })
            }
            (None, Some(feed)) => {
                (StatusCode::OK, KindForm { kinds: ticks(|kind| feed.kinds.contains(&kind)), fault: None })
            }
            (None, None) => (StatusCode::OK, KindForm { kinds: ticks(is_on_at_first), fault: None }),
        };
        let now = self.site.ports.clock.now();
        Ok(page(
            status,
            &FeedPage {
                frame: PageLayout::new(&self.site, Some(&owner.visitor)),
                tab: "access",
                created: feed.map(|feed| Moment::new(feed.created_at, now)),
                days_kept: self.feeds.kept().as_secs().div_ceil(24 * 3600),
                form,
                fresh: self.recent.is_recent(owner.visitor.signed_in_at),
                sign_in: sign_in_path(&self.site, PATH),
            },
        ))
    }

    fn link_page(&self, owner: &AccountOwner, token: &Secret, is_replaced: bool) -> Response {
        let frame = PageLayout::new(&self.site, Some(&owner.visitor));
        let link = feed_url(&self.site, token.expose());
        page(
            StatusCode::OK,
            &LinkPage {
                frame,
                tab: "access",
                title: "The link of your feed",
                copy: "Copy it now to your feed reader.",
                hint: "The reader needs no sign-in: the link contains a secret.",
                notice: is_replaced.then_some("The old link has ended. Replace it in every reader that has it."),
                warning: "Anyone who has the link can read the notifications of your account. A service that reads feeds for you has it too. \
                    Replace it at any time.",
                back: PATH,
                link,
            },
        )
    }

    /// The form again with its fault, if the person can correct it.
    async fn refuse(&self, owner: &AccountOwner, form: &FeedForm, refusal: FeedRefusal) -> PageResult {
        match refusal {
            FeedRefusal::NoKinds => self.draw(owner, Some((form, "Choose at least one kind of notification."))).await,
            refusal => Err(self.refused(owner, refusal)),
        }
    }
}

/// `GET /account/feed`: the feed, or the form that creates it.
pub async fn show(State(pages): State<FeedPages>, owner: AccountOwner) -> PageResult {
    pages.draw(&owner, None).await
}

/// `POST /account/feed`: creates the feed and shows its link once. It requires a recent sign-in.
pub async fn create(
    State(pages): State<FeedPages>,
    owner: AccountOwner,
    PageForm(form): PageForm<FeedForm>,
) -> PageResult {
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else { return Ok(sign_in_again(&pages.site, PATH)) };
    let Some(kinds) = sent(&form) else { return pages.draw(&owner, Some((&form, UNKNOWN_KIND))).await };
    match pages.feeds.create(owner.account.clone(), &kinds, recently).await {
        Ok(token) => Ok(pages.link_page(&owner, &token, false)),
        Err(FeedRefusal::AlreadyThere) => {
            Ok(pages.site.to(PATH, "You have a feed. Its link was shown when it was created; a new link replaces it."))
        }
        Err(refusal) => pages.refuse(&owner, &form, refusal).await,
    }
}

/// `POST /account/feed/kinds`: replaces the kinds. It requires a recent sign-in.
pub async fn save(
    State(pages): State<FeedPages>,
    owner: AccountOwner,
    PageForm(form): PageForm<FeedForm>,
) -> PageResult {
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else { return Ok(sign_in_again(&pages.site, PATH)) };
    let Some(kinds) = sent(&form) else { return pages.draw(&owner, Some((&form, UNKNOWN_KIND))).await };
    match pages.feeds.change(owner.account.clone(), &kinds, recently).await {
        Ok(()) => Ok(pages.site.to(PATH, "The feed is saved.")),
        Err(refusal) => pages.refuse(&owner, &form, refusal).await,
    }
}

/// `POST /account/feed/link`: replaces the link and shows the new one once. It requires a recent sign-in.
pub async fn relink(
    State(pages): State<FeedPages>,
    owner: AccountOwner,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let Ok(recently) = pages.recent.check(owner.visitor.decides()) else { return Ok(sign_in_again(&pages.site, PATH)) };
    let token = pages.feeds.relink(owner.account.clone(), recently).await;
    let token = token.map_err(|refusal| pages.refused(&owner, refusal))?;
    Ok(pages.link_page(&owner, &token, true))
}

/// `GET /account/feed/delete`: asks for confirmation before the feed is deleted.
pub async fn question(State(pages): State<FeedPages>, owner: AccountOwner) -> PageResult {
    let feed = pages.feeds.find(&owner.account).await.map_err(|refusal| pages.refused(&owner, refusal))?;
    feed.ok_or_else(|| gone(&pages.site, &owner.visitor))?;
    let frame = PageLayout::new(&pages.site, Some(&owner.visitor));
    Ok(page(
        StatusCode::OK,
        &UndoPage {
            tab: "access",
            title: "Delete your feed?".into(),
            subject: "/feeds/fdt_…".into(),
            lost: lines(["The link: feed readers get nothing under it any more.", "The entries of the feed."]),
            kept: lines([
                "What the entries reported, on the pages of your account.",
                "Your webhooks, if you have some.",
            ]),
            button: "Delete permanently",
            action: format!("{}{PATH}/delete", frame.root),
            keep: format!("{}{PATH}", frame.root),
            frame,
        },
    ))
}

/// `POST /account/feed/delete`: deletes the feed with its entries.
pub async fn delete(
    State(pages): State<FeedPages>,
    owner: AccountOwner,
    PageForm(ConfirmForm {}): PageForm<ConfirmForm>,
) -> PageResult {
    let deleted = pages.feeds.delete(owner.account.clone()).await;
    deleted.map_err(|refusal| pages.refused(&owner, refusal))?;
    Ok(pages.site.to(PATH, "The feed is deleted."))
}
