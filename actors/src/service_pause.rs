//! The pauses in force on this node (`docs/decisions/0041-pauses.md`). The actor that reads changes replaces them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use domain::Clock;
use domain::ids::UserAccountId;
use domain::service_pause::{PauseSubject, Paused, ServicePart, ServicePause};

/// The pauses in force. A check costs one atomic load while nothing is paused. Clones share them.
#[derive(Debug, Clone)]
pub struct ServicePauses {
    known: Arc<ArcSwap<Vec<ServicePause>>>,
    clock: Clock,
}

impl ServicePauses {
    /// Without pauses.
    pub fn new(clock: &Clock) -> Self {
        let pauses = Self { known: Arc::default(), clock: clock.clone() };
        pauses.measure();
        pauses
    }

    /// Replaces the pauses.
    pub fn replace(&self, pauses: Vec<ServicePause>) {
        if **self.known.load() != pauses {
            let in_force = pauses.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            tracing::info!(pauses = in_force, "pauses changed");
            self.known.store(Arc::new(pauses));
        }
        self.measure();
    }

    /// The pauses in force.
    pub fn in_force(&self) -> Vec<ServicePause> {
        let now = self.clock.now();
        self.known.load().iter().filter(|pause| pause.until > now).cloned().collect()
    }

    /// Refuses a request of anybody while the part is paused for all.
    pub fn check(&self, part: ServicePart) -> Result<(), Paused> {
        self.check_for(part, PauseSubject::default())
    }

    /// Refuses a request of an account while the part is paused for it, or for all.
    pub fn check_account(&self, part: ServicePart, account: &UserAccountId) -> Result<(), Paused> {
        self.check_for(part, PauseSubject { account: Some(account), ..PauseSubject::default() })
    }

    /// Refuses a request while the part is paused for its account, computer or lane, or for all.
    pub fn check_for(&self, part: ServicePart, subject: PauseSubject<'_>) -> Result<(), Paused> {
        let pauses = self.known.load();
        if pauses.is_empty() {
            return Ok(());
        }
        Paused::by(&**pauses, part, subject, self.clock.now()).map_or(Ok(()), Err)
    }

    /// Whether the part is paused for all.
    pub fn is_paused(&self, part: ServicePart) -> bool {
        self.check(part).is_err()
    }

    /// Sets the gauge `attache_paused` of each part to its number of pauses.
    fn measure(&self) {
        let in_force = self.in_force();
        for part in ServicePart::ALL {
            let number = in_force.iter().filter(|pause| pause.part == *part).count();
            metrics::gauge!("attache_paused", "what" => part.as_str()).set(u32::try_from(number).unwrap_or(u32::MAX));
        }
    }
}
