//! The kinds of notification as fields of a form.

use std::collections::BTreeMap;

use domain::webhook::NotificationKind;

/// Prefix of the field of a kind.
const FIELD: &str = "kind.";

/// A kind, and whether it is chosen.
pub struct KindTick {
    pub name: &'static str,
    pub words: &'static str,
    pub is_on: bool,
}

/// All kinds; `is_on` selects the ticked ones.
pub fn ticks(is_on: impl Fn(NotificationKind) -> bool) -> Vec<KindTick> {
    let tick = |kind: NotificationKind| KindTick { name: kind.as_str(), words: words(kind), is_on: is_on(kind) };
    NotificationKind::ALL.iter().copied().map(tick).collect()
}

/// The choice in an empty form: the owner's own programs start batches and learn of their end.
pub fn is_on_at_first(kind: NotificationKind) -> bool {
    kind != NotificationKind::BatchDone
}

/// Whether a sent form has this kind.
pub fn is_sent(form: &BTreeMap<String, String>, kind: NotificationKind) -> bool {
    form.contains_key(&format!("{FIELD}{kind}"))
}

/// The kinds of a sent form; `None` if it has a field of an unknown kind.
pub fn sent(form: &BTreeMap<String, String>) -> Option<Vec<NotificationKind>> {
    let kinds = form.keys().filter_map(|name| name.strip_prefix(FIELD)).map(str::parse);
    kinds.collect::<Result<_, _>>().ok()
}

fn words(kind: NotificationKind) -> &'static str {
    match kind {
        NotificationKind::EventHeld => "an event is held",
        NotificationKind::AgentRevoked => "an agent is revoked",
        NotificationKind::ComputerDetached => "a computer is detached",
        NotificationKind::ConsentChanged => "a consent level changed",
        NotificationKind::BatchDone => "a batch of memories ended",
        NotificationKind::RuleMatched => "events match one of your rules",
    }
}
